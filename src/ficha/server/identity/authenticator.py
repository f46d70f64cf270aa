"""Identity: from what a request shows to who it is from. Whoever cannot be known is refused; nobody is let in by
default, and nothing of what was shown is logged or said back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...api_key_text import hint_of, is_well_formed
from ...core.outcomes import Refusal
from ...errors import Refused
from .api_keys import ApiKeyAuthenticator
from .attempts import Attempts
from .callers import Caller, unauthenticated
from .job_tokens import KIND, JobTokens
from .jwts import Jwts
from .settings import IdentitySettings, setting_problem
from .tokens import opened

if TYPE_CHECKING:
    from ...app import Ficha

_BEARER: Final = re.compile(r"bearer +([!-~]+) *", re.IGNORECASE | re.ASCII)


class Identity:
    """Knows callers by API key, JWT or the token of one job. The application must be open when one is asked for.

    job_tokens: makes tokens of one job.
    """

    def __init__(self, app: Ficha, settings: IdentitySettings, *, clock: Callable[[], float] = time.monotonic) -> None:
        if (problem := setting_problem(settings)) is not None:
            raise ValueError(problem)
        self.job_tokens = JobTokens(settings.secret)
        self._keys = ApiKeyAuthenticator(app, clock)
        self._jwts = Jwts(settings, clock)
        self._attempts = Attempts(settings.attempts_per_hour, clock)

    async def caller(self, authorization: str | None, *, token: str | None = None, peer: str) -> Caller:
        """Who this is: by the header `Authorization`, or, where headers cannot be sent, by a job's token in the
        address. Raises UNAUTHENTICATED, or RATE_LIMITED once this peer, or this key's hint, has failed too often."""
        if authorization is None and token is None:
            # Showing nothing is no attempt.
            raise unauthenticated("say who you are: send the header `Authorization: Bearer <API key or token>`")
        shown = _BEARER.fullmatch(authorization or "")
        try:
            if token is not None:
                return self._by_address(authorization, token)
            if shown is None:
                raise unauthenticated("the header Authorization must be `Bearer`, a space, and an API key or a token")
            return await self._by_header(shown[1])
        except Refused as refused:
            if refused.code != "UNAUTHENTICATED":
                raise
            hint = hint_of(shown[1]) if shown is not None and is_well_formed(shown[1]) else None
            wait_s = self._attempts.failed(peer, hint)
            if wait_s is None:
                raise
        raise Refused.of(
            Refusal(
                "RATE_LIMITED",
                "too many attempts with credentials that are not valid; nothing was changed. A valid one is taken at "
                "any time.",
                retry_after_s=round(wait_s, 3),
            )
        )

    def forget(self, key_id: str) -> None:
        """The key was revoked here: it is refused from now on, not in two seconds."""
        self._keys.forget(key_id)

    async def close(self) -> None:
        await self._keys.close()
        await self._jwts.close()

    async def _by_header(self, text: str) -> Caller:
        if text.startswith("ficha_"):
            return await self._keys.caller(text)
        if text.count(".") != 2:
            raise unauthenticated("this is neither an API key (ficha_…) nor a token with three parts")
        token = opened(text)
        return self.job_tokens.caller(token) if token.kind == KIND else await self._jwts.caller(token)

    def _by_address(self, authorization: str | None, text: str) -> Caller:
        """Addresses are kept in logs and histories, so only what is short-lived and can do little may be in them."""
        if authorization is not None:
            raise unauthenticated("send the header Authorization or ?token=, not both")
        token = opened(text)
        if token.kind != KIND:
            raise unauthenticated(
                "only the token of one job may be sent as ?token=; anything else goes into the header"
            )
        return self.job_tokens.caller(token)
