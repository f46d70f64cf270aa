"""Deadlines: which run is over its time, with one timer for all of them.

Runs of one timeout end in the order they began, so each timeout has a queue of its own, and nothing is sorted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadlines(Generic[T]):
    """Calls `over` with whatever was added and not removed within its time."""

    def __init__(self, over: Callable[[T], None]) -> None:
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._queues: dict[float, dict[T, float]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = float("inf")

    def add(self, value: T, timeout_s: float) -> None:
        at = self._loop.time() + timeout_s
        self._queues.setdefault(timeout_s, {})[value] = at
        if at < self._next:
            self._set(at)

    def remove(self, value: T, timeout_s: float) -> None:
        self._queues[timeout_s].pop(value, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, at: float) -> None:
        self.close()
        self._next = at
        self._timer = None if at == float("inf") else self._loop.call_at(at, self._look)

    def _look(self) -> None:
        # The timer stands at the first deadline there was when it was set; that run may have ended meanwhile.
        now = self._loop.time()
        for queue in self._queues.values():
            while queue:
                value, at = next(iter(queue.items()))
                if at > now:
                    break
                del queue[value]
                self._over(value)
        self._set(min((next(iter(queue.values())) for queue in self._queues.values() if queue), default=float("inf")))
