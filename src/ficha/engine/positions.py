"""Positions: where a waiting job stands, from one shared look at the queue instead of a count per question.

The look is taken again at a pace that its own cost sets, so that it stays cheap however long the queue is. Between two
looks this process adds what it committed itself, so its own callers see their effect at once; what other processes did
shows with the next look. It adds it when somebody asks: a worker that nobody asks does nothing for it.

A look finds a job by its line and key, not by its id. Those of jobs that this process made or read lately are
remembered; of any other job, the row is read first.
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
"""The part of a core that looking may take."""
SHORTEST_S: Final = 0.02
LONGEST_S: Final = 30.0
NEVER: Final = float("-inf")
CHEAP_S: Final = 0.05
"""A look that costs no more than this is waited for when it is due; a dearer one is taken in the background."""
AT_A_TIME: Final = 100
"""How many jobs are placed before others get their turn."""
REMEMBERED: Final = 50_000
"""How many jobs a process can place by their id alone; those not asked about for the longest time make room."""
SPARE: Final = 5_000
"""How many jobs that no longer wait may be remembered beside those that do."""
FOLLOWED_S: Final = 0.000_003
"""What it costs to bring a look up to date, per change. Where a look costs less than that, it is given up instead."""
FEWEST_NEWS = 2_000
MOST_NEWS = 10_000
"""How many changes are at least waited with, and how many at most, for somebody to ask."""


class QueueStanding(Struct, frozen=True):
    """Where a waiting job stands: 1 is next. The estimate is None while nothing is known of the pool's pace."""

    position: int
    estimated_wait_s: float | None


class Placed(Struct, frozen=True):
    """A standing, whose pool's line it is in, and whether the job waits for its own account before."""

    standing: QueueStanding
    pool: str
    is_parked: bool


