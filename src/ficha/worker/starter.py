"""Starts the work of provider tools: the tool's function returns a call, the provider gets it, and the job waits.

The same run of a job always has the same key and the same call-back address, whichever process makes the request, so a
provider that takes keys starts the work once, however often a worker dies here. For any other provider, each start is
written before its request goes out. If the run that made it is lost, the next one finds the work by a call-back or asks
the provider for it; where it can do neither, the attempt has failed. Work that nobody waits for any more is cancelled
at the provider.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from .. import job_log, tracing
from ..core.commands import AcceptedByProvider
from ..core.policy import SECOND
from ..core.records import Job, Leased
from ..engine.views import JobView
from ..errors import NotFound, Refused
from ..operations import ProviderOperations
from ..providers import Provider, ProviderBusy, ProviderCall, ProviderError, ProviderHttp
from ..providers.base import BUSY_S, is_plain
from ..providers.options import reference
from ..store.base import StoreError
from ..trace_context import run_context
from .completer import End
from .failure import Failure
from .results import ENDINGS, PostponedStart, StartedWork
from .run import Run

log = logging.getLogger("ficha.providers")

BACKOFF_MAX_S: Final = 60.0
"""The longest pause between two tries of a start that is safe to repeat."""
TELLING_S: Final = 3_600.0
"""For how long after a job's end a failed cancellation at its provider is tried again."""


