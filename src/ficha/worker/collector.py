"""Collects what providers made: polls for each job that is due, copies its files, and finishes it.

A job is held while its provider is polled, until a time that is renewed. If the process dies, the hold expires and
another process polls. If a verified call-back told how the work ended, it is used instead of a poll.

Workers collect what is due at once. A server collects what no worker took, so that call-backs finish jobs, and what
providers made is copied, also while no worker runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import msgspec

from .. import validation as arg
from ..core import commands as c
from ..core.policy import millionths
from ..core.records import Awaiting, Job
from ..errors import Refused
from ..job_log import begin, fields_of, timed
from ..operations import ProviderOperations
from ..operations.provider_jobs import clean_result, clean_status
from ..outbound import OutboundError
from ..providers import (
    Provider,
    ProviderBusy,
    ProviderError,
    ProviderFailed,
    ProviderHttp,
    ProviderResult,
    ProviderStatus,
    ProviderSucceeded,
    ProviderWorking,
)
from ..providers.base import is_plain
from ..redaction import redacted
from ..store.base import StoreError
from ..tools import Tool
from . import due_runner
from .due_runner import DueRunner
from .starter import provider_span, trace_of

log = logging.getLogger("ficha.providers")

AT_ONCE: Final = 20
"""The most jobs that are collected at a time."""
HOLD_S = 30.0
"""How long a job is held before its holder is treated as dead. The hold is renewed after a third of that time."""
SERVERS_AFTER_S = 5.0
"""How long a server leaves a due job to the workers."""
MILLISECONDS: Final = 1_000


class Collector(DueRunner):
    """Collects the results of these tools' jobs. after_s: how long a job must have been seen due before it is
    collected here."""

    what = "jobs of providers"

    def __init__(self, operations: ProviderOperations, tools: Mapping[str, Tool], *, after_s: float = 0.0) -> None:
        super().__init__()
        self._after_s = after_s
        self._due_since: dict[str, float] = {}
        self._operations = operations
        self._tools = tools
        self._providers = {name: tool.provider for name, tool in tools.items() if tool.provider is not None}

    async def _begin(self) -> int:
        free = AT_ONCE - len(self._tasks)
        if free <= 0:
            return 0
        # Jobs under way are listed too if a call-back has arrived meanwhile; they are polled again when they end.
        listed = await self._operations.due_polls(self._providers, AT_ONCE + 1)
        under_way = {*self._tasks.values()}
        due = self._left([poll.job_id for poll in listed if not poll.wait_ms and poll.job_id not in under_way])[:free]
        if waits := [poll.wait_ms for poll in listed if poll.wait_ms]:
            self._look_within(waits[0] / MILLISECONDS)
        held = [job for job in await asyncio.gather(*map(self._hold, due)) if job is not None]
        for job in held:
            self._start(self._collect(job), job.id)
        return len(held)

    def _left(self, due: list[str]) -> list[str]:
        """Those of the due jobs that have been due for long enough."""
        if not self._after_s:
            return due
        now = time.monotonic()
        self._due_since = {job_id: self._due_since.get(job_id, now) for job_id in due}
        if waits := [self._after_s - (now - at) for at in self._due_since.values() if now - at < self._after_s]:
            self._look_within(min(waits))
        return [job_id for job_id in due if now - self._due_since[job_id] >= self._after_s]

    def _heard(self) -> int:
        return self._operations.polls_heard()

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        return await self._operations.wait_for_polls(timeout_s, since=since)

    def _due_in_s(self) -> float:
        """A burst does not wait for a poll that is due `POLL_S` or more from now: that is left to another worker."""
        due_s = max(0.0, self._look_at - time.monotonic())
        return due_s if due_s < due_runner.POLL_S else float("inf")

    async def _hold(self, job_id: str) -> Job | None:
        """Holds the job; None if it cannot. An error about one job must not end the wait for the others."""
        try:
            return await self._operations.hold_poll(job_id, HOLD_S)
        except (Refused, StoreError) as error:
            known = fields_of(job_id, worker=self.worker)
            log.warning("job %s could not be taken, to ask its provider: %s", job_id, error, extra=known)
            return None

    def _fields(self, job: Job, duration_s: float, status: str | None = None) -> dict[str, Any]:
        return fields_of(
            job.id,
            job.spec,
            worker=self.worker,
            attempt=job.attempts + 1,
            epoch=job.epoch,
            status=status or job.status,
            duration_s=duration_s,
        )

    async def _collect(self, job: Job) -> None:
        begin(timed(partial(self._fields, job)))
        hold = _Hold(self._operations, job)
        provider = self._providers[job.spec.tool]
        try:
            async with hold.renewed():
                await self._ask(job, provider, hold)
        except (Refused, StoreError) as error:
            log.warning("what %s said of job %s was not written: %s", provider.name, job.id, error)
        except Exception:
            # Not an error of Ficha, and not final: the provider is polled again until the job's deadline.
            log.exception("what %s made of job %s could not be collected", provider.name, job.id)
            await self._again(job, provider, hold)

    async def _ask(self, job: Job, provider: Provider, hold: _Hold) -> None:
        http = self._operations.provider_http(provider, job.spec.correlation_id or job.id, trace_of(job))
        assert isinstance(job.place, Awaiting)
        ref = job.place.ref
        try:
            status: ProviderStatus | None = await self._operations.kept_word(job)
            if status is None:
                with provider_span("provider poll", provider, job):
                    status = clean_status(await provider.status(http, ref))
            match status:
                case ProviderWorking(progress):
                    await self._operations.end_poll(job.id, hold.until_at, provider.poll_s, progress=progress)
                case ProviderFailed():
                    await self._finish(job, provider, _failed(status))
                case ProviderSucceeded(result):
                    await self._finish(job, provider, await self._completed(job, provider, http, result))
        except ProviderBusy as busy:
            await self._again(job, provider, hold, busy.retry_after_s)
        except ProviderError as error:
            if error.final and error.for_user:
                await self._finish(job, provider, _failed(ProviderFailed(error.message)))
                return
            log.warning("%s could not be asked about job %s: %s", provider.name, job.id, error)
            await self._again(job, provider, hold, error.retry_after_s)

    async def _completed(
        self, job: Job, provider: Provider, http: ProviderHttp, result: ProviderResult | None
    ) -> c.Ending:
        """The result with its files copied, because providers soon delete them."""
        assert isinstance(job.place, Awaiting)
        if result is None:
            found = await provider.result(http, job.place.ref)
            if isinstance(found, ProviderFailed):
                return _failed(found)
            result = clean_result(found)
        save, files = self._operations.save_result, []
        try:
            for number, file in enumerate(result.files):
                files.append(await save(job.id, job.attempts, number, file))
        except OutboundError as error:
            raise ProviderError(f"a file that it made could not be fetched: {error}", is_fault=False) from error
        except Refused as error:
            if error.retryable or error.code == "LEASE_LOST":
                raise
            words = arg.text(f"what the provider made cannot be kept: {error}")
            return c.Failed(words, final=True, provider_cost=await self._cost(job, result))
        value = {"output": msgspec.to_builtins(result.output), "files": files}
        cost = await self._cost(job, result)
        # Of several requested items, those that the provider made a file for were delivered; the others are refunded.
        delivered = len(files) if 0 < len(files) < job.spec.units else None
        try:
            stored = arg.stored(value, "the result", self._operations.limits)
            return c.Completed(stored, delivered, provider_cost=cost)
        except Refused as error:
            return c.Failed(arg.text(f"the result cannot be stored: {error}"), final=True, provider_cost=cost)

    async def _cost(self, job: Job, result: ProviderResult) -> int | None:
        """What the provider charged for its work, as it reports or else as the tool computes it."""
        tool = self._tools[job.spec.tool]
        if result.cost is not None or tool.provider_cost is None:
            return millionths(result.cost)
        return tool.provider_cost_of(await self._operations.payload_of(job.id))

    async def _finish(self, job: Job, provider: Provider, ending: c.Ending) -> None:
        with provider_span(f"finish {job.spec.tool}", provider, job):
            finished = await self._operations.finish_awaiting(job, ending)
        log.info(
            "collected",
            extra={"provider": provider.name, "status": finished.status, "changed": finished.changed},
        )

    async def _again(self, job: Job, provider: Provider, hold: _Hold, after_s: float | None = None) -> None:
        try:
            await self._operations.end_poll(job.id, hold.until_at, provider.poll_s, after_s=after_s or 0.0)
        except (Refused, StoreError) as error:
            log.warning("when to ask %s again about job %s was not written: %s", provider.name, job.id, error)


def _failed(status: ProviderFailed) -> c.Failed:
    """The ending of a run whose work failed, with the provider's words as far as each reader may have them."""
    words = arg.text(redacted(status.error) or "the provider failed")
    for_user = status.for_user and is_plain(status.error)
    details = None if status.details is None else arg.text(redacted(status.details))
    return c.Failed(words, status.final, for_user, details, provider_cost=millionths(status.cost))


class _Hold:
    """One job that is held."""

    def __init__(self, operations: ProviderOperations, job: Job) -> None:
        assert isinstance(job.place, Awaiting)
        assert job.place.poll_at is not None
        self._operations = operations
        self._job_id = job.id
        self.until_at = job.place.poll_at

    @asynccontextmanager
    async def renewed(self) -> AsyncIterator[None]:
        """Renews the hold until the block ends."""
        task = asyncio.create_task(self._renew(), name="ficha hold")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(HOLD_S / 3)
            try:
                job = await self._operations.hold_poll(self._job_id, HOLD_S, self.until_at)
            except (Refused, StoreError) as error:
                log.debug("the hold of job %s was not renewed: %s", self._job_id, error)
                continue
            if job is None:
                # The job ended, or a call-back arrived: then the job is polled again afterwards.
                return
            assert isinstance(job.place, Awaiting)
            assert job.place.poll_at is not None
            self.until_at = job.place.poll_at
