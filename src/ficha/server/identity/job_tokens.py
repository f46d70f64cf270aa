"""Job tokens, for browsers: short-lived tokens of this server, to see and cancel one job only.

They are JWTs that cannot be confused with those of users: their key is derived from the server's secret under a label,
and no other token has their type and audience.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from datetime import UTC, datetime
from typing import Final

import jwt

from ...engine.views import JobToken
from ...validation import invalid
from .callers import Caller
from .settings import JOB_AUDIENCE
from .tokens import Token, verified

KIND: Final = "ficha-job+jwt"
TTL_S: Final = 900.0
MAX_TTL_S: Final = 86_400.0
_ISSUER: Final = "ficha"
_LABEL: Final = b"ficha: tokens of one job, 1"


class JobTokens:
    def __init__(self, secret: str) -> None:
        self._key = hmac.new(secret.encode(), _LABEL, hashlib.sha256).hexdigest()

    def issue(self, job_id: str, account: str, ttl_s: float = TTL_S, *, by: Caller | None = None) -> JobToken:
        """A token for this job, valid no longer than the credential of `by`, who asked for it and may see the job."""
        if not 0 < ttl_s <= MAX_TTL_S:
            raise invalid(f"ttl_s must be a number of seconds above 0 and up to {MAX_TTL_S:.0f}")
        issued_at = int(time.time())
        expires_at = issued_at + math.ceil(ttl_s)
        if by is not None and by.expires_at is not None:
            expires_at = min(expires_at, int(by.expires_at))
        claims = {
            "iss": _ISSUER,
            "aud": JOB_AUDIENCE,
            "sub": account,
            "job": job_id,
            "iat": issued_at,
            "exp": expires_at,
        }
        if by is not None and by.key_id is not None:
            claims["key"] = by.key_id
        text = jwt.encode(claims, self._key, algorithm="HS256", headers={"typ": KIND})
        return JobToken(text, datetime.fromtimestamp(expires_at, UTC))

    def caller(self, token: Token) -> Caller:
        claims = verified(token, self._key, algorithm="HS256", audience=JOB_AUDIENCE, issuer=_ISSUER, needed=("job",))
        name = f"job token {claims['job']}"
        return Caller("job", claims["sub"], claims["job"], name, claims.get("key"), claims["exp"])
