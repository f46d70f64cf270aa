"""Wake-ups: notify tasks that wait for a topic (work of a pool, events), directly within the process and by hints from
other processes.

A hint may be lost, so waiting tasks also poll. Only the database is authoritative.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

from ..futures import wake
from ..store.base import Store

log = logging.getLogger("ficha.engine")

ANYTHING: Final = ""
"""The topic of a hint that does not say what happened: it wakes everybody."""

EVENTS: Final = "\x02events"
"""The topic of followers: events were written. No pool's name has a control character."""

HOOKS: Final = "\x03hooks"
"""The topic of whoever runs hooks: a job with a hook ended."""

POLLS: Final = "\x05polls"
"""The topic of whoever polls providers: one called back, or is to be polled soon."""

DELIVERIES: Final = "\x06deliveries"
"""The topic of whoever sends webhooks: there is a new message."""

BULK_ACTS: Final = "\x07bulk acts"
"""The topic of whoever works on bulk acts: one was begun."""

DECLARED_HOOKS: Final = "\x08declared hooks"
"""The topic of whoever ends jobs: a process reported a hook, or one was forgotten."""

EVENTS_EVERY_S = 0.1
"""The shortest time between two hints of events alone. Any other hint includes it."""
HINTS_PER_S = 50.0
"""The highest rate of hints to other processes. Each hint costs the database a transaction, so under load many wake-ups
share one."""
HINTS_AT_ONCE = 50.0
"""How many hints may be sent at once after a quiet time."""
COMMIT_HINT_EVERY_S = 0.008
"""The shortest time between two commits that carry hints: PostgreSQL runs such commits one by one, and does not flush
several of them at once."""


def cancellations(worker: str) -> str:
    """The topic of a worker's cancelled jobs. No pool's name has a control character."""
    return f"\x01{worker}"


_OWN: Final = "\x04"
"""Begins the topic of one process's own work: jobs that it created within its callers' own transactions."""


class Wakeups:
    """Keeps which tasks wait for which topic; most topics are pools.

    own_work: called with a pool's name when a caller's own transaction commits in which this process brought work to
        that pool.
    """

    def __init__(self, store: Store, own_work: Callable[[str], None] | None = None) -> None:
        self._store = store
        self._own_work = own_work
        self._id = uuid.uuid4().hex
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self._heard: Counter[str] = Counter()
        self._unsent: set[str] = set()
        self._tokens = HINTS_AT_ONCE
        self._refilled_at = time.monotonic()
        self._sent_with_commit_at = self._events_sent_at = float("-inf")
        self._more_than_events = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sender: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._spawn(self._store.listen(self._hear))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for future in {future for waiting in self._waiting.values() for future in waiting}:
            wake(future)

    def heard(self, pools: Iterable[str]) -> int:
        """A number that changes with every wake-up of these pools."""
        return self._heard[ANYTHING] + sum(self._heard[pool] for pool in pools)

    async def wait(self, pools: Iterable[str], timeout_s: float, since: int | None = None) -> bool:
        """Returns when one of the pools may have work (True) or the time is up (False).

        `since` is what `heard` returned before the caller read the database: a wake-up between that read and the wait
        is not missed.
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
        """Until the block ends, a wake-up of one of the pools completes the future."""
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
        """Whether hints are few enough for the next commit to carry its own."""
        return not self._unsent and time.monotonic() - self._sent_with_commit_at >= COMMIT_HINT_EVERY_S

    def riding(self, names: Iterable[str]) -> tuple[str, ...]:
        """The hints that a commit should carry: none if they are of events alone, which can wait."""
        found = tuple(names)
        return found if any(name != EVENTS for name in found) else ()

    def own(self, pool: str) -> str:
        """The hint that tells this process, and no other, that its work for the pool is committed."""
        return f"{_OWN}{self._id}{_OWN}{pool}"

    def announce(self, pools: Iterable[str], told: Collection[str] = ()) -> None:
        """Wakes this process at once and the others soon; `told` are the hints that went out with the commit."""
        if told:
            self._sent_with_commit_at = time.monotonic()
        for pool in pools:
            self._wake(pool)
            if pool not in told:
                self._unsent.add(pool)
                if pool != EVENTS:
                    self._more_than_events.set()
        if self._unsent and (self._sender is None or self._sender.done()):
            self._sender = self._spawn(self._send())

    def _hear(self, name: str) -> None:
        """Handles a hint that arrived through the database."""
        if not name.startswith(_OWN):
            self._wake(name)
        elif self._own_work is not None and name.startswith(self.own("")):
            self._own_work(name.removeprefix(self.own("")))

    def _wake(self, pool: str) -> None:
        self._heard[pool] += 1
        waiting = [*chain(*self._waiting.values())] if pool == ANYTHING else self._waiting.get(pool, ())
        for future in waiting:
            wake(future)

    async def _send(self) -> None:
        while self._unsent:
            now = time.monotonic()
            self._tokens = min(HINTS_AT_ONCE, self._tokens + (now - self._refilled_at) * HINTS_PER_S)
            self._refilled_at = now
            if self._tokens < 1:
                await asyncio.sleep((1 - self._tokens) / HINTS_PER_S)
                continue
            events_in_s = self._events_sent_at + EVENTS_EVERY_S - now
            if self._unsent == {EVENTS} and events_in_s > 0:
                self._more_than_events.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(events_in_s):
                        await self._more_than_events.wait()
                continue
            self._tokens -= 1
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
