"""Calls one tool's handler, in the worker or in a child process: a coroutine on the loop, a plain function in a
thread. The tool is set up first."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from ..job_files import FoundFiles, JobFile, ThreadJobFile
from ..tools import PayloadMismatch, Tool
from .context import JobContext, ThreadJobContext, bind_files, bind_to_thread
from .failure import Failure, SetupFailed
from .threads import in_thread
from .tool_threads import ToolThreads

if TYPE_CHECKING:
    from .run import Run


class ToolRunner:
    """The calls of one tool in this process, its threads, and what a coroutine handler's setup returned.

    A call raises SetupFailed if the tool could not be set up; the next call tries that again.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._threads = ToolThreads(tool)
        # A coroutine has a device only in a child process, where the tool has just that one.
        self._device = tool.device_for(())
        self._setup: Any = None
        self._is_set_up = tool.setup is None
        self._setting_up: asyncio.Task[SetupFailed | None] | None = None

    async def set_up(self) -> None:
        """Sets the tool up now, rather than with the first job; for a plain function, on one thread."""
        if self._tool.setup is None:
            return
        if self._tool.is_async:
            await self._set_up_loop()
        else:
            await self._threads.call(lambda *_: None)

    async def call(self, job: JobContext) -> Any:
        """Returns what the handler returned, or a failure if the payload does not fit it. Raises what it raised."""
        tool, found = self._tool, self._found_files()
        try:
            arguments = tool.arguments(job.facts.payload, found)
        except PayloadMismatch as mismatch:
            return Failure(str(mismatch))
        if found is not None and (gone := await bind_files(job, found.files)) is not None:
            return Failure(gone, final=True, for_user=True)
        if tool.is_async:
            if not self._is_set_up:
                await self._set_up_loop()
            job.prepare(self._setup, self._device)
            return await tool.handler(job, **arguments)
        context = ThreadJobContext(job, asyncio.get_running_loop())
        if found is not None:
            bind_to_thread(context, found.files)
        return await self._threads.call(partial(self._call_one, context, arguments))

    async def call_group(self, runs: list[Run]) -> list[Any]:
        """Calls the handler once for all runs and returns a result for each. A run whose payload does not fit fails
        alone; a run that is over when the call begins is omitted."""
        results: dict[Run, Any] = dict.fromkeys(runs)
        payloads: dict[Run, Any] = {}
        for run in runs:
            found = self._found_files()
            try:
                value = self._tool.arguments(run.lease.claimed.payload, found)
            except PayloadMismatch as mismatch:
                results[run] = Failure(str(mismatch))
                continue
            if found is not None and (gone := await bind_files(run.job, found.files)) is not None:
                results[run] = Failure(gone, final=True, for_user=True)
                continue
            if found is not None and not self._tool.is_async:
                bind_to_thread(ThreadJobContext(run.job, asyncio.get_running_loop()), found.files)
            payloads[run] = value
        if payloads:
            results |= await self._answers(payloads)
        return list(results.values())

    def _found_files(self) -> FoundFiles | None:
        """A collector of the files that a payload names; None if payloads of the tool have none."""
        if not self._tool.payload.has_files:
            return None
        return FoundFiles(JobFile if self._tool.is_async else ThreadJobFile)

    def give_up(self, task: asyncio.Task[Any]) -> None:
        """Ends the task's call although its function goes on."""
        self._threads.give_up(task)

    def close(self) -> None:
        self._threads.close()
        if self._setting_up is not None:
            self._setting_up.cancel()

    async def _answers(self, payloads: Mapping[Run, Any]) -> dict[Run, Any]:
        tool, loop = self._tool, asyncio.get_running_loop()
        if tool.is_async:
            if not self._is_set_up:
                await self._set_up_loop()
            called, given = self._begun({run: run.job for run in payloads}, payloads, self._setup, None)
            answers = await tool.handler(*given) if called else []
        else:
            jobs = {run: ThreadJobContext(run.job, loop) for run in payloads}
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

    def _begun(
        self, jobs: Mapping[Run, Any], payloads: Mapping[Run, Any], setup: Any, device: str | None
    ) -> tuple[list[Run], tuple[Any, ...]]:
        """The runs of a call that begins now, and the handler's arguments. Runs that ended while the call waited are
        omitted."""
        called = [run for run in payloads if not run.is_over]
        given = [jobs[run] for run in called]
        for job in given:
            job.prepare(setup, device)
        return called, (given, [payloads[run] for run in called]) if self._tool.takes_payloads else (given,)

    # On a thread

    def _call_one(self, job: ThreadJobContext, arguments: dict[str, Any], setup: Any, device: str | None) -> Any:
        job.prepare(setup, device)
        return self._tool.handler(job, **arguments)

    def _call_all(
        self, jobs: Mapping[Run, Any], payloads: Mapping[Run, Any], setup: Any, device: str | None
    ) -> tuple[list[Run], Any]:
        called, given = self._begun(jobs, payloads, setup, device)
        return called, self._tool.handler(*given) if called else []

    # Setting up for a coroutine

    async def _set_up_loop(self) -> None:
        """Sets the tool up once for all calls. Cancelling one waiting call does not cancel the setup for the others."""
        if self._setting_up is None:
            self._setting_up = asyncio.create_task(
                self._call_setup(), name=f"ficha setup {self._tool.name}", context=Context()
            )
        task = self._setting_up
        try:
            failed = await asyncio.shield(task)
        finally:
            if task.done() and self._setting_up is task:
                self._setting_up = None
        if failed is not None:
            raise SetupFailed(*failed.args)

    async def _call_setup(self) -> SetupFailed | None:
        setup = self._tool.setup
        try:
            if setup is not None and inspect.iscoroutinefunction(setup):
                self._setup = await self._tool.call_setup(self._device)
            elif setup is not None:
                call = partial(self._tool.call_setup, self._device)
                self._setup = await in_thread(f"ficha setup {self._tool.name}", call)
        except BaseException as error:
            return SetupFailed.of(error)
        self._is_set_up = True
        return None
