"""What must stay flat under a long load, and how that is judged."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Final

from msgspec import Struct

WARM_UP: Final = 0.3
"""The share of a run after which figures are judged: caches fill and tables get their working size before."""


class Sample(Struct, frozen=True):
    """At one moment: seconds since the start; memory of the processes that nobody kills, size of the working tables,
    connections, and the size of SQLite's -wal file."""

    at_s: float
    memory_mb: float
    tables_mb: float
    connections: int
    wal_mb: float = 0.0


class Measure(Struct, frozen=True):
    """A figure that may grow over the judged time by so much of its mean, and by so much in any case."""

    name: str
    share: float
    slack: float


MEASURES: Final = (
    # Of three processes. Each crash of a server makes their heaps a little larger, up to a bound, without a new object.
    Measure("memory_mb", 0.10, 24.0),
    Measure("tables_mb", 0.25, 3.0),
    Measure("connections", 0.20, 4.0),
    # It is cut down whenever nobody reads from it, so that it comes and goes.
    Measure("wal_mb", 0.50, 64.0),
)


class Judged(Struct, frozen=True):
    name: str
    mean: float
    most: float
    growth: float
    """Over the judged time, by the line that fits the samples best."""
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.growth <= self.allowed


def judged(samples: list[Sample]) -> list[Judged]:
    """Each figure after the warm-up; one that is 0 all the time is none of this database's."""
    later = [sample for sample in samples if sample.at_s >= WARM_UP * samples[-1].at_s]
    times = [sample.at_s for sample in later]
    found = []
    for measure in MEASURES:
        values = [float(getattr(sample, measure.name)) for sample in later]
        if not any(values):
            continue
        slope = statistics.linear_regression(times, values).slope if len(set(times)) > 1 else 0.0
        mean = statistics.fmean(values)
        allowed = max(measure.slack, measure.share * mean)
        found.append(Judged(measure.name, mean, max(values), slope * (times[-1] - times[0]), allowed))
    return found


def memory_mb(pids: list[int]) -> float:
    """The memory of processes that no file backs, summed up; of those that are there."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return total / 1024
