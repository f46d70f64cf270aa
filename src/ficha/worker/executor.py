"""Calls handlers in this process or in a child process, as their tool says, and no more at once than it allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ..tools import Tool
from .failure import SetupFailed
from .run import Run
from .setups import Setups
from .starter import Starter
from .tool_runner import ToolRunner

HandlerCall = Callable[[], Coroutine[Any, Any, Any]]


class Executor:
    """Calls a worker's handlers, and owns its threads and child processes."""

    def __init__(self, worker: str, setups: Setups, message_bytes: int, starter: Starter | None = None) -> None:
        # Imported here, so that `import ficha` does not wait for multiprocessing.
        from .process_pool import ProcessPool

        self._setups = setups
        self._starter = starter
        self._process_pool = ProcessPool(worker, message_bytes)
        self._runners: dict[str, ToolRunner] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._taken: dict[asyncio.Task[Any] | None, asyncio.Semaphore] = {}

    async def close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        await self._process_pool.close()
        if self._starter is not None:
            await self._starter.close()

    async def set_up(self, tool: Tool) -> None:
        """Sets the tool up for its first job: one thread, one child process, or the worker. Tries until it works."""
        while True:
            try:
                if tool.isolation == "process":
                    await self._process_pool.set_up(tool)
                else:
                    await self._runner(tool).set_up()
            except Exception as error:
                failed = error if isinstance(error, SetupFailed) else SetupFailed.of(error)
                await asyncio.sleep(self._setups.failed(tool, failed))
            else:
                self._setups.worked(tool)
                return

    def call(self, run: Run) -> Coroutine[Any, Any, Any]:
        """Returns what the handler returned, and raises what it raised. A cancelled call ends once it has stopped."""
        if run.tool.isolation == "process":
            return self._in_turn(run.tool, partial(self._process_pool.call, run))
        call = partial(self._runner(run.tool).call, run.job)
        if run.tool.provider is not None and self._starter is not None:
            call = partial(self._starter.start, run, call)
        return self._in_turn(run.tool, call)

    def call_group(self, runs: list[Run]) -> Coroutine[Any, Any, list[Any]]:
        """Calls the handler once for all runs and returns a result for each."""
        tool = runs[0].tool
        return self._in_turn(tool, partial(self._runner(tool).call_group, runs))

    def give_up(self, tool: Tool, task: asyncio.Task[Any]) -> None:
        """Abandons a call that does not stop, so that its turn is free. If it runs in a thread, another thread takes
        its place."""
        self._end_turn(task)
        self._runner(tool).give_up(task)

    def _runner(self, tool: Tool) -> ToolRunner:
        runner = self._runners.get(tool.name)
        if runner is None:
            runner = self._runners[tool.name] = ToolRunner(tool)
        return runner

    def _in_turn(self, tool: Tool, call: HandlerCall) -> Coroutine[Any, Any, Any]:
        """The call, which waits for its turn if the tool limits its calls."""
        if tool.setup is not None:
            call = partial(self._noting_setup, tool, call)
        # Calls on threads queue in `ToolThreads`: a thread begins the next one without a turn of the event loop.
        has_threads = tool.isolation != "process" and not tool.is_async
        return call() if tool.max_calls is None or has_threads else self._wait_for_turn(tool, tool.max_calls, call)

    async def _wait_for_turn(self, tool: Tool, most: int, call: HandlerCall) -> Any:
        turns = self._turns.get(tool.name) or self._turns.setdefault(tool.name, asyncio.Semaphore(most))
        await turns.acquire()
        task = asyncio.current_task()
        self._taken[task] = turns
        try:
            return await call()
        finally:
            self._end_turn(task)

    async def _noting_setup(self, tool: Tool, call: HandlerCall) -> Any:
        """Raises SetupFailed if the tool could not be set up, now or a moment ago."""
        self._setups.check(tool)
        try:
            result = await call()
        except SetupFailed as failed:
            self._setups.failed(tool, failed)
            raise
        except Exception:
            self._setups.worked(tool)
            raise
        self._setups.worked(tool)
        return result

    def _end_turn(self, task: asyncio.Task[Any] | None) -> None:
        turns = self._taken.pop(task, None)
        if turns is not None:
            turns.release()
