"""Positions of waiting jobs, from one shared index of the queue instead of a count per request.

The index is read again at intervals proportional to its cost, so it stays cheap however long the queue is. Between two
refreshes this process applies its own commits, so its callers see their effect at once; commits of other processes show
after the next refresh. Commits are applied when a position is asked for, so a worker that is never asked spends nothing
on them.

The index finds a job by its line (the waiting jobs of a pool or account) and key, not by its id. A cache has these for
jobs that this process created or read lately; for any other job, the row is read first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct

from ..core.records import WAITING, Job, Parked, Ready
from ..core.snapshot import Changes, JobChange
from ..store.base import GetJobs, GetWaiting, Store, StoreError
from ..store.waiting_columns import Key, Lines
from .drain_rate import DrainRate
from .queue_index import QueueIndex

log = logging.getLogger("ficha.engine")

COST_SHARE: Final = 0.02
"""The share of a core that refreshes may take."""
SHORTEST_S: Final = 0.02
LONGEST_S: Final = 30.0
NEVER: Final = float("-inf")
CHEAP_S: Final = 0.05
"""A refresh that costs no more than this is waited for when it is due; a longer one runs in the background."""
JOBS_PER_TURN: Final = 100
"""How many jobs are looked up before other tasks get their turn."""
CACHED_JOBS: Final = 50_000
"""How many jobs the cache holds; the least recently used are evicted."""
CACHE_SPARE: Final = 5_000
"""How many jobs that no longer wait the cache may hold besides those that do."""
CHANGE_COST_S: Final = 0.000_003
"""The cost of applying one change to the index. Where a refresh costs less, the index is discarded instead."""
MIN_PENDING = 2_000
"""Beyond this many pending changes, the index may be discarded."""
MAX_PENDING = 10_000
"""Beyond this many pending changes, they are applied even if no position was asked for."""


class QueueStanding(Struct, frozen=True):
    """Where a waiting job stands: 1 is next. The estimate is None while the pool's drain rate is unknown."""

    position: int
    estimated_wait_s: float | None


class Placed(Struct, frozen=True):
    """A standing, the job's pool, and whether the job first waits for its account's concurrency."""

    standing: QueueStanding
    pool: str
    is_parked: bool


