"""The worker: claims as many jobs as it can run, runs them, and lets none outlive its lease."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.outcomes import Finished
from ..engine.views import Lease
from ..operations import Leases
from ..refused import LeaseLost, Overloaded, Refused
from ..store.base import StoreError
from ..tools import Tool
from .context import JobContext
from .values import Accepted, Cancel, FinalError, Partial, Retry

log = logging.getLogger("ficha.worker")

POLL_S = 1.0
"""Wake-ups are hints; a worker also looks by itself this often."""
UNKNOWN_TOOL_S = 10.0
"""A job whose tool this process does not know goes back for so long: another release may know it."""


class Worker:
    """Runs handlers of the given tools for the given pools, `concurrency` at a time."""

    def __init__(
        self,
        operations: Leases,
        tools: Mapping[str, Tool],
        *,
        pools: Sequence[str],
        concurrency: int,
        name: str,
        heartbeat_s: float,
    ) -> None:
        self._operations = operations
        self._tools = tools
        self._pools = tuple(pools)
        self._concurrency = concurrency
        self._name = name
        self._heartbeat_s = heartbeat_s
        self._running: dict[asyncio.Task[None], Lease] = {}

    async def run(self, *, burst: bool = False, max_seconds: float | None = None) -> int:
        """Works until cancelled, and returns how many jobs it ran.

        With `burst`, until the queue is empty; with `max_seconds`, until that time is up. Jobs under way are finished.
        When cancelled, the jobs under way are handed back to the queue.
        """
        ends_at = float("inf") if max_seconds is None else time.monotonic() + max_seconds
        renewer = asyncio.create_task(self._renew(), name="ficha renewer")
        ran = 0
        try:
            while time.monotonic() < ends_at:
                heard = self._operations.work_heard(self._pools)
                claimed = await self._claim()
                ran += len(claimed or ())
                if claimed == [] and burst and not self._running:
                    break
                if not claimed or len(self._running) >= self._concurrency:
                    await self._wait(min(POLL_S, ends_at - time.monotonic()), heard)
            if self._running:
                # A job that is taken away does not stop the worker; a worker that is stopped still knows its jobs.
                await asyncio.wait(self._running)
            return ran
        finally:
            await self._hand_back()
            renewer.cancel()
            await asyncio.gather(renewer, return_exceptions=True)

    async def _claim(self) -> list[Lease] | None:
        """What was there to claim; None if that could not be found out."""
        free = self._concurrency - len(self._running)
        if free == 0:
            return []
        try:
            leases = await self._operations.claim(self._pools, limit=free, worker=self._name)
        except (Overloaded, StoreError) as error:
            log.warning("no claim: %s", error)
            return None
        for lease in leases:
            task = asyncio.create_task(self._run_one(lease), name=f"ficha job {lease.job_id}")
            self._running[task] = lease
            task.add_done_callback(self._running.pop)
        return leases

    async def _wait(self, most_s: float, heard: int) -> None:
        """Until there may be work, or room for it."""
        work = asyncio.create_task(self._operations.wait_for_work(self._pools, most_s, since=heard))
        try:
            is_full = len(self._running) >= self._concurrency
            awaited = {*self._running} if is_full else {*self._running, work}
            await asyncio.wait(awaited, timeout=max(0.0, most_s), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _renew(self) -> None:
        """Keeps the leases alive; a handler whose lease was lost is stopped."""
        while True:
            await asyncio.sleep(self._heartbeat_s)
            held = dict(self._running)
            try:
                answers = await self._operations.heartbeat(held.values())
            except Exception as error:
                log.warning("no heartbeat: %s", error)
                continue
            for task, answer in zip(held, answers, strict=True):
                if isinstance(answer, LeaseLost):
                    task.cancel()

    async def _run_one(self, lease: Lease) -> None:
        try:
            await self._operations.start(lease)
            await self._run_handler(lease)
        except LeaseLost as lost:
            log.info("job %s: %s", lease.job_id, lost)
        except Refused as refused:
            log.warning("job %s: what came of it could not be written: %s", lease.job_id, refused)
        except Exception:
            log.exception("job %s: what came of it could not be written; its lease will expire", lease.job_id)

    async def _run_handler(self, lease: Lease) -> Finished:
        job = lease.job
        tool = self._tools.get(job.tool)
        if tool is None:
            return await self._operations.retry(lease, UNKNOWN_TOOL_S, reason=f"this worker has no tool {job.tool}")
        steps = await self._operations.steps(job.id) if lease.epoch > 1 else {}
        context = JobContext(self._operations, lease, job, steps)
        try:
            if inspect.iscoroutinefunction(tool.handler):
                async with asyncio.timeout(tool.timeout):
                    result = await tool.handler(context, **job.payload)
            else:
                result = await asyncio.to_thread(tool.handler, context, **job.payload)
        except FinalError as error:
            return await self._operations.fail(lease, str(error), final=True)
        except TimeoutError as error:
            return await self._operations.fail(lease, str(error) or f"timed out after {tool.timeout:g} s")
        except LeaseLost:
            raise
        except Exception as error:
            log.info("job %s failed", lease.job_id, exc_info=True)
            return await self._operations.fail(lease, str(error) or type(error).__name__)
        return await self._say(lease, result)

    async def _say(self, lease: Lease, result: Any) -> Finished:
        """Writes how the run ended. What cannot be written fails the job: to run it again would not help."""
        try:
            return await self._ending(lease, result)
        except Refused as refused:
            if refused.code not in ("INVALID_ARGUMENT", "INVALID_PAYLOAD", "TOO_LARGE"):
                raise
            return await self._operations.fail(lease, f"the result cannot be stored: {refused}", final=True)

    async def _ending(self, lease: Lease, result: Any) -> Finished:
        """How the run ended, by what the handler returned."""
        match result:
            case Partial(value, delivered, of):
                return await self._operations.finish(lease, value, delivered=delivered, of=of)
            case Retry(after, reason):
                return await self._operations.retry(lease, after, reason=reason)
            case Cancel(reason):
                return await self._operations.give_up(lease, reason)
            case Accepted(ref):
                return await self._operations.accept(lease, ref)
            case _:
                return await self._operations.finish(lease, result)

    async def _hand_back(self) -> None:
        """Stops what still runs and returns it to the queue, so that no job waits for a lease to expire."""
        held = dict(self._running)
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        for lease in held.values():
            try:
                await self._operations.retry(lease, 0.0, reason="the worker was stopped")
            except Exception as error:
                log.debug("job %s was not handed back: %s", lease.job_id, error)
