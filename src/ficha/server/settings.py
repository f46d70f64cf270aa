"""The server's settings, from its environment: secrets, authentication, origins, and limits on sizes and times."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import fields

from ..environment import SettingError, listed, setting
from ..store.database_url import hidden
from .identity.settings import setting_problem

WEAK_PREFIXES: Final = ("secret", "changeme", "password", "example")
MIN_DISTINCT: Final = 8
"""How many different characters a secret must have at least. It must not begin with a word of `WEAK_PREFIXES`
either."""
HINT: Final = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


class Settings(Struct, frozen=True, kw_only=True):
    """The server's settings. Each field can be set by its environment variable, or by a file: the variable with `_FILE`
    appended names its path.

    secret: FICHA_SECRET. Signs job tokens, sign-ins and cursors; all processes of a deployment share it.
    jwt_secret: FICHA_JWT_SECRET. Accepts JWTs signed with it (HS256).
    jwt_jwks_url: FICHA_JWT_JWKS_URL. Accepts JWTs signed with a key found there (RS256, ES256, EdDSA).
    jwt_audience, jwt_issuer: FICHA_JWT_AUDIENCE, FICHA_JWT_ISSUER. What a JWT must name; both are needed to accept any.
    console: FICHA_CONSOLE. Whether the console is served, at `/console`: on or off. Defaults to on.
    cors_origins: FICHA_CORS_ORIGINS. Web pages that may call, separated by commas. Defaults to none.
    trusted_proxies: FICHA_TRUSTED_PROXIES. Addresses and networks of proxies whose `X-Forwarded-*` headers are
        believed, separated by commas. Defaults to none.
    body_bytes: FICHA_BODY_BYTES. The largest request body. Defaults to 1 MiB.
    batch_body_bytes: FICHA_BATCH_BODY_BYTES. The same for a batch of jobs. Defaults to 16 MiB.
    body_s: FICHA_BODY_S. How long a body may take to arrive. Defaults to 30.
    header_bytes: FICHA_HEADER_BYTES. The most for the request line and all headers together. Defaults to 32 KiB.
    header_s: FICHA_HEADER_S. How long they may take to arrive. Defaults to 10.
    wait_s: FICHA_WAIT_S. The longest `Prefer: wait`, and the longest that a claim waits for work. Defaults to 30.
    sign_in_s: FICHA_SIGN_IN_S. How long a browser stays signed in. Defaults to 12 hours.
    attempts_per_hour: FICHA_ATTEMPTS_PER_HOUR. Failed attempts to authenticate per address, and per key. Defaults to
        100.
    write_s: FICHA_WRITE_S. How long a client may take for each 256 KiB of an answer. Defaults to 30.
    streams: FICHA_STREAMS. Open live streams per process. Defaults to 5,000.
    account_streams: FICHA_ACCOUNT_STREAMS. Open live streams per account and process. Defaults to 50.
    account_requests: FICHA_ACCOUNT_REQUESTS. Requests under way per account and process. Defaults to 100.
    account_turns: FICHA_ACCOUNT_TURNS. Requests of one account that a process works on at a time; the others wait for
        their turn. Defaults to 4.
    account_bytes: FICHA_ACCOUNT_BYTES. Bytes of bodies and large answers under way per account and process. Defaults to
        64 MiB.
    account_uploads: FICHA_ACCOUNT_UPLOADS. Uploads under way per account and process. Defaults to 4.
    environment: FICHA_ENVIRONMENT. The name of this installation, such as `production`, which the console shows above
        every page. Defaults to none.
    trace_url: FICHA_TRACE_URL. Where a job's trace is shown, with `{trace_id}` or `{correlation_id}` in place of the
        job's own; the console links it. Defaults to none.
    operator_streams, operator_requests, operator_bytes, operator_uploads: FICHA_OPERATOR_STREAMS,
        FICHA_OPERATOR_REQUESTS, FICHA_OPERATOR_BYTES, FICHA_OPERATOR_UPLOADS. The same per service, admin or
        viewer key. Default to 4,000, 2,000, 512 MiB and 100.
    """

    secret: str
    jwt_secret: str | None = None
    jwt_jwks_url: str | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None
    console: bool = True
    cors_origins: tuple[str, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    environment: str | None = None
    trace_url: str | None = None
    body_bytes: int = 1_048_576
    batch_body_bytes: int = 16_777_216
    body_s: float = 30.0
    header_bytes: int = 32_768
    header_s: float = 10.0
    wait_s: float = 30.0
    sign_in_s: float = 43_200.0
    attempts_per_hour: int = 100
    write_s: float = 30.0
    streams: int = 5_000
    account_streams: int = 50
    account_requests: int = 100
    account_turns: int = 4
    account_bytes: int = 67_108_864
    account_uploads: int = 4
    operator_streams: int = 4_000
    operator_requests: int = 2_000
    operator_bytes: int = 536_870_912
    operator_uploads: int = 100

    def __post_init__(self) -> None:
        if len(set(self.secret)) < MIN_DISTINCT or self.secret.lower().startswith(WEAK_PREFIXES):
            raise SettingError(f"FICHA_SECRET is easily guessed; {HINT}")
        if (problem := setting_problem(self)) is not None:
            raise SettingError(problem)
        for proxy in self.trusted_proxies:
            _check_network(proxy)
        if self.trace_url is not None and not (
            self.trace_url.startswith(("http://", "https://"))
            and ("{trace_id}" in self.trace_url or "{correlation_id}" in self.trace_url)
        ):
            raise SettingError("FICHA_TRACE_URL must be an http URL that has {trace_id} or {correlation_id} in it")

    def __repr__(self) -> str:
        """Without the secrets, because settings are shown in errors and logs."""
        keys = None if self.jwt_jwks_url is None else hidden(self.jwt_jwks_url)
        return f"Settings(jwt_jwks_url={keys!r}, jwt_issuer={self.jwt_issuer!r}, …)"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, **given: Any) -> Settings:
        """The environment's settings; those given here take precedence."""
        source = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for name in cls.__struct_fields__:
            variable = f"FICHA_{name.upper()}"
            if (text := setting(source, variable)) is not None:
                found[name] = _converted(name, variable, text)
        found |= given
        if "secret" not in found:
            raise SettingError(f"FICHA_SECRET is not set: it signs job tokens, sign-ins and cursors; {HINT}")
        return cls(**found)

    @classmethod
    def passing(cls, **given: Any) -> Settings:
        """The environment's settings; where FICHA_SECRET is not set, with a random secret that this process forgets."""
        if not cls.has_secret():
            given.setdefault("secret", _process_secret())
        return cls.from_environment(**given)

    @staticmethod
    def has_secret() -> bool:
        """Whether the environment sets FICHA_SECRET."""
        return setting(os.environ, "FICHA_SECRET") is not None


