"""Where claims begin to scan: which dead index entries at the head of the ready list a claim may skip.

A claim scans its pool's ready list from the head. While a long transaction anywhere in the database keeps old row
versions alive, the index keeps the entries of all jobs claimed since, and every claim scans over them. Once that was
slow twice in a row, claims begin each priority a little before the first job that the last claim found there. A full
scan, which finds jobs that came back with an older rank, still runs as often as its cost allows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct, field

from ....core.policy import SECOND, ranks_of_priority
from ....core.records import Ready
from ....core.snapshot import Snapshot
from ..layer import BEYOND, FIRST, Stretches

SLOW_S: Final = 0.005
SLOW_PER_JOB_S: Final = 0.000_1
"""A full scan that takes longer than `SLOW_S`, and this for each job found, is slow."""
WHOLE_SHARE: Final = 0.1
"""The share of time that slow full scans may take."""
SLACK: Final = SECOND
"""How far before the first job to begin: ranks are times, and transactions do not commit in that order."""

Stretch = tuple[str, int, int]
"""A range to scan: a pool, the first rank, and the rank where to stop."""


class _Head(Struct):
    """What is known of one pool. `begins`: where to begin each priority, by the priority's lowest rank."""

    begins: dict[int, int] = field(default_factory=dict)
    whole_s: float = 0.0
    was_slow: bool = False
    """Whether the last full scan was slow. Once may have been a wait for a lock."""
    is_slow: bool = False
    whole_at: float = 0.0


class ScanStarts:
    """The scan starts of the pools that one process claims from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heads: dict[str, _Head] = {}
        self.without_limit: set[str] = set()
        """Pools that had no limit when they were last read: a claim need not lock them."""

    def of(self, pools: Iterable[str]) -> Stretches:
        """The ranges of each pool to scan now."""
        return {pool: self.stretches(pool) for pool in pools}

    def saw(self, stretches: Stretches, snapshot: Snapshot, seconds: float) -> None:
        """Notes what a scan of these ranges found, and how long it took."""
        for name, ids in snapshot.ready.items():
            places = (job.place for key in ids if (job := snapshot.jobs[key]) is not None)
            self.looked(stretches[name], (at.rank for at in places if isinstance(at, Ready)), seconds)
            self.without_limit.discard(name)
            if (pool := snapshot.pools.get(name)) is not None and pool.limit is None:
                self.without_limit.add(name)

    def stretches(self, pool: str) -> list[Stretch]:
        """The ranges of the pool to scan now, in order: one with everything, or several that skip dead entries."""
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
        """Notes what a scan of these ranges of one pool found, in order, and how long it took."""
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
