"""The workload that every peer gets: the same jobs with the same payloads, and how many of them."""

from __future__ import annotations

import threading
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
    waits: how many jobs one after the other are timed from their submit to their handler's start.
    rounds: how often each measurement is taken; the median counts.
    most_callers: whatever a measurement asks for, there are no more; only a smoke run has fewer than it asks for.
    """

    seconds: float = 2.0
    jobs: int = 20_000
    waits: int = 200
    rounds: int = 3
    most_callers: int = max(CALLERS)

    @property
    def warm_up(self) -> int:
        """Jobs that live and end before the clock starts: connections are open and statements prepared by then."""
        return min(self.jobs, 1_000)


QUICK: Final = Size(seconds=0.05, jobs=100, waits=5, rounds=1, most_callers=16)
"""A smoke run: everything happens, and no figure means anything."""


@dataclass
class Numbers:
    """Hands out the numbers of jobs, each once, to any thread, and knows how many it has handed out."""

    used: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self) -> int:
        with self._lock:
            self.used += 1
            return self.used - 1

    def take(self, count: int) -> list[int]:
        return [self.next() for _ in range(count)]


def account(number: int, among: int = ACCOUNTS) -> str:
    return f"account-{number % among}"


def payload(number: int) -> dict[str, Any]:
    return {"image": f"https://images.example/{number}.png", "scale": 2}
