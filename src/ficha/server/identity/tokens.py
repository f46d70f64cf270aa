"""Parses JWTs strictly and verifies them with PyJWT. `jwts` and `job_tokens` say what a verified one means.

A token cannot choose how it is verified: its algorithm must be the one given here, URLs and keys in its header (`jku`,
`x5u`, `jwk`) are ignored, and one with critical extensions (`crit`) is refused.
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
"""How much clocks may differ."""
_LAST_AT: Final = 253_402_300_799
"""The end of the year 9999: a larger number is no date."""
_THREE_PARTS: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")

_UNTRUSTED: Final = "is not signed with a key that this server trusts"
_PROBLEMS: Final[dict[type[jwt.PyJWTError], str]] = {
    jwt.ExpiredSignatureError: "has expired; get a new one",
    jwt.ImmatureSignatureError: "is not valid yet; check the issuer's clock",
    jwt.InvalidAudienceError: "is for another audience (aud)",
    jwt.InvalidIssuerError: "is from another issuer (iss)",
    InvalidJTIError: "has an id (jti) that is not text",
    InvalidSubjectError: "has a subject (sub) that is not text",
    jwt.MissingRequiredClaimError: "lacks a required claim: exp, aud, iss or sub",
}


class Token(Struct, frozen=True, gc=False):
    """A parsed token, not yet verified."""

    text: str
    header: dict[str, Any]
    claims: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its media type (`typ`), which tells tokens of different purposes apart."""
        return str(self.header.get("typ", "")).lower().removeprefix("application/")

    def __repr__(self) -> str:
        """Without the text, which is a credential."""
        return f"Token(kind={self.kind!r})"


def parsed(text: str) -> Token:
    """Parses a token; refused unless its parts are JSON objects in base64url without repeated keys."""
    if len(text) > TOKEN_LENGTH:
        raise unauthenticated(f"the token is longer than {TOKEN_LENGTH} characters")
    if _THREE_PARTS.fullmatch(text) is None:
        raise unauthenticated("the credential is no JWT: that has three parts in base64url, with dots between them")
    header, claims, _ = text.split(".")
    try:
        token = Token(text, _object(header), _object(claims))
    except (ValueError, RecursionError):
        raise unauthenticated("the token is malformed: its parts must be JSON objects without repeated keys") from None
    if "crit" in token.header:
        raise unauthenticated("the token requires a critical extension (crit); this server supports none")
    return token


def verified(
    token: Token, key: jwt.PyJWK | str, *, algorithm: str, audience: str, issuer: str, needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The token's claims, after its signature, dates, audience and issuer were verified."""
    for name in ("exp", "nbf", "iat"):
        # PyJWT would also accept text or a boolean as a date.
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
    found = json.loads(text, object_pairs_hook=_no_repeated_keys, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _no_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuses repeated keys: two parsers might each use another of the values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_date(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _LAST_AT
