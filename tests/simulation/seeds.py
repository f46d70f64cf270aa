"""Plays seeds, on several cores if there are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from .world import Report, World

AT_ONCE: Final = 8
"""How many seeds a process takes at a time."""
LOT: Final = 1_000
"""How many seeds the same processes play. A seed leaves 0.3 MB behind that Python does not collect, most of it held by
the exceptions of cancelled futures."""


def played(seeds: range, processes: int) -> Iterator[tuple[Report, float]]:
    """What came of each seed, in order, and how many seconds of a processor it took."""
    if min(processes, len(seeds)) < 2:
        yield from map(play_seed, seeds)
        return
    for first in range(0, len(seeds), LOT):
        pool = ProcessPoolExecutor(min(processes, len(seeds)), get_context("spawn"))
        try:
            yield from pool.map(play_seed, seeds[first : first + LOT], chunksize=AT_ONCE)
        finally:
            pool.shutdown(cancel_futures=True)


def play_seed(seed: int) -> tuple[Report, float]:
    worked_from = time.process_time()
    return World(seed).run(), time.process_time() - worked_from
