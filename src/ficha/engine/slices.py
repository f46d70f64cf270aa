"""Runs long work on the event loop in slices, so that other calls wait for one slice at most.

Checking ten thousand payloads takes a tenth of a second or more. A thread would not help: it takes turns with the event
loop too (they share the interpreter's lock), and its turns are longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")

SLICE_S: Final = 0.001
"""How long a slice lasts."""
REST_S: Final = 0.0005
"""The shortest pause after a slice. Without it, threads that wait for the interpreter's lock would not get it."""
GIVES_WAY: Final = 4
"""A pause that ends late shows that the event loop has other work. A pause of this many times the delay follows, so
long work takes only the time that other work leaves."""
REST_MAX_S: Final = 0.05
"""The longest such pause."""


class Slices:
    """All long work of an engine: one slice at a time, by turns of the accounts; one piece of work per account."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._by_account: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def all_of(self, account_id: str, steps: Iterable[T]) -> list[T]:
        """Returns the results of the steps. Short work is done at once if no other long work is under way."""
        done: list[T] = []
        lock = self._by_account.setdefault(account_id, asyncio.Lock())
        async with lock:
            ahead = iter(steps)
            while True:
                async with self._turn:
                    ends_at = time.perf_counter() + SLICE_S
                    for step in ahead:
                        done.append(step)
                        if time.perf_counter() >= ends_at:
                            break
                    else:
                        return done
                    await self._rest()

    async def _rest(self) -> None:
        due_at = time.perf_counter() + REST_S
        await asyncio.sleep(REST_S)
        late_s = time.perf_counter() - due_at
        if late_s > REST_S:
            await asyncio.sleep(min(REST_MAX_S, GIVES_WAY * late_s))
