"""Calls one tool's handler, in the worker or in a child process: a coroutine on the loop, a plain function in a
thread."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..tools import PayloadMismatch, Tool
from .context import JobContext, ThreadJobContext
from .failure import Failure
from .tool_threads import ToolThreads

if TYPE_CHECKING:
    from .run import Run


class ToolRunner:
    """The calls of one tool in this process, and their threads."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._threads = ToolThreads(tool.name)

    async def call(self, job: JobContext) -> Any:
        """Returns what the handler returned, or a failure if the payload does not fit it. Raises what it raised."""
        tool = self._tool
        try:
            arguments = tool.arguments(job.facts.payload)
        except PayloadMismatch as mismatch:
            return Failure(str(mismatch))
        if tool.is_async:
            return await tool.handler(job, **arguments)
        context = ThreadJobContext(job, asyncio.get_running_loop())
        return await self._threads.call(partial(tool.handler, context, **arguments))

    async def call_group(self, runs: list[Run]) -> list[Any]:
        """Calls the handler once for all runs and returns a result for each. A run whose payload does not fit fails
        alone."""
        results: dict[Run, Any] = {}
        payloads: dict[Run, Any] = {}
        for run in runs:
            try:
                payloads[run] = self._tool.arguments(run.lease.claimed.payload)
            except PayloadMismatch as mismatch:
                results[run] = Failure(str(mismatch))
        if payloads:
            results.update(zip(payloads, await self._answers(payloads), strict=True))
        return [results[run] for run in runs]

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Ends the task's call although its function goes on."""
        self._threads.give_up(task)

    def close(self) -> None:
        self._threads.close()

    async def _answers(self, payloads: Mapping[Run, Any]) -> list[Any]:
        tool, loop = self._tool, asyncio.get_running_loop()
        jobs = [run.job if tool.is_async else ThreadJobContext(run.job, loop) for run in payloads]
        given = (jobs, list(payloads.values())) if tool.takes_payloads else (jobs,)
        if tool.is_async:
            answers = await tool.handler(*given)
        else:
            answers = await self._threads.call(partial(tool.handler, *given))
        if not isinstance(answers, list | tuple) or len(answers) != len(payloads):
            said = f"{len(answers)} results" if isinstance(answers, list | tuple) else type(answers).__name__
            problem = (
                f"a handler with jobs_per_call must return a list with a result for each of its {len(payloads)} jobs"
            )
            return [Failure(f"{problem}, not {said}")] * len(payloads)
        return [Failure.of(answer, tool) if isinstance(answer, BaseException) else answer for answer in answers]
