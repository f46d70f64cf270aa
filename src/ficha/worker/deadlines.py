"""Timeouts of runs, with one timer for all of them.

Runs with the same timeout expire in the order they began, so each timeout has its queue and nothing is sorted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Calls `expired` with each value that was not removed within its timeout."""

    def __init__(self, expired: Callable[[T], None]) -> None:
        self._expired = expired
        self._loop = asyncio.get_running_loop()
        self._queues: dict[float, dict[T, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, value: T, timeout_s: float) -> None:
        at = self._loop.time() + timeout_s
        self._queues.setdefault(timeout_s, {})[value] = at
        if at < self._next:
            self._set_timer(at)

    def remove(self, value: T, timeout_s: float) -> None:
        self._queues[timeout_s].pop(value, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self, at: float) -> None:
        self.close()
        self._next = at
        self._timer = None if at == float("inf") else self._loop.call_at(at, self._check)

    def _check(self) -> None:
        # The timer was set for what was then the earliest deadline; that run may have ended since.
        now = self._loop.time()
        for queue in self._queues.values():
            while queue:
                value, at = next(iter(queue.items()))
                if at > now:
                    break
                del queue[value]
                self._expired(value)
        first = (next(iter(queue.values())) for queue in self._queues.values() if queue)
        self._set_timer(min(first, default=float("inf")))
