"""Finds the caller of a request by its credential. A request without a valid credential is refused, and no part of one
is logged or sent back."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from ...api_key_text import hint_of, is_well_formed
from ...core.outcomes import Refusal
from ...errors import Refused
from .api_keys import ApiKeyAuthenticator, Ended
from .attempts import Attempts
from .callers import Caller, unauthenticated
from .job_tokens import KIND, JobTokens
from .jwts import Jwts
from .settings import IdentitySettings, setting_problem
from .sign_ins import SignIn, SignIns
from .tokens import Token, parsed

if TYPE_CHECKING:
    from ...app import Ficha

_BEARER: Final = re.compile(r"bearer +([!-~]+) *", re.IGNORECASE | re.ASCII)


def expired() -> Refused:
    return unauthenticated("the credential has expired; get a new one")


def _too_many_attempts(wait_s: float) -> Refused:
    return Refused.of(
        Refusal(
            "RATE_LIMITED",
            "too many attempts with invalid credentials; nothing was changed. A valid one is accepted at any time.",
            retry_after_s=round(wait_s, 3),
        )
    )


class Identity:
    """Authenticates by API key, JWT, job token or the cookie of a sign-in. The application must be open by the first
    request.

    job_tokens: issues job tokens.
    """

    def __init__(
        self,
        app: Ficha,
        settings: IdentitySettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        if (problem := setting_problem(settings)) is not None:
            raise ValueError(problem)
        self.job_tokens = JobTokens(settings.secret)
        self._sign_ins = SignIns(settings.secret, settings.sign_in_s, wall_clock)
        self._keys = ApiKeyAuthenticator(app, clock)
        self._jwts = Jwts(settings, clock)
        self._attempts = Attempts(settings.attempts_per_hour, clock)

    async def caller(
        self, authorization: str | None, *, token: str | None = None, cookie: str | None = None, peer: str
    ) -> Caller:
        """The caller, by the header `Authorization`; where headers cannot be sent, by a job token in the URL; without
        either, by the cookie of a sign-in. Raises UNAUTHENTICATED, or RATE_LIMITED once this peer or this key's hint
        has failed too often."""
        if authorization is None and token is None:
            if cookie is None:
                # A request without a credential does not count as an attempt.
                raise unauthenticated(
                    "no credential was sent: send the header `Authorization: Bearer <API key or token>`, or sign in"
                )
            with self._counting_failures(peer):
                sign_in = self._sign_ins.read(cookie)
            # Browsers send the cookie by themselves, so an ended sign-in does not count as an attempt.
            return await self._signed_in(sign_in)
        credential = _BEARER.fullmatch(authorization or "")
        with self._counting_failures(peer, None if credential is None else credential[1]):
            if token is not None:
                return await self._by_address(authorization, token)
            if credential is None:
                raise unauthenticated("the header Authorization must be `Bearer`, a space, and an API key or a token")
            return await self._by_header(credential[1])

    async def sign_in(self, text: str, *, peer: str) -> tuple[Caller, str]:
        """Who signs in with this API key or JWT, and their cookie's text. A failure counts as in `caller`."""
        with self._counting_failures(peer, text):
            caller = await self._by_header(text)
        if caller.scope == "job":
            raise Refused.of(Refusal("FORBIDDEN", "a job token is for one job; sign in with an API key or a JWT."))
        cookie, sign_in = self._sign_ins.issue(caller)
        return replace(caller, expires_at=sign_in.ends_at), cookie

    async def _signed_in(self, sign_in: SignIn) -> Caller:
        self._sign_ins.check(sign_in)
        if sign_in.key_id is None:
            assert sign_in.account is not None
            return self._jwts.signed_in(sign_in.account, sign_in.ends_at)
        caller = await self._keys.caller_by_id(sign_in.key_id)
        return replace(caller, expires_at=min(sign_in.ends_at, caller.expires_at or sign_in.ends_at))

    @contextmanager
    def _counting_failures(self, peer: str, text: str | None = None) -> Iterator[None]:
        """Counts a credential that is refused; refuses with RATE_LIMITED once there were too many."""
        try:
            yield
        except Refused as refused:
            if refused.code != "UNAUTHENTICATED":
                raise
            hint = hint_of(text) if text is not None and is_well_formed(text) else None
            wait_s = self._attempts.failed(peer, hint)
            if wait_s is None:
                raise
            raise _too_many_attempts(wait_s) from None

    def check_unexpired(self, caller: Caller) -> None:
        """Refuses a credential that has expired, without the leeway for clocks that a single request gets: a stream
        opened with it would be ended at once."""
        if caller.expires_at is not None and caller.expires_at <= time.time():
            raise expired()

    @contextmanager
    def watch(self, caller: Caller, ended: Ended) -> Iterator[None]:
        """Calls `ended` when the caller's credential expires or is revoked while the block runs."""
        with ExitStack() as stack:
            if caller.expires_at is not None:
                left_s = max(0.0, caller.expires_at - time.time())
                timer = asyncio.get_running_loop().call_later(left_s, ended, expired())
                stack.callback(timer.cancel)
            if caller.key_id is not None:
                stack.enter_context(self._keys.watch(caller.key_id, ended))
            yield

    @asynccontextmanager
    async def while_valid(self, caller: Caller) -> AsyncIterator[None]:
        """Runs the block while the caller's credential is valid; ends it with UNAUTHENTICATED as soon as it is not."""
        found: list[Refused] = []
        stay = asyncio.timeout(None)

        def end(refused: Refused) -> None:
            if not found:
                stay.reschedule(asyncio.get_running_loop().time())
            found.append(refused)

        try:
            async with stay:
                with self.watch(caller, end):
                    yield
        except TimeoutError:
            if found and stay.expired():
                raise found[0] from None
            raise

    def forget(self, key_id: str) -> None:
        """Refuses a key that this process revoked at once, instead of within two seconds."""
        self._keys.forget(key_id)

    async def close(self) -> None:
        await self._keys.close()
        await self._jwts.close()

    async def _by_header(self, text: str) -> Caller:
        if text.startswith("ficha_"):
            return await self._keys.caller(text)
        if text.count(".") != 2:
            raise unauthenticated("the credential is neither an API key (ficha_…) nor a token with three parts")
        token = parsed(text)
        return await self._by_job_token(token) if token.kind == KIND else await self._jwts.caller(token)

    async def _by_address(self, authorization: str | None, text: str) -> Caller:
        """The caller by a token in the URL. URLs are kept in logs and histories, so only a job token, which is
        short-lived and permits little, may be in them."""
        if authorization is not None:
            raise unauthenticated("send the header Authorization or ?token=, not both")
        token = parsed(text)
        if token.kind != KIND:
            raise unauthenticated(
                "only a job token may be sent as ?token=; send any other credential in the header Authorization"
            )
        return await self._by_job_token(token)

    async def _by_job_token(self, token: Token) -> Caller:
        caller = self.job_tokens.caller(token)
        if caller.key_id is not None:
            await self._keys.check(caller.key_id)
        return caller
