"""Grouping: if a tool's handler takes several jobs per call, its jobs wait a moment for each other."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from ..tools import Tool
from .run import Run


class CallGroups:
    """Starts the runs of a tool together: when there are enough, or when the first has waited `linger_ms`.

    A group that is not full goes on collecting while all `max_calls` of its tool are under way: it could not begin.

    start: begins a call; `call_ended` must follow. most: the most runs that there can be at once.
    """

    def __init__(self, start: Callable[[list[Run]], None], most: int) -> None:
        self._start = start
        self._most = most
        self._waiting: dict[str, list[Run]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._due: set[str] = set()
        self._under_way: Counter[str] = Counter()

    def add(self, run: Run) -> None:
        tool = run.tool
        waiting = self._waiting.setdefault(tool.name, [])
        waiting.append(run)
        if len(waiting) >= min(tool.jobs_per_call or 1, self._most):
            self._flush(tool)
        elif len(waiting) == 1:
            loop = asyncio.get_running_loop()
            self._timers[tool.name] = loop.call_later(tool.linger_ms / 1_000, self._linger_over, tool)

    def call_ended(self, tool: Tool) -> None:
        self._under_way[tool.name] -= 1
        if tool.name in self._due:
            self._linger_over(tool)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._due.clear()

    def _linger_over(self, tool: Tool) -> None:
        if tool.max_calls is None or self._under_way[tool.name] < tool.max_calls:
            self._flush(tool)
        else:
            self._due.add(tool.name)

    def _flush(self, tool: Tool) -> None:
        timer = self._timers.pop(tool.name, None)
        if timer is not None:
            timer.cancel()
        self._due.discard(tool.name)
        self._under_way[tool.name] += 1
        self._start(self._waiting.pop(tool.name))
