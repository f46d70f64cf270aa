"""Calls handlers: as a coroutine on the loop, in a thread, in a child process, or once for several jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from ..tools import PayloadMismatch, Tool
from .context import ThreadJobContext
from .failure import Failure
from .handler_call import call_handler
from .process_pool import ProcessPool
from .run import Run
from .threads import in_thread


class Executor:
    """Calls a worker's handlers, and owns its child processes."""

    def __init__(self, worker: str) -> None:
        self._process_pool = ProcessPool(worker)

    async def close(self) -> None:
        await self._process_pool.close()

    def call(self, run: Run) -> Coroutine[Any, Any, Any]:
        """Returns what the handler returned, and raises what it raised. A cancelled call ends once it has stopped."""
        return self._process_pool.call(run) if run.tool.isolation == "process" else call_handler(run.tool, run.job)

    async def call_group(self, runs: list[Run]) -> list[Any]:
        """Calls the handler once for all runs and returns a result for each. A run whose payload does not fit fails
        alone."""
        tool = runs[0].tool
        results: dict[Run, Any] = {}
        payloads: dict[Run, Any] = {}
        for run in runs:
            try:
                payloads[run] = tool.arguments(run.lease.claimed.payload)
            except PayloadMismatch as mismatch:
                results[run] = Failure(str(mismatch))
        if payloads:
            answers = await self._answers(tool, payloads)
            results.update(zip(payloads, answers, strict=True))
        return [results[run] for run in runs]

    async def _answers(self, tool: Tool, payloads: dict[Run, Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        jobs = [run.job if tool.is_async else ThreadJobContext(run.job, loop) for run in payloads]
        given = (jobs, list(payloads.values())) if tool.takes_payloads else (jobs,)
        if tool.is_async:
            answers = await tool.handler(*given)
        else:
            answers = await in_thread(f"ficha {tool.name}", partial(tool.handler, *given))
        if not isinstance(answers, list | tuple) or len(answers) != len(payloads):
            said = f"{len(answers)} results" if isinstance(answers, list | tuple) else type(answers).__name__
            problem = (
                f"a handler with jobs_per_call must return a list with a result for each of its {len(payloads)} jobs"
            )
            return [Failure(f"{problem}, not {said}")] * len(payloads)
        return [Failure.of(answer, tool) if isinstance(answer, BaseException) else answer for answer in answers]
