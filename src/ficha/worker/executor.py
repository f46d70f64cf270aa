"""Calls handlers where their tool says: in this process, or in a child process."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from ..tools import Tool
from .process_pool import ProcessPool
from .run import Run
from .tool_runner import ToolRunner


class Executor:
    """Calls a worker's handlers, and owns its threads and child processes."""

    def __init__(self, worker: str) -> None:
        self._process_pool = ProcessPool(worker)
        self._runners: dict[str, ToolRunner] = {}

    async def close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        await self._process_pool.close()

    def call(self, run: Run) -> Coroutine[Any, Any, Any]:
        """Returns what the handler returned, and raises what it raised. A cancelled call ends once it has stopped."""
        if run.tool.isolation == "process":
            return self._process_pool.call(run)
        return self._runner(run.tool).call(run.job)

    def call_group(self, runs: list[Run]) -> Coroutine[Any, Any, list[Any]]:
        """Calls the handler once for all runs and returns a result for each."""
        return self._runner(runs[0].tool).call_group(runs)

    def give_up(self, tool: Tool, task: asyncio.Task[Any]) -> None:
        """Ends the task's call of a handler that does not stop: its thread is left behind, and another takes its
        place."""
        self._runner(tool).give_up(task)

    def _runner(self, tool: Tool) -> ToolRunner:
        runner = self._runners.get(tool.name)
        if runner is None:
            runner = self._runners[tool.name] = ToolRunner(tool)
        return runner
