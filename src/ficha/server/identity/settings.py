"""The settings of authentication. Weak or incomplete ones are refused at the server's start, not at the first token."""

from __future__ import annotations

from typing import Final, Protocol
from urllib.parse import urlsplit

import jwt

SECRET_BYTES: Final = 32
JOB_AUDIENCE: Final = "ficha:job"
"""The audience of job tokens, which no JWT of users may have."""
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HINT: Final = "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"


class IdentitySettings(Protocol):
    """The part of the server's settings that concerns authentication."""

    @property
    def secret(self) -> str:
        """Signs job tokens and sign-ins; the same in every process of a deployment."""

    @property
    def jwt_secret(self) -> str | None:
        """The secret of JWTs signed with HS256."""

    @property
    def jwt_jwks_url(self) -> str | None:
        """The URL of the public keys of JWTs signed with RS256, ES256 or EdDSA."""

    @property
    def jwt_audience(self) -> str | None:
        """What `aud` of a JWT must be, or contain."""

    @property
    def jwt_issuer(self) -> str | None:
        """What `iss` of a JWT must be."""

    @property
    def sign_in_s(self) -> float:
        """How long a sign-in lasts at most."""

    @property
    def attempts_per_hour(self) -> int:
        """How many failed attempts are allowed per address, and per key's hint."""


def setting_problem(settings: IdentitySettings) -> str | None:
    """What is wrong or unsafe in these settings, if anything."""
    if len(settings.secret.encode()) < SECRET_BYTES:
        return f"FICHA_SECRET must have at least {SECRET_BYTES} characters; {_HINT}"
    if settings.attempts_per_hour < 1:
        return f"FICHA_ATTEMPTS_PER_HOUR must be a whole number from 1 up, not {settings.attempts_per_hour}"
    secret, url = settings.jwt_secret, settings.jwt_jwks_url
    if secret is None and url is None:
        return None
    if secret is not None and url is not None:
        # A server that accepts both can be tricked into using a public key as a shared secret.
        return "set FICHA_JWT_SECRET or FICHA_JWT_JWKS_URL, not both: a token has one kind of signature"
    if not settings.jwt_audience or not settings.jwt_issuer:
        return "to accept JWTs, set FICHA_JWT_AUDIENCE and FICHA_JWT_ISSUER too: what their aud and iss must be"
    if settings.jwt_audience == JOB_AUDIENCE:
        return f"FICHA_JWT_AUDIENCE must not be {JOB_AUDIENCE}, the audience of job tokens"
    return _secret_problem(secret) if secret is not None else _url_problem(url or "")


def _secret_problem(secret: str) -> str | None:
    if len(secret.encode()) < SECRET_BYTES:
        return f"FICHA_JWT_SECRET must have at least {SECRET_BYTES} bytes; {_HINT}"
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(secret)
    except jwt.InvalidKeyError:
        return (
            "FICHA_JWT_SECRET looks like a public key or a certificate, which is no secret; for tokens signed with a "
            "key pair set FICHA_JWT_JWKS_URL"
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
            "FICHA_JWT_JWKS_URL must begin with https:// (or http:// on this machine): anybody who can change the "
            "response can sign tokens"
        )
    if user is not None:
        return "FICHA_JWT_JWKS_URL must not contain a name and password; public keys need none"
    return None
