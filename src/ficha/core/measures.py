"""Measures: how long jobs waited and ran, how providers answered, how large batches are; for counters that only rise.

They are part of the figures of a commit (`figures.py`), and are added up once, over all time, by the same fold. Nothing
is ever subtracted: a counter that Prometheus reads must not fall, whatever is deleted and whichever process restarts.
Each count of a histogram is stored with its bound, so that a later release may add bounds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from typing import Final, Literal

from msgspec import Struct

from .policy import MILLISECOND
from .records import Batch, Entry, Histogram, Measures

CallOutcome = Literal["answered", "failed", "abandoned"]
"""What became of a request to a provider: it was answered, the provider failed, or its caller was cancelled."""

OTHER: Final = "other"
"""The name under which everything counts that is not counted under its own."""
DURATIONS_MS: Final = (
    *(50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 20_000, 45_000),
    *(120_000, 300_000, 600_000, 1_800_000, 3_600_000, 14_400_000, 86_400_000),
)
"""The bounds of all durations. Among them are those of the alert about slow runs: 45 s is usual, 120 s is slow."""
SIZES: Final = (1, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)
"""The bounds of the sizes of batches."""
BEYOND: Final = 0
"""Stands for the bound of numbers above the last bound."""
MOST_PROVIDERS: Final = 100
"""How many providers are counted separately."""


class EndedCall(Struct, frozen=True, gc=False):
    """A request that went to a provider, and how long it took."""

    provider: str
    outcome: CallOutcome
    took_ms: int


class Gathered:
    """Collects numbers in histograms, by name."""

    __slots__ = ("_bounds", "_buckets", "_sums")

    def __init__(self, bounds: tuple[int, ...] = DURATIONS_MS) -> None:
        self._bounds = bounds
        self._sums: dict[str, int] = {}
        self._buckets: dict[str, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, name: str, number: int, times: int = 1) -> None:
        """Adds a number that was measured so many times."""
        index = bisect_left(self._bounds, number)
        bound = self._bounds[index] if index < len(self._bounds) else BEYOND
        self._sums[name] = self._sums.get(name, 0) + number * times
        buckets = self._buckets.setdefault(name, {})
        buckets[bound] = buckets.get(bound, 0) + times

    def add_time(self, name: str, duration_us: int, times: int = 1) -> None:
        """Adds a duration in milliseconds, rounded up. A negative one, after a clock was set back, counts as 0."""
        self.add(name, max(0, -(-duration_us // MILLISECOND)), times)

    def add_all(self, name: str, more: Histogram) -> None:
        self._sums[name] = self._sums.get(name, 0) + more.sum
        buckets = self._buckets.setdefault(name, {})
        for bound, count in more.buckets.items():
            buckets[bound] = buckets.get(bound, 0) + count

    def histograms(self) -> dict[str, Histogram]:
        return {name: Histogram(self._sums[name], buckets) for name, buckets in self._buckets.items()}


def measured(
    waits: Gathered, runs: Gathered, batches: list[Batch], entries: list[Entry], calls: Collection[EndedCall]
) -> Measures | None:
    """The measures of a commit; None if there is nothing to measure."""
    if not (waits or runs or batches or entries or calls):
        return None
    sizes, latencies = Gathered(SIZES), Gathered()
    outcomes: dict[str, dict[str, int]] = {}
    for batch in batches:
        sizes.add("", batch.total)
    for call in calls:
        latencies.add(call.provider, call.took_ms)
        _count(outcomes, call.provider, call.outcome, 1)
    taken = sum(-entry.amount for entry in entries if entry.kind == "adjust" and entry.amount < 0)
    found = Measures(
        waits.histograms(), runs.histograms(), outcomes, latencies.histograms(), sizes.histograms().get(""), taken
    )
    return found if found != _NOTHING else None


_NOTHING: Final = Measures()


def all_measures(
    parts: Iterable[Measures | None], plans: Collection[str] | None = None, tools: Collection[str] | None = None
) -> Measures | None:
    """Returns the sum of measures; None if there is nothing. With `plans` and `tools`, all others count as `other`, and
    so do providers after the first `MOST_PROVIDERS`."""
    waits, runs, sizes, latencies = Gathered(), Gathered(), Gathered(SIZES), Gathered()
    outcomes: dict[str, dict[str, int]] = {}
    taken = 0
    for part in parts:
        if part is None:
            continue
        for plan, more in part.waits.items():
            waits.add_all(plan if plans is None or plan in plans else OTHER, more)
        for tool, more in part.runs.items():
            runs.add_all(tool if tools is None or tool in tools else OTHER, more)
        for provider, counts in part.calls.items():
            named = provider if provider in outcomes or plans is None or len(outcomes) < MOST_PROVIDERS else OTHER
            for outcome, count in counts.items():
                _count(outcomes, named, outcome, count)
            latencies.add_all(named, part.latencies[provider])
        if part.batches is not None:
            sizes.add_all("", part.batches)
        taken += part.taken
    found = Measures(
        waits.histograms(), runs.histograms(), outcomes, latencies.histograms(), sizes.histograms().get(""), taken
    )
    return found if found != _NOTHING else None


def _count(into: dict[str, dict[str, int]], name: str, kind: str, count: int) -> None:
    counts = into.setdefault(name, {})
    counts[kind] = counts.get(kind, 0) + count