@cache
def _process_secret() -> str:
    """One secret for all servers of this process."""
    return secrets.token_urlsafe(32)


def _check_network(text: str) -> None:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise SettingError(
            f"FICHA_TRUSTED_PROXIES must be addresses or networks such as 10.0.0.7 or 10.0.0.0/8, not {text!r}"
        ) from None


_SWITCHES: Final = {"on": True, "1": True, "true": True, "off": False, "0": False, "false": False}


def _switch(text: str) -> bool:
    if (found := _SWITCHES.get(text.strip().lower())) is None:
        raise ValueError
    return found


_CONVERTERS: Final[dict[str, Callable[[str], Any]]] = {
    "console": _switch,
    "cors_origins": listed,
    "trusted_proxies": listed,
    **{field.name: field.type for field in fields(Settings) if field.type in (int, float)},
}


def _converted(name: str, variable: str, text: str) -> Any:
    convert = _CONVERTERS.get(name, str)
    try:
        value = convert(text)
    except ValueError:
        wanted = "on or off" if convert is _switch else "a number"
        raise SettingError(f"{variable} must be {wanted}, not {text!r}") from None
    if convert in (int, float) and not 0 < value < 2**53:
        raise SettingError(f"{variable} must be a number above 0, not {text!r}")
    return value
