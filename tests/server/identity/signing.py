"""Tokens, right and wrong: signed with real keys, or put together by hand as no library would."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

SERVER_SECRET = "the server's own secret: 7Zk2vQp9Lm4XwR8t"  # noqa: S105 (nobody's)
JWT_SECRET = "a secret shared with the issuer: b3N6yT1cHs5K"  # noqa: S105 (nobody's)
AUDIENCE = "shop"
ISSUER = "https://id.example"

Sign = Callable[[bytes], bytes]


class Signer:
    """A key pair of the issuer."""

    def __init__(self, algorithm: str, kid: str | None) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.private = private_key(algorithm, kid)

    @property
    def jwk(self) -> dict[str, Any]:
        """The public half, as it is published."""
        kind: Any = {"RS": RSAAlgorithm, "ES": ECAlgorithm, "Ed": OKPAlgorithm}[self.algorithm[:2]]
        named = {} if self.kid is None else {"kid": self.kid}
        return kind.to_jwk(self.private.public_key(), as_dict=True) | named

    def token(self, algorithm: str | None = None, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        named = {} if self.kid is None else {"kid": self.kid}
        return jwt.encode(claims(**changes), self.private, algorithm or self.algorithm, headers=named | (headers or {}))


@cache
def private_key(algorithm: str, name: str | None) -> Any:
    """The private key of that name; made once, because large primes take a while."""
    match algorithm[:2]:
        case "RS":
            return rsa.generate_private_key(65_537, 2_048)
        case "ES":
            return ec.generate_private_key(ec.SECP256R1())
        case _:
            return ed25519.Ed25519PrivateKey.generate()


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a good token; a change to `...` leaves the claim out."""
    good = {"sub": "ana", "aud": AUDIENCE, "iss": ISSUER, "exp": int(time.time()) + 600}
    return {name: value for name, value in (good | changes).items() if value is not ...}


def with_secret(message: bytes) -> bytes:
    return hmac.digest(JWT_SECRET.encode(), message, hashlib.sha256)


def unsigned(message: bytes) -> bytes:
    return b""


def shared_token(header: str | dict[str, Any] | None = None, body: str | bytes | None = None, **changes: Any) -> str:
    """Signed with the shared secret, whatever it says."""
    return put_together(header or {"alg": "HS256"}, claims(**changes) if body is None else body, with_secret)


def put_together(header: str | bytes | dict[str, Any], body: str | bytes | dict[str, Any], sign: Sign) -> str:
    """A token of these parts, as they are: text goes in unread, so that it may be anything."""
    message = b".".join(encoded(_bytes(part)) for part in (header, body))
    return b".".join((message, encoded(sign(message)))).decode()


def _bytes(part: str | bytes | dict[str, Any]) -> bytes:
    if isinstance(part, bytes):
        return part
    return (part if isinstance(part, str) else json.dumps(part)).encode()


def encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
