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
from ..json_values import uncollected

T = TypeVar("T")
RESTS: Final = 4
"""After a slice, the next one of the same account waits so many times as long as it took: one account's bodies have a
fifth of the time at most."""
RESTS_AFTER_REFUSAL: Final = 100
"""The same after a slice that found the body to be no acceptable JSON: who sends such bodies has a hundredth."""
REST_MAX_S: Final = 2.0
"""Who would have to wait for longer is refused."""
KEPT: Final = 1_000
"""Accounts that are kept; beyond it those that do not rest are forgotten."""


class BodyThread:
    """Runs the slices of work that reading a body takes, those of one request after those of another. A slice is short,
    and none is begun for a caller who has left."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._accounts: dict[str, _Account] = {}

    async def run(self, request: Request, read: Callable[[], Generator[None, None, T]]) -> T:
        """What the generator returns. It yields after each slice."""
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
        """Where the account's requests meet; a request of a key for all accounts is by itself, and never rests."""
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
    """One account's turn for a slice, and until when it rests."""

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
