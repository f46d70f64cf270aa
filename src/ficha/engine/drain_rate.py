"""The drain rate of each pool: how fast jobs leave its line. Estimated waits come from it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from ..store.waiting_columns import Key, Lines

WINDOW_S: Final = 5.0
"""Rates are measured over windows of this length; a gap longer than ten windows is not measured."""
WINDOW_WEIGHT: Final = 0.3
SAMPLE: Final = 8
"""How many neighbours in a line each step of the search looks at."""
SEARCHED: Final = 8_192
"""How far behind its old index a job with an improved rank is searched for: newer jobs may be ahead of it by now."""


class DrainRate:
    """Moving averages of jobs per second that leave each pool's line."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        self._left: Counter[str] = Counter()
        self._window_s = 0.0

    def observe(self, before: Lines, after: Lines, elapsed_s: float) -> None:
        """Counts what left each pool's line between two snapshots; rates are updated once per window."""
        if elapsed_s > 10 * WINDOW_S:
            self._left.clear()
            self._window_s = 0.0
            return
        for pool in before.owners:
            self._left[pool] += drained_count(before, after, pool)
        self._window_s += elapsed_s
        if self._window_s >= WINDOW_S:
            for pool, left in self._left.items():
                rate = left / self._window_s
                known = self._rates.get(pool, rate)
                self._rates[pool] = known + WINDOW_WEIGHT * (rate - known)
            self._left.clear()
            self._window_s = 0.0

    def wait_s(self, pool: str, position: int) -> float | None:
        """The estimated wait of the job at this position; None while the pool's rate is unknown."""
        rate = self._rates.get(pool, 0.0)
        return round(position / rate, 1) if rate > 0 else None


def drained_count(before: Lines, after: Lines, pool: str) -> int:
    """How many jobs have left the head of the pool's line, in a time that hardly depends on its length.

    Claims take from the head, so the first job that still waits is found by galloping and then binary search. A claimed
    job may come back, and one in the middle may be cancelled, so each step looks at a sample of neighbours and follows
    the majority.
    """
    line, later = before.line(pool), after.line(pool)
    samples = range(-(-len(line) // SAMPLE))

    def gone_from(sample: int) -> int:
        members = range(len(line))[sample * SAMPLE : (sample + 1) * SAMPLE]
        return sum(not _still_waits(before.key(line[index]), index, after, later) for index in members)

    def mostly_waits(sample: int) -> bool:
        return 2 * gone_from(sample) <= SAMPLE

    low, high = 0, 0
    while high < len(samples) and not mostly_waits(high):
        low, high = high + 1, 2 * high + 1
    first = bisect_left(samples, True, low, min(high, len(samples)), key=mostly_waits)
    return SAMPLE * max(first - 1, 0) + sum(gone_from(sample) for sample in (first - 1, first) if sample in samples)


def _still_waits(key: Key, index: int, after: Lines, later: range) -> bool:
    """Returns whether the job that was at this index still waits.

    Where a plan ages, a job's rank may have improved; such a job is searched for by its id, further ahead. For a job
    far behind, that search would be long, and the job is assumed to wait: it can hardly have had its turn.
    """
    ahead, is_there = after.find(later, key)
    if is_there or (ahead > SEARCHED and index > SEARCHED):
        return True
    return after.has_id(later[: min(ahead, index + SEARCHED)], key[1])