class Starter:
    """Starts work at providers, and cancels work that nobody waits for."""

    def __init__(self, operations: ProviderOperations) -> None:
        self._operations = operations
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self, run: Run, make_call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Starts the work of a run; returns how the run ends: the provider accepted the work, or why it did not."""
        provider = run.tool.provider
        assert provider is not None
        if (earlier := await self._from_earlier_run(run, provider)) is not None:
            return earlier
        call = await make_call()
        if isinstance(call, ENDINGS):
            return call
        if not isinstance(call, ProviderCall):
            return Failure(f"the function of a provider tool returns a ProviderCall, not {type(call).__name__}", True)
        # The request goes on if the run is stopped: work that the provider begins must not be lost.
        starting = self._spawn(self._request(run, provider, call))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            if run.stop_reason == "stopping":
                await asyncio.wait({starting}, timeout=run.tool.stop_grace)
                if starting.done() and not starting.cancelled() and starting.exception() is None:
                    return starting.result()
            self._spawn(self._withdraw_later(run, provider, starting))
            raise

    async def close(self) -> None:
        """Cancels the requests that are still under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _from_earlier_run(self, run: Run, provider: Provider) -> StartedWork | PostponedStart | Failure | None:
        """What becomes of this run, if the provider may have received a start of an earlier run of the same attempt;
        None if this run may start the work."""
        job = run.lease.claimed.job
        if provider.takes_keys or job.epoch == 1:
            return None
        try:
            return await self._of_earlier_start(run, provider, job)
        except StoreError as error:
            return PostponedStart(BUSY_S, f"what was started before could not be read: {error}", unsent=False)

    async def _of_earlier_start(
        self, run: Run, provider: Provider, job: Job
    ) -> StartedWork | PostponedStart | Failure | None:
        start = await self._operations.open_start(job)
        if start is None:
            return None
        words = (
            f"{start.provider} may have received the start of a run that was lost with its process, so it is not asked "
            "to start the work again"
        )
        if start.provider != provider.name:
            return Failure(words)
        try:
            if start.named is not None:
                ref: str | None = reference(provider.full_ref(start.named, start.target), provider.name)
                if await self._is_of_another(str(ref), job.id):
                    return Failure(f"{words}; a call-back names {ref}, which is another job's work")
            elif provider.finds_work:
                with provider_span("provider find", provider, job):
                    ref = await provider.find(self._http(provider, run), key=_key(job), target=start.target)
            else:
                return Failure(words)
            if ref is not None:
                return StartedWork(reference(ref, provider.name), provider.poll_s)
            # The request may be under way still, if its process only stopped.
            assert isinstance(job.place, Leased)
            pause_s = provider.timeout_s - (job.place.leased_at - start.requested_at) / SECOND
            return None if pause_s <= 0 else PostponedStart(pause_s, words, unsent=False)
        except ProviderError as error:
            if not error.final and _tried_s(run) < run.tool.timeout:
                return PostponedStart(error.retry_after_s or _backoff_s(job), error.message, unsent=False)
            return Failure(f"{words}; it could not be found there: {error.message}")

    async def _is_of_another(self, ref: str, job_id: str) -> bool:
        """Whether a call-back came to the wrong address: a provider accepted another job under this reference."""
        try:
            return (await self._operations.job_by_ref(ref)).id != job_id
        except NotFound:
            return False

    async def _request(
        self, run: Run, provider: Provider, call: ProviderCall
    ) -> StartedWork | PostponedStart | Failure:
        job = run.lease.claimed.job

        async def note() -> None:
            try:
                await self._operations.note_start(run.lease, provider.name, call.target)
            except (Refused, StoreError) as error:
                raise ProviderBusy(f"the start could not be written, so it was not made: {error}", BUSY_S) from error

        try:
            with provider_span("provider start", provider, job):
                ref = await provider.start(
                    self._http(provider, run, None if provider.takes_keys else note),
                    call,
                    callback_url=self._operations.callback_url(provider.name, job.id, job.attempts),
                    key=_key(job),
                    correlation_id=run.job.correlation_id,
                )
        except ProviderBusy as busy:
            return PostponedStart(busy.retry_after_s, busy.message, unsent=True)
        except ProviderError as error:
            return self._failed(run, provider, error)
        return StartedWork(ref, provider.poll_s)

    def _failed(self, run: Run, provider: Provider, error: ProviderError) -> PostponedStart | Failure:
        """Has a failed start retried for as long as the job may run, if that cannot start the work twice: the provider
        takes keys, can tell whether it has the work, or certainly did not receive the request. Otherwise the attempt
        failed."""
        for_user = error.for_user and is_plain(error.message)
        if error.final:
            return Failure(error.message, final=True, for_user=for_user, traceback=error.details)
        is_safe = provider.takes_keys or provider.finds_work or not error.was_sent
        if is_safe and _tried_s(run) < run.tool.timeout:
            pause_s = error.retry_after_s or _backoff_s(run.lease.claimed.job)
            return PostponedStart(pause_s, error.message, unsent=not error.was_sent)
        return Failure(error.message, for_user=for_user, traceback=error.details)

    def unaccepted(self, end: End, status: str) -> None:
        """Handles an end that came too late to change anything: cancels the work that a provider has begun, if nobody
        waits for it. status: the job's."""
        if end.run is None or end.run.tool.provider is None or not isinstance(end.ending, AcceptedByProvider):
            return
        provider = end.run.tool.provider
        if _is_orphaned(provider, status):
            self._spawn(self._cancel(provider, end.ending.ref, end.run))

    async def _withdraw_later(
        self, run: Run, provider: Provider, starting: asyncio.Task[StartedWork | PostponedStart | Failure]
    ) -> None:
        started = await starting
        if not isinstance(started, StartedWork):
            return
        status: str | None = "failed"
        if run.stop_reason != "timeout":
            try:
                job = await self._operations.part(run.lease.job_id)
                status = job.status
            except (Refused, StoreError) as error:
                log.warning("whether job %s has ended is not known: %s", run.lease.job_id, error)
                return
            if job.provider_ref == started.ref:
                return  # The job's next run knew it already.
        if _is_orphaned(provider, status):
            await self._cancel(provider, started.ref, run)

    async def _cancel(self, provider: Provider, ref: str, run: Run) -> None:
        job_log.begin(run.job.log_fields)
        try:
            await provider.cancel(self._http(provider, run), ref)
        except Exception as error:
            log.warning("work that nobody waits for could not be cancelled at %s: %s", provider.name, error)

    async def tell(self, job: JobView) -> None:
        """The built-in hook: cancels the work at the provider, because the job ended without it."""
        tool = self._operations.tools.get(job.tool)
        ref = await self._operations.accepted_ref(job.id)
        if tool is None or tool.provider is None or ref is None:
            return
        provider = tool.provider
        try:
            await provider.cancel(self._operations.provider_http(provider, job.correlation_id or job.id), ref)
        except ProviderError as error:
            told_s = (
                0.0
                if job.finished_at is None
                else (await self._operations.queries.now() / SECOND) - (job.finished_at.timestamp())
            )
            if not error.final and told_s < TELLING_S:
                raise
            log.warning("job %s could not be cancelled at %s: %s", job.id, provider.name, error)

    def _http(self, provider: Provider, run: Run, before: Callable[[], Awaitable[None]] | None = None) -> ProviderHttp:
        trace = trace_of(run.lease.claimed.job)
        return self._operations.provider_http(provider, run.job.correlation_id, trace, before)

    def _spawn(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(coroutine, name="ficha provider")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a request to a provider failed", exc_info=error)


def trace_of(job: Job) -> str | None:
    """The trace context of the job's run, to pass on; None if the job was submitted without one."""
    return None if job.spec.trace_context is None else run_context(job.id, job.spec.trace_context, job.epoch)


def provider_span(name: str, provider: Provider, job: Job) -> AbstractContextManager[Any]:
    """The span of a call to a provider, if tracing is on."""
    if tracing.active is None:
        return nullcontext()
    attributes = tracing.attributes_of(job.id, job.spec, job.attempts + 1, job.epoch)
    parent = run_context(job.id, job.spec.trace_context, job.epoch)
    attributes["ficha.provider"] = provider.name
    return tracing.active.within(name, parent, role="CLIENT", attributes=attributes)


def _key(job: Job) -> str:
    """The key of this attempt's work."""
    return f"{job.id}:{job.attempts}"


def _backoff_s(job: Job) -> float:
    """The pause before the next try of a start, which grows with each."""
    backoff_s = min(BACKOFF_MAX_S, 2.0 ** min(job.epoch - 1, 10))
    return backoff_s * random.uniform(0.75, 1.0)  # noqa: S311 (jitter, not a secret)


def _tried_s(run: Run) -> float:
    """How long ago the job was first claimed."""
    job = run.lease.claimed.job
    assert isinstance(job.place, Leased)
    return (job.place.leased_at - (job.started_at or job.place.leased_at)) / SECOND


def _is_orphaned(provider: Provider, status: str | None) -> bool:
    """Whether nobody waits for work that was begun. If the provider takes keys or finds work, the job's next run gets
    the same work; if not, that run is a failed attempt."""
    return not (provider.takes_keys or provider.finds_work) or status in ("completed", "failed", "cancelled")
