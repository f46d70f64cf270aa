"""What identity is told once. A weak or half-made setting is refused when the server starts, and not when somebody
shows a token."""

from __future__ import annotations

from typing import Final, Protocol
from urllib.parse import urlsplit

import jwt

SECRET_BYTES: Final = 32
JOB_AUDIENCE: Final = "ficha:job"
"""The audience of Ficha's own tokens, which no JWT from outside may have."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HOW: Final = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


class IdentitySettings(Protocol):
    """Those of the server's settings that say how callers are known."""

    @property
    def secret(self) -> str:
        """Signs the tokens of jobs; the same in every process of one installation."""

    @property
    def jwt_secret(self) -> str | None:
        """The secret of JWTs that are signed with HS256."""

    @property
    def jwt_jwks_url(self) -> str | None:
        """Where the public keys of JWTs are that are signed with RS256, ES256 or EdDSA."""

    @property
    def jwt_audience(self) -> str | None:
        """What `aud` of a JWT must be, or hold."""

    @property
    def jwt_issuer(self) -> str | None:
        """What `iss` of a JWT must be."""

    @property
    def attempts_per_hour(self) -> int:
        """Failed attempts of one address, and with one key's hint, that are heard out."""


def setting_problem(settings: IdentitySettings) -> str | None:
    """Why nobody could be known safely by these settings, if so."""
    if len(settings.secret.encode()) < SECRET_BYTES:
        return f"FICHA_SECRET must have at least {SECRET_BYTES} characters; {_HOW}"
    if settings.attempts_per_hour < 1:
        return f"FICHA_ATTEMPTS_PER_HOUR must be a whole number from 1 up, not {settings.attempts_per_hour}"
    secret, url = settings.jwt_secret, settings.jwt_jwks_url
    if secret is None and url is None:
        return None
    if secret is not None and url is not None:
        # A server that takes both kinds can be talked into taking a public key for a shared secret.
        return "set FICHA_JWT_SECRET or FICHA_JWT_JWKS_URL, not both: a token has one kind of signature"
    if not settings.jwt_audience or not settings.jwt_issuer:
        return "to accept JWTs, set FICHA_JWT_AUDIENCE and FICHA_JWT_ISSUER too: whom they are for, and whose they are"
    if settings.jwt_audience == JOB_AUDIENCE:
        return f"FICHA_JWT_AUDIENCE must not be {JOB_AUDIENCE}, which is that of Ficha's own tokens"
    return _secret_problem(secret) if secret is not None else _url_problem(url or "")


def _secret_problem(secret: str) -> str | None:
    if len(secret.encode()) < SECRET_BYTES:
        return f"FICHA_JWT_SECRET must have at least {SECRET_BYTES} bytes; {_HOW}"
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(secret)
    except jwt.InvalidKeyError:
        return (
            "FICHA_JWT_SECRET looks like a public key or a certificate, which is no secret; for tokens that are signed "
            "with a key pair set FICHA_JWT_JWKS_URL"
        )
    return None


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        scheme, host, user = parts.scheme, parts.hostname, parts.username
    except ValueError:
        scheme, host, user = "", None, None
    if host is None or (scheme != "https" and not (scheme == "http" and host in _LOOPBACK)):
        return (
            "FICHA_JWT_JWKS_URL must be an address that begins with https:// (or http:// on this machine): whoever can "
            "change the answer can sign tokens"
        )
    if user is not None:
        return "FICHA_JWT_JWKS_URL must not hold a name and password; public keys are for everybody"
    return None
