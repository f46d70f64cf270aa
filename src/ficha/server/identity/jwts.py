"""JWTs of users who signed in elsewhere; `sub` is the account.

A server accepts either one shared secret (HS256) or published keys (RS256, ES256, EdDSA), never both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import jwt

from ...core.policy import OWN_PREFIX
from ...declarations import name_problem
from .callers import Caller, unauthenticated
from .jwks import ALGORITHMS, Jwks
from .settings import IdentitySettings
from .tokens import Token, verified

_KINDS: Final = frozenset({"", "jwt", "at+jwt"})
"""No type, `JWT`, or an access token of RFC 9068: not what the same keys sign for other purposes."""


class Jwts:
    def __init__(self, settings: IdentitySettings, clock: Callable[[], float]) -> None:
        self._settings = settings
        url = settings.jwt_jwks_url
        self._jwks = None if url is None else Jwks(url, clock)

    async def caller(self, token: Token) -> Caller:
        audience, issuer = self._accepted()
        if token.kind not in _KINDS:
            raise unauthenticated("the token has a type (typ) that is not for authentication")
        key, algorithm = await self._key(token)
        claims = verified(token, key, algorithm=algorithm, audience=audience, issuer=issuer)
        account = claims["sub"]
        if (problem := name_problem(account, "the token's subject (sub)")) is not None:
            raise unauthenticated(f"{problem}, because it names the account")
        if account.startswith(OWN_PREFIX):
            raise unauthenticated(f"accounts whose ids begin with {OWN_PREFIX!r} are Ficha's own")
        return self._caller(account, claims["exp"])

    def signed_in(self, account: str, ends_at: float) -> Caller:
        """The caller who signed in with a JWT for this account. Refused once this server accepts no JWTs any more."""
        self._accepted()
        return self._caller(account, ends_at)

    def _accepted(self) -> tuple[str, str]:
        """The audience and the issuer of the JWTs that are accepted."""
        audience, issuer = self._settings.jwt_audience, self._settings.jwt_issuer
        if audience is None or issuer is None:
            raise unauthenticated("this server accepts no JWTs; send an API key or a job token")
        return audience, issuer

    def _caller(self, account: str, expires_at: float) -> Caller:
        return Caller("user", account, name=f"jwt {account}", expires_at=expires_at)

    async def close(self) -> None:
        if self._jwks is not None:
            await self._jwks.close()

    async def _key(self, token: Token) -> tuple[jwt.PyJWK | str, str]:
        """The key and the algorithm that the token must be signed with; the secret is used with HS256 only."""
        algorithm, kid = token.header.get("alg"), token.header.get("kid")
        if self._jwks is None:
            assert self._settings.jwt_secret is not None
            return self._settings.jwt_secret, "HS256"
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise unauthenticated(f"the token is not signed with one of {', '.join(sorted(ALGORITHMS))}")
        if not isinstance(kid, str | None):
            raise unauthenticated("the token's key id (kid) is not text")
        key = await self._jwks.key(kid, algorithm)
        if key is None:
            raise unauthenticated("the token is signed with a key that its issuer does not publish")
        return key, algorithm
