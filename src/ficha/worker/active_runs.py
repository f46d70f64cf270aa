"""The runs of a worker that have not ended: begins them, stops them, and hands their results to the completer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from .. import job_log, tracing
from ..core.suspects import is_suspect
from ..engine.views import Lease
from ..errors import Refused
from ..operations import LeaseOperations
from ..store.base import StoreError
from ..tools import Tool
from .call_groups import CallGroups
from .completer import Completer, End
from .deadlines import Deadlines
from .executor import Executor
from .failure import Failure, SetupFailed
from .lease_writer import LeaseWriter
from .renewer import Renewer
from .run import Run, StopReason, facts_of, group_fields
from .run_log import record
from .starter import Starter
from .wake_event import WakeEvent

log = logging.getLogger("ficha.worker")

UNKNOWN_TOOL_S = 10.0
"""A job whose tool this worker does not have is retried after this long: a worker of another release may have it."""
STOPPING_S = 2.0
"""The longest that a handler may clean up when the worker stops."""
UNWRITTEN_PER_SLOT: Final = 2
"""Running jobs and unwritten ends together may be this many times `concurrency`; beyond that, nothing is claimed."""


class ActiveRuns:
    """Runs handlers, `concurrency` at a time, until their jobs' ends are written.

    renewer: renews the lease of each run. changed: set whenever a run ended or its end was written. gives_up: whether
    to stop retrying while the database is unreachable.
    """

    def __init__(
        self,
        operations: LeaseOperations,
        tools: Mapping[str, Tool],
        *,
        worker: str,
        concurrency: int,
        executor: Executor,
        renewer: Renewer,
        starter: Starter | None,
        changed: WakeEvent,
        gives_up: Callable[[], bool],
    ) -> None:
        self._operations = operations
        self._tools = tools
        self._worker = worker
        self._concurrency = concurrency
        self._executor = executor
        self._renewer = renewer
        self._starter = starter
        self._changed = changed
        self._gives_up = gives_up
        self._runs: dict[str, Run] = {}
        self._suspects: set[str] = set()
        self._busy = 0
        self._tasks: dict[asyncio.Task[None], Sequence[Run]] = {}
        self._pid = os.getpid()
        self._unknown: set[str] = set()
        self._completer = Completer(operations, self._written, gives_up)
        self._deadlines: Deadlines[Run] = Deadlines(lambda run: self._stop(run, "timeout"))
        self._call_groups = CallGroups(self._begin_group, concurrency)

    @property
    def is_idle(self) -> bool:
        """Whether no job is held and every end is written."""
        # Tasks do not count: a handler that was given up may never end.
        return not self._runs and not self._completer.unwritten

    @property
    def has_suspects(self) -> bool:
        """Whether a job is held that has lost a run: nothing may run beside it."""
        return bool(self._suspects)

    def free_slots(self) -> int:
        """How many more jobs can be started now."""
        unwritten = self._completer.unwritten
        return min(self._concurrency, UNWRITTEN_PER_SLOT * self._concurrency - unwritten) - self._busy

    def held(self) -> Iterator[Lease]:
        """The leases of all runs that are not over."""
        return (run.lease for run in self._runs.values() if not run.is_over)

    # Beginning

    def begin(self, lease: Lease) -> None:
        """Starts the handler of a claimed job."""
        tool = self._tools.get(lease.claimed.job.spec.tool)
        if tool is None:
            self._refuse_unknown(lease)
            return
        earlier = self._runs.get(lease.job_id)
        if earlier is not None:
            # A new lease means that the earlier one is lost; its run must not go on beside the new one.
            self._stop(earlier, "lost")
        run = Run.of(lease, tool, LeaseWriter(self._operations, lease, self._gives_up))
        if tracing.active is not None:
            self._trace(tracing.active, run)
        self._runs[lease.job_id] = run
        if is_suspect(run.lease.claimed.job):
            self._suspects.add(lease.job_id)
        self._busy += 1
        self._renewer.keep(lease, tool.timeout)
        self._deadlines.add(run, tool.timeout)
        record("claimed", run.job.facts, "running")
        if tool.jobs_per_call is None:
            run.task = self.spawn(self._run(run), (run,))
        else:
            self._call_groups.add(run)

    def _trace(self, spans: tracing.Tracing, run: Run) -> None:
        job = run.lease.claimed.job
        run.span = spans.begin_run(job, self._worker)
        if job.epoch == 1:
            spans.waited(job, job.created_at, run.lease.claimed_at)
        else:
            self.spawn(self._trace_wait(spans, run.lease))

    async def _trace_wait(self, spans: tracing.Tracing, lease: Lease) -> None:
        """The wait for a repeated run, which began where its job's history says."""
        try:
            since_at = await self._operations.queued_again_at(lease.job_id)
        except (Refused, StoreError) as error:
            log.debug("since when job %s waited is not known: %s", lease.job_id, error)
            return
        if since_at is not None:
            spans.waited(lease.claimed.job, since_at, lease.claimed_at)

    def _refuse_unknown(self, lease: Lease) -> None:
        tool = lease.claimed.job.spec.tool
        if tool not in self._unknown:
            self._unknown.add(tool)
            log.warning("this worker has no tool %s; its jobs are left to other workers", tool)
        error = f"this worker has no tool {tool}"
        ending = self._operations.retry_later(UNKNOWN_TOOL_S, error)
        self._completer.add(End(lease, facts_of(lease), ending, 0.0, None, {"error": error}))

    def _begin_group(self, runs: list[Run]) -> None:
        held = [run for run in runs if not run.is_over]
        if not held:
            self._call_groups.call_ended(runs[0].tool)
            return
        task = self.spawn(self._run_group(held), held)
        task.add_done_callback(lambda _: self._call_groups.call_ended(runs[0].tool))
        for run in held:
            run.call_group, run.task = held, task

    async def _run(self, run: Run) -> None:
        job_log.begin(run.job.log_fields)
        if run.span is not None and tracing.active is not None:
            tracing.active.enter(run.span)
        try:
            result = await self._executor.call(run)
        except asyncio.CancelledError:
            _uncancel()
            result = Failure("the handler was cancelled from inside") if run.stop_reason is None else None
        except SetupFailed as failed:
            result = failed
        except BaseException as error:
            result = Failure.of(error, run.tool)
        self._handler_done(run, result)

    async def _run_group(self, runs: list[Run]) -> None:
        results: list[Any]
        job_log.begin(partial(group_fields, runs))
        try:
            results = await self._executor.call_group(runs)
        except asyncio.CancelledError:
            _uncancel()
            results = [Failure("the handler was cancelled from inside")] * len(runs)
        except SetupFailed as failed:
            results = [failed] * len(runs)
        except BaseException as error:
            results = [Failure.of(error, run.tool) for run in runs]
        for run, result in zip(runs, results, strict=True):
            self._handler_done(run, result)

    # Ending

    def _handler_done(self, run: Run, result: Any) -> None:
        """Frees the run's slot and writes its result, unless the lease is lost."""
        if os.getpid() != self._pid:
            # The handler forked, and the fork returned to here: it must not write in the worker's place.
            os._exit(0)
        if run.is_over:
            return
        self._free_slot(run)
        if run.stop_reason == "lost":
            self._forget(run)
            return
        self._completer.add(self._completer.end_of(run, result))

    def _free_slot(self, run: Run) -> None:
        run.close()
        self._busy -= 1
        self._deadlines.remove(run, run.tool.timeout)
        self._changed.set()

    def _written(self, end: End, unchanged: str | None) -> None:
        if unchanged is not None and self._starter is not None:
            self._starter.unaccepted(end, unchanged)
        if end.run is None:
            self._changed.set()
        else:
            self._forget(end.run)

    def _forget(self, run: Run) -> None:
        if run.span is not None and tracing.active is not None:
            tracing.active.end_run(run.span, "lost")
        self._renewer.forget(run.lease)
        if self._runs.get(run.lease.job_id) is run:
            del self._runs[run.lease.job_id]
            self._suspects.discard(run.lease.job_id)
        self._changed.set()

    # Stopping

    def stop_all(self) -> None:
        """Stops every run because the worker stops."""
        self._call_groups.close()
        for run in list(self._runs.values()):
            self._stop(run, "stopping")

    def close(self) -> None:
        """Drops what has not ended: nothing is written from here on."""
        for task in list(self._tasks):
            task.cancel()
        self._completer.close()
        self._deadlines.close()

    def lose(self, lease: Lease, refused: Refused) -> None:
        """Stops the handler of a job that is no longer this worker's; its result is dropped."""
        run = self._runs.get(lease.job_id)
        if run is not None and run.lease is lease and not run.is_over:
            record("lost", run.job.facts, str(refused.details.get("status", "lost")), run.duration_s)
            self._stop(run, "lost")

    def _stop(self, run: Run, stop_reason: StopReason) -> None:
        """Stops a run. A handler that does not stop within its grace is given up, and its end is written."""
        if run.is_over or run.stop_reason is not None:
            return
        run.stop_reason = stop_reason
        run.job.stop()
        loop = asyncio.get_running_loop()
        if run.task is None or len(run.call_group) > 1:
            # A shared call goes on for the other runs; it is cancelled once none is left.
            call_group, task = run.call_group, run.task
            self._handler_done(run, None)
            if task is not None and all(other.stop_reason is not None or other.is_over for other in call_group):
                task.cancel()
                loop.call_later(run.tool.stop_grace, self._executor.give_up, run.tool, task)
            return
        run.task.cancel()
        grace_s = min(run.tool.stop_grace, STOPPING_S) if stop_reason == "stopping" else run.tool.stop_grace
        loop.call_later(grace_s, self._give_up, run)

    def _give_up(self, run: Run) -> None:
        if run.is_over:
            return
        record("does not stop; given up", run.job.facts, "running", run.duration_s, level=logging.WARNING)
        task = run.task
        if task is not None and run.tool.isolation == "process":
            # This kills its process within a second; only then is the end written.
            task.cancel()
            return
        self._handler_done(run, None)
        if task is not None:
            self._executor.give_up(run.tool, task)

    # Tasks

    def spawn(self, coroutine: Coroutine[Any, Any, None], runs: Sequence[Run] = ()) -> asyncio.Task[None]:
        """Starts a task that belongs to these runs and ends with the worker."""
        task = asyncio.create_task(coroutine)
        self._tasks[task] = runs
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        for run in self._tasks.pop(task):
            if not run.is_over:
                # A task that is cancelled before its first step never runs its own ending.
                self._handler_done(run, None if run.stop_reason is not None else Failure("the run was broken off"))
        self._changed.set()


def _uncancel() -> None:
    """Clears the task's cancellation, so that what follows the handler is not cancelled as well."""
    task = asyncio.current_task()
    assert task is not None
    while task.cancelling():
        task.uncancel()
