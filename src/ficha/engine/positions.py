"""Positions: where a waiting job stands, from one shared look at the queue instead of a count per question.

The look is taken again at a pace that its own cost sets, so that it stays cheap however long the queue is. Between two
looks this process adds what it committed itself, so its own callers see their effect at once; what other processes did
shows with the next look.
"""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from ..core.records import Job, Parked, Ready
from ..core.snapshot import Changes
from ..store.base import GetWaiting, Store, StoreError, Waiting

log = logging.getLogger("ficha.engine")

COST_SHARE: Final = 0.02
"""The part of a core that looking may take."""
SHORTEST_S: Final = 0.02
LONGEST_S: Final = 30.0
CHEAP_S: Final = 0.05
"""A look that costs no more than this is waited for when it is due; a dearer one is taken in the background."""
WINDOW_S: Final = 5.0
"""A pool's pace is counted over windows of this length; a gap of many windows between two looks says nothing."""
WINDOW_WEIGHT: Final = 0.3

Key = tuple[int, str]
"""A rank and a job id: the order of claims."""


class Standing(Struct, frozen=True):
    """Where a waiting job stands: 1 is next. The estimate is None while nothing is known of the pool's pace."""

    position: int
    estimated_wait_s: float | None


class _Line(Struct):
    """One queue as last looked at, and what this process has added to it and taken from it since."""

    keys: list[Key] = field(default_factory=list)
    added: list[Key] = field(default_factory=list)
    taken: list[Key] = field(default_factory=list)

    def ahead(self, key: Key) -> int:
        return bisect_left(self.keys, key) + bisect_left(self.added, key) - bisect_left(self.taken, key)

    def has(self, key: Key) -> bool:
        index = bisect_left(self.keys, key)
        return index < len(self.keys) and self.keys[index] == key

    def add(self, key: Key) -> None:
        if _remove(self.taken, key) or self.has(key):
            return
        insort(self.added, key)

    def take(self, key: Key) -> None:
        if not _remove(self.added, key) and self.has(key):
            insort(self.taken, key)

    def __len__(self) -> int:
        return len(self.keys) + len(self.added) - len(self.taken)


def _remove(keys: list[Key], key: Key) -> bool:
    index = bisect_left(keys, key)
    if index < len(keys) and keys[index] == key:
        del keys[index]
        return True
    return False


class _Look(Struct):
    """All lines at one moment: ready jobs by pool, and by account those that wait for its own concurrency."""

    ready: dict[str, _Line] = field(default_factory=dict)
    parked: dict[str, _Line] = field(default_factory=dict)
    places: dict[str, tuple[str, str | None, Key]] = field(default_factory=dict)
    """job id → its pool, its account if it is parked, its key"""

    @classmethod
    def of(cls, waiting: Waiting) -> _Look:
        look = cls()
        for pool, keys in waiting.ready.items():
            look.ready[pool] = _Line(keys)
            for key in keys:
                look.places[key[1]] = (pool, None, key)
        for account, rows in waiting.parked.items():
            look.parked[account] = _Line([(rank, job_id) for rank, job_id, _ in rows])
            for rank, job_id, pool in rows:
                look.places[job_id] = (pool, account, (rank, job_id))
        return look

    def put(self, job: Job) -> None:
        match job.place:
            case Ready(rank):
                self.ready.setdefault(job.pool, _Line()).add((rank, job.id))
                self.places[job.id] = (job.pool, None, (rank, job.id))
            case Parked(rank, None):
                self.parked.setdefault(job.account_id, _Line()).add((rank, job.id))
                self.places[job.id] = (job.pool, job.account_id, (rank, job.id))

    def drop(self, job: Job) -> None:
        match job.place:
            case Ready(rank) if job.pool in self.ready:
                self.ready[job.pool].take((rank, job.id))
            case Parked(rank, None) if job.account_id in self.parked:
                self.parked[job.account_id].take((rank, job.id))
        self.places.pop(job.id, None)