class Positions:
    """The shared index and its refreshes."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._index = QueueIndex(Lines(), Lines())
        self._indexed_at = NEVER
        self._due_at = NEVER
        self._cost_s = 0.0
        self._drain_rate = DrainRate()
        self._during_refresh: list[list[JobChange]] = []
        self._pending: list[JobChange] = []
        """Changes committed since the last refresh that are not yet applied to the index."""
        self._is_behind = False
        """Whether the index was discarded: a refresh is cheaper than applying the changes that were pending."""
        self._refreshing: asyncio.Task[None] | None = None
        self._cache: OrderedDict[str, tuple[str, str, int]] = OrderedDict()
        """job id → its pool, account and rank; by now it may wait in the line of either or of neither"""

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def follow(self, changes: Changes) -> None:
        """Notes a commit of this process."""
        if self._refreshing is not None:
            self._during_refresh.append(changes.jobs)
        for change in changes.jobs:
            job = change.after
            if type(job.place) not in WAITING or self._cache_place(job) is None:
                self._cache.pop(job.id, None)
        if self._has_index and not self._is_behind:
            self._pending += changes.jobs
            if len(self._pending) > max(MIN_PENDING, self._cost_s / CHANGE_COST_S):
                self._is_behind = True
                self._pending.clear()
            elif len(self._pending) > MAX_PENDING:
                self._apply_pending()

    def _apply_pending(self) -> None:
        """Applies this process's commits to the index."""
        if self._pending:
            for change in self._pending:
                self._index.follow(change)
            self._pending.clear()

    async def of(self, job_id: str) -> QueueStanding | None:
        """The standing of a job; None if it does not wait for its turn."""
        await self._refresh_if_due()
        standing = self._cached_standing(job_id)
        if standing is None and self._has_index:
            # Another process created or moved it, or it does not wait. (Only a stopping engine has no index here.)
            rows = await self._store.read(GetJobs((job_id,)))
            return self._standing_of(rows[0].job) if rows else None
        return standing

    async def of_job(self, job: Job) -> QueueStanding | None:
        """The standing of a job just read, whether or not the index has it."""
        await self._refresh_if_due()
        return self._standing_of(job)

    async def look_within(self, seconds: float) -> None:
        """Starts a refresh if one is due; if there is no index yet, waits for it this long at most. For
        `by_last_look`."""
        refreshing = self._start_refresh_if_due()
        if refreshing is not None and not self._has_index:
            await asyncio.wait({refreshing}, timeout=seconds)

    def by_last_look(self, job: Job) -> QueueStanding | None:
        """The standing of a job just read, by the last refresh; None if there was none yet."""
        return self._standing_of(job) if self._has_index else None

    async def of_possible(self, job: Job) -> QueueStanding | None:
        """The standing that a job would have if it were created now."""
        await self._refresh_if_due()
        return self._standing(job, _key(job))

    async def of_new(self, job_id: str) -> QueueStanding | None:
        """The standing of a job that this process has just committed; does not wait for a refresh that is due."""
        if self._has_index and not self._is_behind:
            self._start_refresh_if_due()
        else:
            await self._refresh_if_due()
        return self._cached_standing(job_id)

    async def known(self, job_ids: Iterable[str]) -> dict[str, Placed]:
        """The standings of many jobs that were asked about before. Jobs that do not wait, or are not in the cache, are
        left out."""
        await self._refresh_if_due()
        found: dict[str, Placed] = {}
        for count, job_id in enumerate(job_ids):
            if (placed := self._placed(job_id)) is not None:
                found[job_id] = placed
            if count % JOBS_PER_TURN == JOBS_PER_TURN - 1:
                await asyncio.sleep(0)
        return found

    def _standing_of(self, job: Job) -> QueueStanding | None:
        """The standing by the place in the job's row."""
        return self._standing(job, self._cache_place(job))

    def _standing(self, job: Job, key: Key | None) -> QueueStanding | None:
        if key is None or self._is_behind:
            return None
        self._apply_pending()
        ahead, _ = self._index.ready.find(job.spec.pool, key)
        if isinstance(job.place, Parked):
            ahead += self._index.parked.find(job.account_id, key)[0]
        return self._standing_at(job.spec.pool, ahead)

    def _cached_standing(self, job_id: str) -> QueueStanding | None:
        found = self._find_cached(job_id)
        return None if found is None else self._standing_at(found[0], found[1])

    def _placed(self, job_id: str) -> Placed | None:
        found = self._find_cached(job_id)
        return None if found is None else Placed(self._standing_at(found[0], found[1]), found[0], found[2])

    def _find_cached(self, job_id: str) -> tuple[str, int, bool] | None:
        """If the job still waits at its cached place, returns its pool, how many jobs are ahead, and whether it waits
        for its account."""
        place = self._cache.get(job_id)
        if place is None or self._is_behind:
            return None
        self._apply_pending()
        self._cache.move_to_end(job_id)
        pool, account, rank = place
        key = rank, job_id
        ahead, is_ready = self._index.ready.find(pool, key)
        if is_ready:
            return pool, ahead, False
        further, is_parked = self._index.parked.find(account, key)
        return (pool, ahead + further, True) if is_parked else None

    def _standing_at(self, pool: str, ahead: int) -> QueueStanding:
        return QueueStanding(1 + ahead, self._drain_rate.wait_s(pool, 1 + ahead))

    def _cache_place(self, job: Job) -> Key | None:
        """Caches where the job waits for its turn, and returns its key; None if it does not wait."""
        key = _key(job)
        if key is not None:
            self._cache[job.id] = (job.spec.pool, job.account_id, key[0])
            self._cache.move_to_end(job.id)
            if len(self._cache) > CACHED_JOBS:
                self._cache.popitem(last=False)
        return key

    @property
    def _has_index(self) -> bool:
        return self._indexed_at > NEVER

    async def _refresh_if_due(self) -> None:
        refreshing = self._start_refresh_if_due()
        if refreshing is not None and self._cost_s <= CHEAP_S:
            # A caller that is cancelled must not cancel the refresh that others wait for, nor the other way round.
            await asyncio.wait({refreshing})
            if not refreshing.cancelled():
                refreshing.result()

    def _start_refresh_if_due(self) -> asyncio.Task[None] | None:
        if self._clock() < self._due_at and not self._is_behind:
            return None
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(), name="ficha positions")
        return self._refreshing

    async def _refresh(self) -> None:
        self._during_refresh = []
        began_at = self._clock()
        try:
            waiting = await self._store.read(GetWaiting())
            read_at = self._clock()
            index = QueueIndex(waiting.ready, waiting.parked)
            self._drain_rate.observe(self._index.ready.lines, waiting.ready, read_at - self._indexed_at)
            # Commits during the refresh are appended to this list. For a long queue it grows long, so other tasks get
            # their turn in between.
            for moved in self._during_refresh:
                for change in moved:
                    index.follow(change)
                await asyncio.sleep(0)
            self._index, self._indexed_at, self._is_behind = index, read_at, False
            self._pending.clear()
            await self._evict_gone(len(waiting.ready) + len(waiting.parked))
        except StoreError as error:
            log.warning("positions could not be refreshed: %s", error)
            self._indexed_at = self._clock()
        finally:
            self._cost_s = self._clock() - began_at
            self._due_at = self._indexed_at + min(LONGEST_S, max(SHORTEST_S, self._cost_s / COST_SHARE))
            self._during_refresh = []
            self._refreshing = None

    async def _evict_gone(self, waiting: int) -> None:
        """Evicts jobs that other processes have started since, once they are most of the cache."""
        if len(self._cache) <= 2 * waiting + CACHE_SPARE:
            return
        for count, job_id in enumerate(tuple(self._cache)):
            place = self._cache.get(job_id)
            if place is not None and not self._still_waits(job_id, *place):
                del self._cache[job_id]
            if count % JOBS_PER_TURN == JOBS_PER_TURN - 1:
                await asyncio.sleep(0)

    def _still_waits(self, job_id: str, pool: str, account: str, rank: int) -> bool:
        key = (rank, job_id)
        return self._index.ready.find(pool, key)[1] or self._index.parked.find(account, key)[1]


def _key(job: Job) -> Key | None:
    """The key that orders the job in its line; None if it does not wait for its turn."""
    place = job.place
    if type(place) is not Ready and (type(place) is not Parked or place.due_at is not None):
        return None
    return place.rank, job.id