class Positions:
    """The shared look and its pace."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._look = QueueIndex(Lines(), Lines())
        self._looked_at = NEVER
        self._due_at = NEVER
        self._cost_s = 0.0
        self._pace = DrainRate()
        self._since_look: list[list[JobChange]] = []
        self._news: list[JobChange] = []
        """What was committed since the look and is not yet in it."""
        self._is_behind = False
        """So much happened since the look, and nobody asked, that another look is the cheaper way."""
        self._refreshing: asyncio.Task[None] | None = None
        self._remembered: OrderedDict[str, tuple[str, str, int]] = OrderedDict()
        """job id → its pool, its account, its rank: in either's line, or in neither by now"""

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def follow(self, changes: Changes) -> None:
        """Notes what this process has just committed."""
        if self._refreshing is not None:
            self._since_look.append(changes.jobs)
        for change in changes.jobs:
            job = change.after
            if type(job.place) not in WAITING or self._remember(job) is None:
                self._remembered.pop(job.id, None)
        if self._has_looked and not self._is_behind:
            self._news += changes.jobs
            if len(self._news) > max(FEWEST_NEWS, self._cost_s / FOLLOWED_S):
                self._is_behind = True
                self._news.clear()
            elif len(self._news) > MOST_NEWS:
                self._catch_up()

    def _catch_up(self) -> None:
        """Brings the look up to date with what this process has committed."""
        if self._news:
            for change in self._news:
                self._look.follow(change)
            self._news.clear()

    async def of(self, job_id: str) -> QueueStanding | None:
        """Where the job stands; None if it does not wait for its turn."""
        await self._keep_fresh()
        standing = self._recalled(job_id)
        if standing is None and self._has_looked:
            # Another process made it or moved it, or it does not wait. (Without any look it is the end of the engine.)
            rows = await self._store.read(GetJobs((job_id,)))
            return self._read(rows[0].job) if rows else None
        return standing

    async def of_job(self, job: Job) -> QueueStanding | None:
        """The same for a job just read, whether the last look has seen it or not."""
        await self._keep_fresh()
        return self._read(job)

    async def of_possible(self, job: Job) -> QueueStanding | None:
        """The same for a job that is not made: where it would stand if it were made now."""
        await self._keep_fresh()
        return self._standing(job, _key(job))

    async def of_new(self, job_id: str) -> QueueStanding | None:
        """The same for a job that this process has just committed; a look that is due is not waited for."""
        if self._has_looked and not self._is_behind:
            self._begin_if_due()
        else:
            await self._keep_fresh()
        return self._recalled(job_id)

    async def length(self, pool: str) -> int:
        """How many jobs of the pool are ready."""
        await self._keep_fresh()
        self._catch_up()
        return self._look.ready.length(pool)

    async def known(self, job_ids: Iterable[str]) -> dict[str, Placed]:
        """Where many jobs stand that were asked about before, in one go; one that does not wait, or that only its row
        could tell of, is left out."""
        await self._keep_fresh()
        found: dict[str, Placed] = {}
        for count, job_id in enumerate(job_ids):
            if (placed := self._placed(job_id)) is not None:
                found[job_id] = placed
            if count % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)
        return found

    def _read(self, job: Job) -> QueueStanding | None:
        """By the place that the job's row names."""
        return self._standing(job, self._remember(job))

    def _standing(self, job: Job, key: Key | None) -> QueueStanding | None:
        if key is None or self._is_behind:
            return None
        self._catch_up()
        ahead, _ = self._look.ready.find(job.pool, key)
        if isinstance(job.place, Parked):
            ahead += self._look.parked.find(job.account_id, key)[0]
        return self._told(job.pool, ahead)

    def _recalled(self, job_id: str) -> QueueStanding | None:
        found = self._found(job_id)
        return None if found is None else self._told(found[0], found[1])

    def _placed(self, job_id: str) -> Placed | None:
        found = self._found(job_id)
        return None if found is None else Placed(self._told(found[0], found[1]), found[0], found[2])

    def _found(self, job_id: str) -> tuple[str, int, bool] | None:
        """By the place that is remembered, if the job is still there: its pool, how many are ahead of it, and whether
        it waits for its account."""
        place = self._remembered.get(job_id)
        if place is None or self._is_behind:
            return None
        self._catch_up()
        self._remembered.move_to_end(job_id)
        pool, account, rank = place
        key = rank, job_id
        ahead, is_ready = self._look.ready.find(pool, key)
        if is_ready:
            return pool, ahead, False
        further, is_parked = self._look.parked.find(account, key)
        return (pool, ahead + further, True) if is_parked else None

    def _told(self, pool: str, ahead: int) -> QueueStanding:
        return QueueStanding(1 + ahead, self._pace.wait_s(pool, 1 + ahead))

    def _remember(self, job: Job) -> Key | None:
        """Keeps where the job waits for its turn, and gives its key; None if it does not."""
        key = _key(job)
        if key is not None:
            self._remembered[job.id] = (job.pool, job.account_id, key[0])
            self._remembered.move_to_end(job.id)
            if len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)
        return key

    @property
    def _has_looked(self) -> bool:
        return self._looked_at > NEVER

    async def _keep_fresh(self) -> None:
        refreshing = self._begin_if_due()
        if refreshing is not None and self._cost_s <= CHEAP_S:
            # Whoever stops waiting does not take the look from the others, and the end of it cancels nobody.
            await asyncio.wait({refreshing})
            if not refreshing.cancelled():
                refreshing.result()

    def _begin_if_due(self) -> asyncio.Task[None] | None:
        if self._clock() < self._due_at and not self._is_behind:
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
            look = QueueIndex(waiting.ready, waiting.parked)
            self._pace.observe(self._look.ready.lines, waiting.ready, read_at - self._looked_at)
            # What is committed meanwhile comes to the end of this list. A look at a long queue takes a while, and then
            # there is much in it: others get their turn in between.
            for moved in self._since_look:
                for change in moved:
                    look.follow(change)
                await asyncio.sleep(0)
            self._look, self._looked_at, self._is_behind = look, read_at, False
            self._news.clear()
            await self._forget_gone(len(waiting.ready) + len(waiting.parked))
        except StoreError as error:
            log.warning("positions could not be refreshed: %s", error)
            self._looked_at = self._clock()
        finally:
            self._cost_s = self._clock() - began_at
            self._due_at = self._looked_at + min(LONGEST_S, max(SHORTEST_S, self._cost_s / COST_SHARE))
            self._since_look = []
            self._refreshing = None

    async def _forget_gone(self, waiting: int) -> None:
        """Forgets jobs that other processes have started since, once these are most of what is remembered."""
        if len(self._remembered) <= 2 * waiting + SPARE:
            return
        for count, job_id in enumerate(tuple(self._remembered)):
            place = self._remembered.get(job_id)
            if place is not None and not self._waits(job_id, *place):
                del self._remembered[job_id]
            if count % AT_A_TIME == AT_A_TIME - 1:
                await asyncio.sleep(0)

    def _waits(self, job_id: str, pool: str, account: str, rank: int) -> bool:
        key = (rank, job_id)
        return self._look.ready.find(pool, key)[1] or self._look.parked.find(account, key)[1]


def _key(job: Job) -> Key | None:
    """What orders the job in its line; None if it does not wait for its turn."""
    place = job.place
    if type(place) is not Ready and (type(place) is not Parked or place.due_at is not None):
        return None
    return place.rank, job.id
