"""Wake-ups: whoever waits, for work of a pool or for events, is told at once within the process, and by a hint from
other processes.

A hint may be lost; whoever waits also wakes by itself after a while and looks. Looking is the truth.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

from ..store.base import Store

log = logging.getLogger("ficha.engine")

ANYTHING: Final = ""
"""A hint that does not say what happened: everybody looks."""

EVENTS: Final = "\x02events"
"""What those wait for who follow jobs: events were written. No pool has a control character."""

EVENTS_EVERY_S = 0.1
"""How often a hint goes out, at most, that speaks of events alone. It rides along with any other hint."""
HINTS_PER_S = 50.0
HINTS_AT_ONCE = 50.0
"""How many hints to other processes go out in the long run, and at once after a quiet time. Each one costs the database
a transaction of its own, so under load many wake-ups share one."""
RIDES_EVERY_S = 0.008
"""How often hints ride on a commit, at most: the database lets commits that bring hints pass one by one, and does not
flush several of them at once."""


def cancellations(worker: str) -> str:
    """What a worker waits for, besides its pools, to hear of cancelled jobs. No pool has a control character."""
    return f"\x01{worker}"


class Wakeups:
    """Who waits for which pool."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._heard: Counter[str] = Counter()
        self._unsent: set[str] = set()
        self._credit = HINTS_AT_ONCE
        self._credited_at = time.monotonic()
        self._rode_at = self._events_sent_at = float("-inf")
        self._more_than_events = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sender: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._spawn(self._store.listen(self._wake))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for future in {future for waiting in self._waiting.values() for future in waiting}:
            if not future.done():
                future.set_result(None)

    def heard(self, pools: Iterable[str]) -> int:
        """A number that changes with every wake-up of these pools."""
        return self._heard[ANYTHING] + sum(self._heard[pool] for pool in pools)

    async def wait(self, pools: Iterable[str], timeout_s: float, since: int | None = None) -> bool:
        """Returns when one of the pools may have work (True) or the time is up (False).

        `since` is what `heard` said before the caller looked: a wake-up between the look and the wait is not missed.
        """
        names = tuple(pools)
        if since is not None and self.heard(names) != since:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self.telling(names, future):
            done, _ = await asyncio.wait({future}, timeout=timeout_s)
            future.cancel()
            return bool(done)

    @contextmanager
    def telling(self, pools: Iterable[str], future: asyncio.Future[None]) -> Iterator[None]:
        """For as long as this lasts, a wake-up of one of the pools is the future's result, if it has none yet."""
        names = tuple(pools)
        for pool in names:
            self._waiting.setdefault(pool, set()).add(future)
        try:
            yield
        finally:
            for pool in names:
                self._waiting[pool].discard(future)

    @property
    def is_quiet(self) -> bool:
        """Whether there are so few hints that the next may ride on its commit."""
        return not self._unsent and time.monotonic() - self._rode_at >= RIDES_EVERY_S

    def riding(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the names that are worth it: events alone can wait."""
        found = tuple(names)
        return found if any(name != EVENTS for name in found) else ()

    def announce(self, pools: Iterable[str], told: Collection[str] = ()) -> None:
        """Wakes this process at once and the others soon, unless they were told already."""
        if told:
            self._rode_at = time.monotonic()
        for pool in pools:
            self._wake(pool)
            if pool not in told:
                self._unsent.add(pool)
                if pool != EVENTS:
                    self._more_than_events.set()
        if self._unsent and (self._sender is None or self._sender.done()):
            self._sender = self._spawn(self._send())

    def _wake(self, pool: str) -> None:
        self._heard[pool] += 1
        waiting = [*chain(*self._waiting.values())] if pool == ANYTHING else self._waiting.get(pool, ())
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _send(self) -> None:
        while self._unsent:
            now = time.monotonic()
            self._credit = min(HINTS_AT_ONCE, self._credit + (now - self._credited_at) * HINTS_PER_S)
            self._credited_at = now
            if self._credit < 1:
                await asyncio.sleep((1 - self._credit) / HINTS_PER_S)
                continue
            events_in_s = self._events_sent_at + EVENTS_EVERY_S - now
            if self._unsent == {EVENTS} and events_in_s > 0:
                self._more_than_events.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(events_in_s):
                        await self._more_than_events.wait()
                continue
            self._credit -= 1
            names, self._unsent = self._unsent, set()
            if EVENTS in names:
                self._events_sent_at = now
            try:
                await self._store.notify(names)
            except Exception as error:
                log.debug("a wake-up hint was not sent: %s", error)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
