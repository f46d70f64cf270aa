"""The thread that reads large bodies. One is enough: Python runs one thread at a time, and a second one would only take
more of that time from the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from starlette.requests import ClientDisconnect, Request

from ..core.outcomes import Refusal
from ..errors import Refused
from ..garbage import uncollected

T = TypeVar("T")
RESTS: Final = 4
"""An account's next slice waits this many times as long as its last one took, so one account's bodies get at most a
fifth of the time."""
RESTS_AFTER_REFUSAL: Final = 100
"""The same after a slice that refused the body as no acceptable JSON: who sends such bodies gets a hundredth at
most."""
REST_MAX_S: Final = 2.0
"""A request that would have to wait longer than this is refused."""
KEPT: Final = 1_000
"""How many accounts are kept; once there are that many, those without a slice under way or a pause left are dropped."""


class BodyThread:
    """Runs the slices of work that reading a body takes. Requests take turns, one slice at a time. A slice is short,
    and none begins for a client that has disconnected."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._accounts: dict[str, _Account] = {}

    async def run(self, request: Request, read: Callable[[], Generator[None, None, T]]) -> T:
        """Runs the generator, which yields after each slice, and returns its result."""
        reading = _Reading(read())
        account = self._account(getattr(request.state, "account_id", None))
        while not reading.result:
            async with account.turn:
                if (left_s := account.rests_until - time.monotonic()) > REST_MAX_S:
                    words = "this account's last large bodies took long; nothing was changed. Try again later."
                    raise Refused.of(Refusal("RATE_LIMITED", words, retry_after_s=left_s))
                if left_s > 0:
                    await asyncio.sleep(left_s)
                async with self._turn:
                    if await request.is_disconnected():
                        raise ClientDisconnect
                    began_at = time.monotonic()
                    self._pool = self._pool or ThreadPoolExecutor(1, "ficha body")
                    try:
                        await asyncio.get_running_loop().run_in_executor(self._pool, reading.advance)
                    except Exception:
                        account.spent(time.monotonic() - began_at, RESTS_AFTER_REFUSAL)
                        raise
                    account.spent(time.monotonic() - began_at, RESTS)
        return reading.result[0]

    def _account(self, account_id: str | None) -> _Account:
        """What the account's requests share. A request with a key for all accounts shares nothing and need not
        pause."""
        if account_id is None:
            return _Account(is_bound=False)
        if len(self._accounts) >= KEPT:
            now = time.monotonic()
            self._accounts = {
                key: one for key, one in self._accounts.items() if one.turn.locked() or one.rests_until > now
            }
        return self._accounts.setdefault(account_id, _Account())

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None


class _Account:
    """One account's turn for a slice, and when its next slice may begin."""

    def __init__(self, *, is_bound: bool = True) -> None:
        self.turn = asyncio.Lock()
        self.rests_until = 0.0
        self._is_bound = is_bound

    def spent(self, seconds: float, rests: int) -> None:
        if self._is_bound:
            self.rests_until = time.monotonic() + rests * seconds


class _Reading(Generic[T]):
    """A generator under way, and what it returned, once it has."""

    def __init__(self, slices: Generator[None, None, T]) -> None:
        self._slices = slices
        self.result: tuple[()] | tuple[T] = ()

    def advance(self) -> None:
        with uncollected:
            try:
                next(self._slices)
            except StopIteration as end:
                self.result = (end.value,)