class Positions:
    """The shared look and its pace."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._look = _Look()
        self._looked_at = float("-inf")
        self._cost_s = 0.0
        self._rates: dict[str, float] = {}
        self._left: Counter[str] = Counter()
        self._window_s = 0.0
        self._since_look: list[Changes] = []
        self._refreshing: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def follow(self, changes: Changes) -> None:
        """Takes in what this process has just committed."""
        if self._refreshing is not None:
            self._since_look.append(changes)
        if self._looked_at > float("-inf"):
            self._apply(self._look, changes)

    async def of(self, job_id: str) -> Standing | None:
        """Where the job stands; None if it does not wait for its turn. Asks the database only when a look is due."""
        await self._keep_fresh()
        place = self._look.places.get(job_id)
        return None if place is None else self._standing(*place)

    async def of_job(self, job: Job) -> Standing | None:
        """The same for a job just read, whether the last look has seen it or not."""
        await self._keep_fresh()
        match job.place:
            case Ready(rank):
                return self._standing(job.pool, None, (rank, job.id))
            case Parked(rank, None):
                return self._standing(job.pool, job.account_id, (rank, job.id))
            case _:
                return None

    async def of_new(self, job_id: str) -> Standing | None:
        """The same for a job that this process has just committed; a look that is due is not waited for."""
        if self._looked_at == float("-inf"):
            await self._keep_fresh()
        else:
            self._begin_if_due()
        place = self._look.places.get(job_id)
        return None if place is None else self._standing(*place)

    def _standing(self, pool: str, account: str | None, key: Key) -> Standing:
        ready, parked = self._look.ready.get(pool), self._look.parked.get(account or "")
        position = 1 + (ready.ahead(key) if ready is not None else 0) + (parked.ahead(key) if parked is not None else 0)
        rate = self._rates.get(pool, 0.0)
        return Standing(position, round(position / rate, 1) if rate > 0 else None)

    async def length(self, pool: str) -> int:
        """How many jobs of the pool are ready."""
        await self._keep_fresh()
        line = self._look.ready.get(pool)
        return 0 if line is None else len(line)

    async def _keep_fresh(self) -> None:
        refreshing = self._begin_if_due()
        if refreshing is not None and self._cost_s <= CHEAP_S:
            # Whoever stops waiting does not take the look from the others, and the end of it cancels nobody.
            await asyncio.wait({refreshing})
            if not refreshing.cancelled():
                refreshing.result()

    def _begin_if_due(self) -> asyncio.Task[None] | None:
        age_s = self._clock() - self._looked_at
        if age_s < min(LONGEST_S, max(SHORTEST_S, self._cost_s / COST_SHARE)):
            return None
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="ficha positions")
        return self._refreshing

    async def _refresh(self) -> None:
        self._since_look = []
        began_at = self._clock()
        try:
            waiting = await self._store.read(GetWaiting())
            read_at = self._clock()
            look = _Look.of(waiting)
            self._measure_pace(look, read_at)
            for changes in self._since_look:
                self._apply(look, changes)
            self._look, self._looked_at = look, read_at
        except StoreError as error:
            log.warning("positions could not be refreshed: %s", error)
            self._looked_at = self._clock()
        finally:
            self._cost_s = self._clock() - began_at
            self._refreshing = None

    def _measure_pace(self, look: _Look, read_at: float) -> None:
        """How fast each pool takes jobs off its queue: those that left between looks, window by window."""
        elapsed_s = read_at - self._looked_at
        if elapsed_s > 10 * WINDOW_S:
            self._left.clear()
            self._window_s = 0.0
            return
        for pool, line in self._look.ready.items():
            self._left[pool] += sum(1 for key in line.keys if key[1] not in look.places)
        self._window_s += elapsed_s
        if self._window_s >= WINDOW_S:
            for pool, left in self._left.items():
                rate = left / self._window_s
                before = self._rates.get(pool, rate)
                self._rates[pool] = before + WINDOW_WEIGHT * (rate - before)
            self._left.clear()
            self._window_s = 0.0

    @staticmethod
    def _apply(look: _Look, changes: Changes) -> None:
        for change in changes.jobs:
            if change.before is not None and change.before.place != change.after.place:
                look.drop(change.before)
            if change.before is None or change.before.place != change.after.place:
                look.put(change.after)
