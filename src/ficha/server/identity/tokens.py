"""JWTs as text: read strictly, then verified by PyJWT. What a verified one means is said by `jwts` and `job_tokens`.

Nothing in a token chooses how it is judged: its algorithm has to be the one that the caller names, addresses and keys
in its header (`jku`, `x5u`, `jwk`) are not looked at, and what it declares critical is not understood.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any, Final, NoReturn

import jwt
from jwt.exceptions import InvalidJTIError, InvalidSubjectError
from msgspec import Struct

from .callers import unauthenticated

TOKEN_LENGTH: Final = 8_192
LEEWAY_S: Final = 30
"""By how much clocks may differ."""
_LAST_AT: Final = 253_402_300_799
"""The end of the year 9999: what lies beyond is no date."""
_THREE_PARTS: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

_UNTRUSTED: Final = "is not signed with a key that this server trusts"
_PROBLEMS: Final[dict[type[jwt.PyJWTError], str]] = {
    jwt.ExpiredSignatureError: "has expired; get a new one",
    jwt.ImmatureSignatureError: "is not valid yet; check the clock of whoever issued it",
    jwt.InvalidAudienceError: "is meant for another audience (aud)",
    jwt.InvalidIssuerError: "is from another issuer (iss)",
    InvalidJTIError: "has an id (jti) that is not text",
    InvalidSubjectError: "has a subject (sub) that is not text",
    jwt.MissingRequiredClaimError: "lacks one of the claims that are needed: exp, aud, iss, sub",
}


class Token(Struct, frozen=True, gc=False):
    """What a token says, not yet verified."""

    text: str
    header: dict[str, Any]
    claims: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its media type, which keeps tokens of one use from another."""
        return str(self.header.get("typ", "")).lower().removeprefix("application/")

    def __repr__(self) -> str:
        """Without the text: whoever has it can use it."""
        return f"Token(kind={self.kind!r})"


def opened(text: str) -> Token:
    """The token's parts, refused unless they are JSON objects in base64url, each key there once."""
    if len(text) > TOKEN_LENGTH:
        raise unauthenticated(f"the token is longer than {TOKEN_LENGTH} characters")
    if _THREE_PARTS.fullmatch(text) is None:
        raise unauthenticated("this is no token: a JWT has three parts in base64url, with dots between them")
    header, claims, _ = text.split(".")
    try:
        token = Token(text, _object(header), _object(claims))
    except (ValueError, RecursionError):
        raise unauthenticated("the token is malformed: its parts are not JSON objects with each key once") from None
    if "crit" in token.header:
        raise unauthenticated("the token names a critical extension (crit); this server knows none")
    return token


def verified(
    token: Token, key: jwt.PyJWK | str, *, algorithm: str, audience: str, issuer: str, needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The token's claims, once its signature, dates, audience and issuer are found to be right."""
    for name in ("exp", "nbf", "iat"):
        # PyJWT would also take a date that is text or a truth value.
        if not _is_date(token.claims.get(name, 0)):
            raise unauthenticated(f"the token's {name} is not a date: seconds since 1970, as a number")
    try:
        return jwt.decode(
            token.text,
            key,
            algorithms=[algorithm],
            audience=audience,
            issuer=issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "aud", "iss", "sub", *needed], "enforce_minimum_key_length": True},
        )
    except jwt.PyJWTError as error:
        raise unauthenticated(f"the token {_PROBLEMS.get(type(error), _UNTRUSTED)}") from None


def _object(part: str) -> dict[str, Any]:
    text = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()
    found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice, two readers may each take another value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_date(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_AT
