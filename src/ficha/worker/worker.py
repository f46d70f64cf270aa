"""The worker: claims as many jobs as it can run, runs them, and lets none outlive its lease."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

from ..engine.views import Lease
from ..errors import Overloaded, Refused
from ..operations import LeaseOperations, StandingClaim
from ..store.base import StoreError
from ..tools import Tool
from .call_groups import CallGroups
from .completer import Completer, End, pause_s
from .deadlines import Deadlines
from .executor import Executor
from .failure import Failure
from .lease_writer import LeaseWriter
from .registration import Registration
from .renewer import Lifeline, Renewer
from .run import Run, Why, facts_of
from .run_log import record
from .wake_event import WakeEvent, wake

log = logging.getLogger("ficha.worker")

POLL_S = 5.0
"""Wake-ups are hints; a worker also looks by itself this often."""
UNKNOWN_TOOL_S = 10.0
"""A job whose tool this process does not know goes back for so long: another release may know it."""
STOPPING_S: Final = 2.0
"""What a handler gets to clean up when the worker stops, at most."""
LOOK_S: Final = 1.0
"""How often held jobs are looked at, at most, on a hint that one of them may be cancelled."""
FOREVER_S: Final = 86_400.0
UNWRITTEN: Final = 2
"""Jobs whose end is not yet written may be so many times as many as may run: then nothing more is claimed."""


class Worker:
    """Runs handlers of the given tools for the given pools, `concurrency` at a time.

    lifeline: opens what the renewer uses on its own thread; None renews on the loop. hung: called when a handler blocks
    the loop beyond its time.
    """

    def __init__(
        self,
        operations: LeaseOperations,
        tools: Mapping[str, Tool],
        *,
        pools: Sequence[str],
        concurrency: int,
        name: str,
        heartbeat_s: float,
        lifeline: Lifeline | None = None,
        hung: Callable[[], None] | None = None,
    ) -> None:
        self._operations = operations
        self._tools = tools
        self._pools = tuple(pools)
        self._concurrency = concurrency
        self._name = name
        self._heartbeat_s = heartbeat_s
        self._lifeline = lifeline
        self._hung = hung
        self._runs: dict[str, Run] = {}
        self._busy = 0
        self._tasks: dict[asyncio.Task[None], Sequence[Run]] = {}
        self._stir = WakeEvent()
        self._stopped = WakeEvent()
        self._stops_at: float | None = None
        self._pid = os.getpid()
        self._unknown: set[str] = set()
        self._endings = Completer(operations, self._written, self._gives_up)

    @property
    def name(self) -> str:
        return self._name

    @property
    def pools(self) -> tuple[str, ...]:
        return self._pools

    def stop(self, grace_s: float) -> None:
        """Claims nothing more; what runs may end within the grace, and is then handed back. May be called again."""
        at = time.monotonic() + grace_s
        self._stops_at = at if self._stops_at is None else min(at, self._stops_at)
        self._stopped.ring()
        self._stir.ring()

    async def run(self, *, burst: bool = False, max_seconds: float | None = None) -> int:
        """Works until stopped or cancelled, and returns how many jobs it ran.

        With `burst`, until the queue is empty; with `max_seconds`, until that time is up. Jobs under way are finished.
        When cancelled, the jobs under way are handed back to the queue.
        """
        presence = Registration(self._name, self._pools, self._concurrency, self._heartbeat_s)
        self._renewer = Renewer(
            self._operations,
            self._lifeline,
            interval_s=self._heartbeat_s,
            seen=presence.say,
            lost=self._lose,
            hung=self._hung,
        )
        self._deadlines: Deadlines[Run] = Deadlines(lambda run: self._end(run, "timeout"))
        self._call_groups = CallGroups(self._begin_group)
        self._calls = Executor(self._name)
        ran = 0
        async with presence.announced(self._operations), self._renewer.running():
            ends_at = float("inf") if max_seconds is None else time.monotonic() + max_seconds
            listener = asyncio.create_task(self._listen(), name="ficha cancellations")
            try:
                ran = await self._claim_until(ends_at, burst)
                await self._finish_runs()
                return ran
            finally:
                listener.cancel()
                await self._hand_back()
                self._deadlines.close()
                await self._calls.close()
                await asyncio.gather(listener, return_exceptions=True)

    # Claiming

    async def _claim_until(self, ends_at: float, burst: bool) -> int:
        ran = tries = 0
        is_drained = False
        while self._stops_at is None and time.monotonic() < ends_at:
            self._stir.hush()
            heard = self._operations.work_heard(self._pools)
            free = self._free()
            if free <= 0:
                await self._wait(ends_at - time.monotonic(), None)
                continue
            if not is_drained:
                leases = await self._claim(free)
                if leases is None:
                    tries += 1
                    await self._wait(min(pause_s(tries), ends_at - time.monotonic()), None)
                    continue
                tries = 0
                ran += len(leases)
                if len(leases) == free:
                    continue
                if burst and not leases and self._is_idle():
                    break
            # The queue is empty for now. A job that ends may free a slot of a pool, but that is heard of as well.
            free = self._free()
            taken = await self._stand(free, min(POLL_S, ends_at - time.monotonic()), heard, for_ends=burst)
            ran += taken
            # Unless something was heard of meanwhile, which the transaction that brought these may not have seen.
            is_drained = 0 < taken < free and self._operations.work_heard(self._pools) == heard
        return ran

    async def _stand(self, free: int, most_s: float, heard: int, *, for_ends: bool) -> int:
        """Waits for work, and for leases that come together with a submit of this process; how many of these."""
        standing = self._operations.stand(self._pools, limit=free, worker=self._name) if free > 0 else None
        try:
            await self._wait(most_s, heard, standing, for_ends=for_ends)
        finally:
            taken: list[Lease] | None = None
            if standing is not None and not standing.withdraw():
                is_there = standing.answered.done()
                taken = self._begun(standing.granted) if is_there else await self._leases(standing.leases())
        return len(taken or ())

    def _gives_up(self) -> bool:
        """Whether there is no more time to wait for a database that is away."""
        return self._stops_at is not None and time.monotonic() > self._stops_at + STOPPING_S

    def _is_idle(self) -> bool:
        # Not whether tasks are left: a handler that was given up may never end.
        return not self._runs and not self._endings.unwritten

    def _free(self) -> int:
        """How many more it can start at once."""
        return min(self._concurrency - self._busy, UNWRITTEN * self._concurrency - self._busy - self._endings.unwritten)

    async def _claim(self, free: int) -> list[Lease] | None:
        """What was there to claim; None if that could not be found out."""
        return await self._leases(self._operations.claim(self._pools, limit=free, worker=self._name, starts=True))

    async def _leases(self, claim: Coroutine[Any, Any, list[Lease]]) -> list[Lease] | None:
        asked = asyncio.ensure_future(claim)
        try:
            await asyncio.wait([asked])
        except asyncio.CancelledError:
            # What is being claimed would wait for its lease to expire; it is begun, and handed back with the rest.
            await asyncio.wait([asked], timeout=STOPPING_S)
            if asked.done() and not asked.cancelled() and asked.exception() is None:
                self._begun(asked.result)
            asked.cancel()
            raise
        return self._begun(asked.result)

    def _begun(self, granted: Callable[[], list[Lease]]) -> list[Lease] | None:
        """What was claimed, each begun; None if that could not be found out."""
        try:
            leases = granted()
        except (Overloaded, StoreError) as error:
            log.warning("no claim: %s", error)
            return None
        for lease in leases:
            self._begin(lease)
        return leases

    async def _wait(
        self, most_s: float, heard: int | None, standing: StandingClaim | None = None, *, for_ends: bool = True
    ) -> None:
        """Until something ended here, or the time is up, or (with `heard`) there may be work, or it is told to stop."""
        if most_s <= 0:
            return
        if heard is not None and self._operations.work_heard(self._pools) != heard:
            return
        waiter = (self._stir if for_ends else self._stopped).waiter()
        woken = partial(wake, waiter)
        timer = asyncio.get_running_loop().call_later(min(most_s, FOREVER_S), woken)
        if standing is not None:
            standing.answered.add_done_callback(woken)
        try:
            with nullcontext() if heard is None else self._operations.telling_of_work(self._pools, waiter):
                await waiter
        finally:
            timer.cancel()
            if standing is not None:
                standing.answered.remove_done_callback(woken)

    # Running

    def _begin(self, lease: Lease) -> None:
        tool = self._tools.get(lease.core.job.tool)
        if tool is None:
            self._refuse_unknown(lease)
            return
        earlier = self._runs.get(lease.job_id)
        if earlier is not None:
            # Its lease is gone, or this one would not be: it must not go on beside the new run.
            self._end(earlier, "lost")
        run = Run.of(lease, tool, LeaseWriter(self._operations, lease, self._gives_up))
        self._runs[lease.job_id] = run
        self._busy += 1
        self._renewer.keep(lease, tool.timeout)
        self._deadlines.add(run, tool.timeout)
        record("claimed", run.job.facts, "running")
        if tool.jobs_per_call is None:
            run.task = self._spawn(self._run(run), (run,))
        else:
            self._call_groups.add(run)

    def _refuse_unknown(self, lease: Lease) -> None:
        tool = lease.core.job.tool
        if tool not in self._unknown:
            self._unknown.add(tool)
            log.warning("this worker has no tool %s; its jobs are left to others", tool)
        words = f"this worker has no tool {tool}"
        ending = self._operations.retry_later(UNKNOWN_TOOL_S, words)
        self._endings.add(End(lease, facts_of(lease), ending, 0.0, None, {"error": words}))

    def _begin_group(self, runs: list[Run]) -> None:
        held = [run for run in runs if not run.is_over]
        if held:
            task = self._spawn(self._run_group(held), held)
            for run in held:
                run.mates, run.task = held, task

    async def _run(self, run: Run) -> None:
        try:
            result = await self._calls.call(run)
        except asyncio.CancelledError:
            _uncancel()
            result = Failure("the handler was cancelled from inside") if run.why is None else None
        except BaseException as error:
            result = Failure.of(error, run.tool)
        self._over(run, result)

    async def _run_group(self, runs: list[Run]) -> None:
        results: list[Any]
        try:
            results = await self._calls.call_group(runs)
        except asyncio.CancelledError:
            _uncancel()
            results = [Failure("the handler was cancelled from inside")] * len(runs)
        except BaseException as error:
            results = [Failure.of(error, run.tool) for run in runs]
        for run, result in zip(runs, results, strict=True):
            self._over(run, result)

    # Ending

    def _over(self, run: Run, result: Any) -> None:
        """The handler is done: its slot is free, and what came of it is written, unless it was stopped."""
        if os.getpid() != self._pid:
            # The handler forked, and its child came back here: this is not the worker, and must not speak for it.
            os._exit(0)
        if run.is_over:
            return
        self._free_slot(run)
        if run.why == "lost":
            self._forget(run)
            return
        self._endings.add(self._endings.end_of(run, result))

    def _free_slot(self, run: Run) -> None:
        run.over()
        self._busy -= 1
        self._deadlines.remove(run, run.tool.timeout)
        self._stir.ring()

    def _written(self, end: End) -> None:
        if end.run is None:
            self._stir.ring()
        else:
            self._forget(end.run)

    def _forget(self, run: Run) -> None:
        self._renewer.let_go(run.lease)
        if self._runs.get(run.lease.job_id) is run:
            del self._runs[run.lease.job_id]
        self._stir.ring()

    # Stopping a run

    def _lose(self, lease: Lease, refused: Refused) -> None:
        """The job is no longer this worker's: its handler is stopped, and nothing that it says is written."""
        run = self._runs.get(lease.job_id)
        if run is not None and run.lease is lease and not run.is_over:
            record("lost", run.job.facts, str(refused.details.get("status", "lost")), run.duration_s)
            self._end(run, "lost")

    def _end(self, run: Run, why: Why) -> None:
        """Stops a run. A handler that does not stop within its grace is given up, and its job goes its way."""
        if run.is_over or run.why is not None:
            return
        run.why = why
        run.job.stop()
        if run.task is None or len(run.mates) > 1:
            # A call for several jobs goes on for the others; it is stopped when there are none.
            mates, task = run.mates, run.task
            self._over(run, None)
            if task is not None and all(mate.why is not None or mate.is_over for mate in mates):
                task.cancel()
            return
        run.task.cancel()
        grace_s = min(run.tool.stop_grace, STOPPING_S) if why == "stopping" else run.tool.stop_grace
        asyncio.get_running_loop().call_later(grace_s, self._give_up, run)

    def _give_up(self, run: Run) -> None:
        if run.is_over:
            return
        record("does not stop; given up", run.job.facts, "running", run.duration_s, level=logging.WARNING)
        if run.task is not None and run.tool.isolation == "process":
            # Its process is ended within a second, and only then its job goes its way.
            run.task.cancel()
        else:
            self._over(run, None)

    async def _listen(self) -> None:
        """Looks at the held jobs when it hears that one may have been cancelled, instead of at the next heartbeat."""
        heard = self._operations.cancels_heard(self._name)
        while True:
            await self._operations.wait_for_cancels(self._name, FOREVER_S, since=heard)
            heard = self._operations.cancels_heard(self._name)
            held = [run.lease for run in self._runs.values() if not run.is_over]
            if held:
                try:
                    for lease, refused in await self._operations.lost(held):
                        self._lose(lease, refused)
                except (Refused, StoreError) as error:
                    log.debug("held jobs could not be looked at: %s", error)
            await asyncio.sleep(LOOK_S)

    async def _finish_runs(self) -> None:
        """Lets what runs come to its end, within the grace if it was stopped."""
        while not self._is_idle():
            self._stir.hush()
            left_s = float("inf") if self._stops_at is None else self._stops_at - time.monotonic()
            if left_s <= 0:
                return
            await self._wait(left_s, None)

    async def _hand_back(self) -> None:
        """Stops what still runs and returns it to the queue, so that no job waits for a lease to expire."""
        self._stops_at = min(time.monotonic(), self._stops_at or float("inf"))
        self._call_groups.close()
        for run in list(self._runs.values()):
            self._end(run, "stopping")
        until = time.monotonic() + 2 * STOPPING_S
        try:
            while (self._runs or self._endings.unwritten) and time.monotonic() < until:
                self._stir.hush()
                await self._wait(until - time.monotonic(), None)
        finally:
            # Whoever does not wait for it may close the database next: nothing is written from then on.
            for task in list(self._tasks):
                task.cancel()
            self._endings.close()

    def _spawn(self, coroutine: Coroutine[Any, Any, None], runs: Sequence[Run]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks[task] = runs
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        for run in self._tasks.pop(task):
            if not run.is_over:
                # A task that is cancelled before its first step never comes to its own end.
                self._over(run, None if run.why is not None else Failure("the run was broken off"))
        self._stir.ring()


def _uncancel() -> None:
    """What follows a handler that was stopped is not to be stopped as well."""
    task = asyncio.current_task()
    assert task is not None
    while task.cancelling():
        task.uncancel()
