"""Where each queue begins: what a claim may pass over while old entries at the head of the ready list cannot go away.

A claim reads its pool's ready list from the head. While a long transaction anywhere in the database keeps old versions
alive, the entries of all jobs that were claimed since stay in the index, and every claim walks over them. Only once
that has become slow, twice in a row, claims begin each priority a little before the job that the last claim found first
there. A job that came back with an older rank is found by a look at the whole list, still taken as often as its cost
allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from ....core.policy import SECOND, ranks_of_priority
from ....core.records import Job, Ready
from ....core.snapshot import Snapshot
from ..layer import BEYOND, FIRST, Stretches

SLOW_S: Final = 0.005
SLOW_PER_JOB_S: Final = 0.000_1
"""A look at the whole list that takes longer than this, for so many jobs found, is slow."""
WHOLE_SHARE: Final = 0.1
"""The part of the time that slow looks at the whole list may take."""
SLACK: Final = SECOND
"""Ranks are times within a priority, and transactions do not commit in the order of their times."""

Stretch = tuple[str, int, int]
"""A pool, the first rank to look at and the first one not to."""


class _Head(Struct):
    """What is known of one pool: where each priority begins, by its lowest rank."""

    begins: dict[int, int] = field(default_factory=dict)
    whole_s: float = 0.0
    was_slow: bool = False
    """Whether the last look at the whole list was. That alone may be somebody's lock that it had to wait for."""
    is_slow: bool = False
    whole_at: float = 0.0


class ScanStarts:
    """What one process knows of the pools that it claims from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heads: dict[str, _Head] = {}
        self.without_limit: set[str] = set()
        """Pools that had none when they were last looked at: a claim need not have such a pool to itself."""

    def of(self, pools: Iterable[str]) -> Stretches:
        """What of each pool's list to look at now."""
        return {pool: self.stretches(pool) for pool in pools}

    def saw(self, stretches: Stretches, snapshot: Snapshot, seconds: float) -> None:
        """What a look at these stretches has found, and how long it took."""
        for name, ids in snapshot.ready.items():
            self.looked(stretches[name], (_rank(snapshot.jobs[key]) for key in ids), seconds)
            self.without_limit.discard(name)
            if (pool := snapshot.pools.get(name)) is not None and pool.limit is None:
                self.without_limit.add(name)

    def stretches(self, pool: str) -> list[Stretch]:
        """What of the pool's list to look at now, in order: all of it in one, or without what may be passed over."""
        head = self._heads.get(pool)
        if head is None or not head.is_slow or self._clock() - head.whole_at >= head.whole_s / WHOLE_SHARE:
            return [(pool, FIRST, BEYOND)]
        found: list[Stretch] = []
        first = FIRST
        for lowest, begin in sorted(head.begins.items()):
            found.append((pool, first, lowest))
            first = begin
        return [*found, (pool, first, BEYOND)]

    def looked(self, stretches: list[Stretch], ranks: Iterable[int], seconds: float) -> None:
        """What a look at these stretches of one pool found, in order, and how long it took."""
        pool = stretches[0][0]
        head = self._heads.setdefault(pool, _Head())
        count = 0
        beyond = FIRST
        for rank in ranks:
            count += 1
            if rank >= beyond:
                lowest, beyond = ranks_of_priority(rank)
                head.begins[lowest] = max(lowest, rank - SLACK)
        if len(stretches) == 1 and stretches[0][1] == FIRST:
            head.whole_s, head.whole_at = seconds, self._clock()
            was_slow, head.was_slow = head.was_slow, seconds > SLOW_S + SLOW_PER_JOB_S * count
            head.is_slow = was_slow and head.was_slow


def _rank(job: Job | None) -> int:
    assert job is not None
    assert isinstance(job.place, Ready)
    return job.place.rank
