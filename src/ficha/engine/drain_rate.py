"""The pace of each pool: how fast it takes jobs off its line, which is what an estimated wait comes from."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from ..store.waiting_columns import Key, Lines

WINDOW_S: Final = 5.0
"""A pool's pace is counted over windows of this length; a gap of many windows between two looks says nothing."""
WINDOW_WEIGHT: Final = 0.3
GROUP: Final = 8
"""Neighbours in a line that are judged together."""
SEARCHED: Final = 8_192
"""So many jobs may have come in ahead of one that has come forward itself, for it to be found again."""


class DrainRate:
    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        self._left: Counter[str] = Counter()
        self._window_s = 0.0

    def observe(self, before: Lines, after: Lines, elapsed_s: float) -> None:
        """Takes in what left the lines of the pools between two looks; the rates follow window by window."""
        if elapsed_s > 10 * WINDOW_S:
            self._left.clear()
            self._window_s = 0.0
            return
        for pool in before.owners:
            self._left[pool] += gone(before, after, pool)
        self._window_s += elapsed_s
        if self._window_s >= WINDOW_S:
            for pool, left in self._left.items():
                rate = left / self._window_s
                known = self._rates.get(pool, rate)
                self._rates[pool] = known + WINDOW_WEIGHT * (rate - known)
            self._left.clear()
            self._window_s = 0.0

    def wait_s(self, pool: str, position: int) -> float | None:
        """How long the job at this position will wait; None while nothing is known of the pool's pace."""
        rate = self._rates.get(pool, 0.0)
        return round(position / rate, 1) if rate > 0 else None


def gone(before: Lines, after: Lines, pool: str) -> int:
    """How many jobs have left the head of the pool's line, in a time that hardly depends on its length.

    Claims take from the head, so the first that still waits is searched for in doubling steps and then by halves. Now
    and then one of the head comes back, or one of the middle is cancelled: each step looks at a group of neighbours
    and goes by what most of them did.
    """
    line, later = before.line(pool), after.line(pool)
    groups = range(-(-len(line) // GROUP))

    def missing(group: int) -> int:
        members = range(len(line))[group * GROUP : (group + 1) * GROUP]
        return sum(not _waits(before.key(line[index]), index, after, later) for index in members)

    def stays(group: int) -> bool:
        return 2 * missing(group) <= GROUP

    low, high = 0, 0
    while high < len(groups) and not stays(high):
        low, high = high + 1, 2 * high + 1
    first = bisect_left(groups, True, low, min(high, len(groups)), key=stays)
    return GROUP * max(first - 1, 0) + sum(missing(group) for group in (first - 1, first) if group in groups)


def _waits(key: Key, index: int, after: Lines, later: range) -> bool:
    """Whether the job that stood at this index still waits.

    Where waiting improves a job's rank, it may have another key by now, and then it stands further ahead, where it is
    searched for. That would take long for one that stood far behind, and such a one has hardly had its turn.
    """
    ahead, is_there = after.find(later, key)
    if is_there or (ahead > SEARCHED and index > SEARCHED):
        return True
    return after.has_id(later[: min(ahead, index + SEARCHED)], key[1])
