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
        self._threads = ToolThreads(tool.name, tool.max_calls)

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
        alone; one that is over when the call begins is left out."""
        results: dict[Run, Any] = dict.fromkeys(runs)
        payloads: dict[Run, Any] = {}
        for run in runs:
            try:
                payloads[run] = self._tool.arguments(run.lease.claimed.payload)
            except PayloadMismatch as mismatch:
                results[run] = Failure(str(mismatch))
        if payloads:
            results |= await self._answers(payloads)
        return list(results.values())

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Ends the task's call although its function goes on."""
        self._threads.give_up(task)

    def close(self) -> None:
        self._threads.close()

    async def _answers(self, payloads: Mapping[Run, Any]) -> dict[Run, Any]:
        tool, loop = self._tool, asyncio.get_running_loop()
        jobs = {run: run.job if tool.is_async else ThreadJobContext(run.job, loop) for run in payloads}
        if tool.is_async:
            called = [run for run in payloads if not run.is_over]
            answers = await tool.handler(*self._given(called, jobs, payloads)) if called else []
        else:
            called, answers = await self._threads.call(partial(self._call_all, jobs, payloads))
        if not isinstance(answers, list | tuple) or len(answers) != len(called):
            said = f"{len(answers)} results" if isinstance(answers, list | tuple) else type(answers).__name__
            problem = (
                f"a handler with jobs_per_call must return a list with a result for each of its {len(called)} jobs"
            )
            return dict.fromkeys(called, Failure(f"{problem}, not {said}"))
        return {
            run: Failure.of(answer, tool) if isinstance(answer, BaseException) else answer
            for run, answer in zip(called, answers, strict=True)
        }

    def _call_all(self, jobs: Mapping[Run, Any], payloads: Mapping[Run, Any]) -> tuple[list[Run], Any]:
        """Calls the handler on a thread. The call may have waited for it, and runs may be over since."""
        called = [run for run in payloads if not run.is_over]
        return called, self._tool.handler(*self._given(called, jobs, payloads)) if called else []

    def _given(self, called: list[Run], jobs: Mapping[Run, Any], payloads: Mapping[Run, Any]) -> tuple[Any, ...]:
        given = [jobs[run] for run in called]
        return (given, [payloads[run] for run in called]) if self._tool.takes_payloads else (given,)
