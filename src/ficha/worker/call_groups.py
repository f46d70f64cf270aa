"""Grouping: jobs of a tool whose handler takes several per call wait a moment for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from .run import Run


class CallGroups:
    """Starts the runs of a tool together: when there are enough, or when the first has waited `linger_ms`."""

    def __init__(self, start: Callable[[list[Run]], None]) -> None:
        self._start = start
        self._waiting: dict[str, list[Run]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def add(self, run: Run) -> None:
        name = run.tool.name
        waiting = self._waiting.setdefault(name, [])
        waiting.append(run)
        if len(waiting) >= (run.tool.jobs_per_call or 1):
            self._flush(name)
        elif name not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[name] = loop.call_later(run.tool.linger_ms / 1_000, self._flush, name)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _flush(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
        self._start(self._waiting.pop(name, []))
