"""The workload that every peer gets: the same jobs with the same payloads, and how many of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

CALLERS: Final = (1, 64, 512)
"""How many callers submit at a time, each waiting for its answer before it asks again."""
ACCOUNTS: Final = 200
COST: Final = 5
RESULT: Final[dict[str, Any]] = {"ok": True}


@dataclass(frozen=True)
class Size:
    """How much is measured.

    seconds: how long callers submit in one measurement.
    jobs: how many jobs are submitted in bulk, and how many wait when a queue is emptied.
    rounds: how often each measurement is taken; the median counts.
    """

    seconds: float = 2.0
    jobs: int = 20_000
    rounds: int = 3

    @property
    def warm_up(self) -> int:
        """Jobs that live and end before the clock starts: connections are open and statements prepared by then."""
        return min(self.jobs, 1_000)


QUICK: Final = Size(seconds=0.1, jobs=200, rounds=1)
"""A smoke run: everything happens, and no figure means anything."""


@dataclass
class Numbers:
    """Hands out the numbers of jobs, each once, and knows how many it has handed out."""

    used: int = 0
    _counter: Iterator[int] = field(default_factory=itertools.count)

    def next(self) -> int:
        self.used += 1
        return next(self._counter)

    def take(self, count: int) -> list[int]:
        return [self.next() for _ in range(count)]


def account(number: int) -> str:
    return f"account-{number % ACCOUNTS}"


def payload(number: int) -> dict[str, Any]:
    return {"image": f"https://images.example/{number}.png", "scale": 2}
