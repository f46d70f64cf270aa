"""Leases: what a worker does with jobs. Every write about a job carries its lease's epoch; a lost lease is refused."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Final

from .. import validation as arg
from ..core import commands as c
from ..core.lease import lost
from ..core.outcomes import Claimed, Finished, Held, Recovered, Seen, StepSaved
from ..core.payload import read_json
from ..core.records import Worker
from ..engine.committer import StandingTicket
from ..engine.views import FinishView, Lease, finish_view, moment
from ..engine.wakeups import cancellations
from ..errors import Refused
from ..job_log import fields_of
from ..redaction import redacted
from ..store.base import GetJobs, ListRunEvents
from .base import Operations, answer
from .suspects import claimed_apart

log = logging.getLogger("ficha.job")

REQUEUED: Final = frozenset({"recovered", "retried", "returned"})
"""The events after which a job waits again."""


class LeaseName:
    """A lease named by its job's id and epoch, for a remote worker that has nothing else of its claim."""

    __slots__ = ("epoch", "job_id")
    account = None

    def __init__(self, job_id: str, epoch: int) -> None:
        self.job_id = arg.job_id(job_id)
        self.epoch = arg.epoch(epoch)

    def __repr__(self) -> str:
        return f"LeaseName(job_id={self.job_id!r}, epoch={self.epoch})"


AnyLease = Lease | LeaseName


class LeaseOperations(Operations):
    async def claim(
        self,
        pools: str | Sequence[str],
        *,
        limit: int = 1,
        worker: str,
        starts: bool = False,
        keeps_apart: bool = False,
    ) -> list[Lease]:
        """Claims up to `limit` ready jobs, best rank first. An empty list means that there is nothing to do now.

        With `starts` the claim also marks the jobs as started: no `start` has to follow for each. A job with a lost run
        is given only to a worker that holds no other jobs, and nothing is given beside it: the worker is known by its
        name. With `keeps_apart` the caller sees to this itself, and gets no job with a lost run.
        """
        names, most = arg.names(pools, "pool"), arg.count(limit, "limit", self.limits.claim_jobs)
        if not keeps_apart:
            apart = await claimed_apart(self.engine, names, most, arg.name(worker, "a worker"), starts=starts)
            if apart is not None:
                return apart
        leases: list[Lease] = []
        while True:
            command = c.Claim(arg.name(worker, "a worker"), names, most - len(leases), starts, keeps_apart=True)
            claimed = await self._ask(command, Claimed)
            leases += map(Lease.of, claimed.leases)
            if not claimed.behind:
                return leases
            if claimed.answered:
                await self.engine.call_many([c.Recover(job_id) for job_id in claimed.answered])
            if claimed.held_back:
                await self.engine.call_many([c.HoldBack(*job) for job in claimed.held_back])
            # The claim parked some jobs, behind equal ones or because their tool is paused, and has not reached the
            # ready jobs after them: claim again.
            if len(leases) == most:
                return leases

    def stand(self, pools: str | Sequence[str], *, limit: int, worker: str) -> StandingClaim:
        """A claim that waits for a submit of this process to bring work, and may become part of its transaction."""
        command = c.Claim(
            arg.name(worker, "a worker"),
            arg.names(pools, "pool"),
            arg.count(limit, "limit", self.limits.claim_jobs),
            starts=True,
            keeps_apart=True,
        )
        return StandingClaim(self.engine.stand(command))

    async def claim_job(self, job_id: str, *, worker: str) -> Lease:
        """Claims one job by its id and starts it, for a caller that must run this very job, such as a Celery task."""
        view = await self.queries.job(arg.job_id(job_id))
        if view is not None and view.finished_at is None and not await self.engine.clock.is_doubted():
            # Its worker may have died, or its time may have come: recover it now instead of waiting for a sweep.
            await self._ask(c.Recover(view.id), Recovered)
        command = c.ClaimJob(arg.name(worker, "a worker"), "" if view is None else view.pool, job_id, starts=True)
        return Lease.of((await self._ask(command, Claimed)).leases[0])

    async def clear_up(self, within_s: float = float("inf")) -> None:
        """Sweeps, as `sweep` does, for a worker that may be the only process. An error is logged, not raised. It waits
        no longer than `within_s` for a clock that may be wrong."""
        await self.engine.sweeper.try_sweep(within_s)

    def next_due_s(self, pools: str | Sequence[str]) -> float | None:
        """How many seconds until a retry or scheduled job of these pools falls due, as the last sweep saw it; None if
        it saw none."""
        return self.engine.sweeper.next_due_s(arg.names(pools, "pool"))

    def work_heard(self, pools: str | Sequence[str]) -> int:
        """What to pass to `wait_for_work` as `since`, taken before the claim that found nothing."""
        return self.engine.wakeups.heard(arg.names(pools, "pool"))

    async def wait_for_work(self, pools: str | Sequence[str], timeout_s: float, *, since: int | None = None) -> bool:
        """Returns True when one of the pools may have work, or False when the time is up; then claim anyway."""
        return await self.engine.wakeups.wait(arg.names(pools, "pool"), timeout_s, since)

    def telling_of_work(self, pools: str | Sequence[str], future: asyncio.Future[None]) -> AbstractContextManager[None]:
        """The same for a caller that waits for more: sets the future when one of the pools may have work."""
        return self.engine.wakeups.telling(arg.names(pools, "pool"), future)

    def cancels_heard(self, worker: str) -> int:
        """What to pass to `wait_for_cancels` as `since`."""
        return self.engine.wakeups.heard((cancellations(worker),))

    async def wait_for_cancels(self, worker: str, timeout_s: float, *, since: int) -> bool:
        """Returns True when a job that this worker holds may have been cancelled, or False when the time is up."""
        return await self.engine.wakeups.wait((cancellations(worker),), timeout_s, since)

    async def lost(self, leases: Iterable[Lease]) -> list[tuple[Lease, Refused]]:
        """Those of the leases that are lost, with the reason. Only reads."""
        held = {lease.job_id: lease for lease in leases}
        found = await self.engine.store.read(GetJobs(tuple(held)))
        refusals = ((held[row.job.id], lost(row.job, held[row.job.id].epoch)) for row in found)
        return [(lease, Refused.of(refusal)) for lease, refusal in refusals if refusal is not None]

    async def queued_again_at(self, job_id: str) -> int | None:
        """When a job that has run before was queued again: when its last run ended, or when its next try fell due. None
        if its history does not tell."""
        events = await self.engine.store.read(ListRunEvents(job_id))
        last = next((event for event in reversed(events) if event.kind in REQUEUED), None)
        return None if last is None else (last.data or {}).get("due_at", last.at)

    async def register_worker(self, word: c.RegisterWorker) -> Worker:
        """Stores what a worker reports about itself, for lists of workers."""
        return (await self._ask(word, Seen)).worker

    async def start(self, lease: AnyLease) -> datetime:
        """Records that the handler begins; returns when the lease ends."""
        return moment((await self._ask(c.Heartbeat(lease.job_id, lease.epoch, starts=True), Held)).expires_at)

    async def heartbeat(self, leases: AnyLease | Iterable[AnyLease]) -> list[datetime | Refused]:
        """Extends leases; returns when each ends, or for a lost lease the exception that says so."""
        held = [leases] if isinstance(leases, AnyLease) else list(leases)
        answers = await self._ask_many([c.Heartbeat(lease.job_id, lease.epoch) for lease in held], Held)
        return [answer if isinstance(answer, Refused) else moment(answer.expires_at) for answer in answers]

    async def checkpoint(self, lease: AnyLease, name: str, *, progress: int = 0, data: Any = None) -> datetime:
        """Stores where the job can go on from, and its data, in one write; returns when the lease ends.

        If the tool declares its checkpoints, only one that may follow the job's last is accepted; one that the job has
        already passed changes nothing.
        """
        text = arg.stored({} if data is None else data, "the checkpoint's data", self.limits)
        tool = self.tools.get(lease.tool if isinstance(lease, Lease) else await self._tool_of(lease))
        command = c.SaveCheckpoint(
            lease.job_id,
            lease.epoch,
            arg.name(name, "a checkpoint"),
            arg.percent(progress),
            text,
            None if tool is None else tool.checkpoints,
        )
        return moment((await self._ask(command, Held)).expires_at)

    async def _tool_of(self, lease: LeaseName) -> str:
        """The name of the job's tool; empty if there is no such job."""
        found = await self.engine.store.read(GetJobs((lease.job_id,)))
        return found[0].job.spec.tool if found else ""

    async def save_step(self, lease: AnyLease, name: str, result: Any) -> Any:
        """Stores a step's result and returns it, or the result already stored under that name."""
        return read_json(await self.save_step_json(lease, name, result))

    async def save_step_json(self, lease: AnyLease, name: str, result: Any) -> str:
        """The same, as JSON text."""
        text = arg.stored(result, "the step's result", self.limits)
        command = c.SaveStep(lease.job_id, lease.epoch, arg.name(name, "a step"), text)
        return (await self._ask(command, StepSaved)).result_json

    async def report(self, lease: AnyLease, *, progress: int | None = None, partial: Any = None) -> datetime:
        """Publishes the job's progress and partial result to its followers; returns when the lease ends."""
        text = None if partial is None else arg.stored(partial, "the partial result", self.limits)
        done = None if progress is None else arg.percent(progress)
        return moment((await self._ask(c.Report(lease.job_id, lease.epoch, done, text), Held)).expires_at)

    async def note(self, lease: AnyLease, text: str) -> datetime:
        """Adds a line to the job's history, without what looks like a secret; returns when the lease ends."""
        return moment((await self._ask(c.Note(lease.job_id, lease.epoch, arg.text(redacted(text))), Held)).expires_at)

    async def keep_line(self, lease: AnyLease, text: str) -> bool:
        """Adds a line to the job's history; returns whether it was kept, for a history has a limit."""
        return (await self._ask(c.Note(lease.job_id, lease.epoch, arg.text(text)), Held)).is_kept

    async def note_left_out(self, lease: AnyLease, lines: int) -> None:
        """Adds to the job's history how many lines were not kept."""
        await self._ask(c.Note(lease.job_id, lease.epoch, "", lines), Held)

    async def steps(self, job_id: str) -> dict[str, Any]:
        """The stored results of a job's steps, by name."""
        return {name: read_json(text) for name, text in (await self.steps_json(job_id)).items()}

    async def steps_json(self, job_id: str) -> dict[str, str]:
        """The same, as JSON texts."""
        return {step.name: step.result for step in await self.queries.steps(arg.job_id(job_id))}

    async def finish(
        self,
        lease: AnyLease,
        result: Any = None,
        *,
        delivered: int | None = None,
        of: int | None = None,
        provider_cost: float | None = None,
    ) -> FinishView:
        """Completes a job. With `delivered` of `of` (3 of 4 images), what was not delivered is refunded.

        provider_cost: what an external provider charged for the job, in your currency.
        """
        return await self._finish(lease, self.completed(result, delivered, of, provider_cost))

    async def finish_many(self, finished: Iterable[tuple[AnyLease, Any]]) -> list[FinishView | Refused]:
        """Completes many jobs, each with its result."""
        answers = await self.end_many([(lease, self.completed(result)) for lease, result in finished])
        return [answer if isinstance(answer, Refused) else finish_view(answer) for answer in answers]

    async def end_many(self, ends: Iterable[tuple[AnyLease, c.Ending]]) -> list[Finished | Refused]:
        """Writes how each of many runs ended."""
        return await self._ask_many([_finish(lease, ending) for lease, ending in ends], Finished)

    def completed(
        self, result: Any, delivered: int | None = None, of: int | None = None, provider_cost: float | None = None
    ) -> c.Completed:
        """The validated ending of a run that succeeded."""
        if of is not None:
            arg.count(of, "of", 2**31)
        if delivered:
            arg.count(delivered, "delivered", 2**31)
        if of is not None and delivered is not None and delivered > of:
            raise arg.invalid(f"{delivered} of {of} cannot have been delivered: delivered is at most of")
        text = arg.stored(result, "the result", self.limits)
        return c.Completed(text, delivered, of, arg.provider_cost(provider_cost))

    async def fail(
        self,
        lease: AnyLease,
        error: str,
        *,
        final: bool = False,
        for_user: bool = False,
        provider_cost: float | None = None,
    ) -> FinishView:
        """Fails a run: the job is retried while the tool has attempts left (unless `final`), else failed and refunded.
        The job's owner sees `error` only if it is written `for_user`. provider_cost: as in `finish`."""
        ending = self.failed(error, final=final, for_user=for_user, provider_cost=provider_cost)
        return await self._finish(lease, ending)

    def failed(
        self, error: str, *, final: bool = False, for_user: bool = False, provider_cost: float | None = None
    ) -> c.Failed:
        """The validated ending of a run that failed."""
        return c.Failed(arg.text(error), final, for_user, provider_cost=arg.provider_cost(provider_cost))

    async def retry(self, lease: AnyLease, after_s: float, *, reason: str | None = None) -> FinishView:
        """Puts the job back for `after_s` seconds; this does not count as a failure."""
        return await self._finish(lease, self.retry_later(after_s, reason))

    def retry_later(self, after_s: float, reason: str | None = None) -> c.RetryLater:
        """The validated ending of a run whose job is to run again."""
        return c.RetryLater(arg.milliseconds(after_s, "after_s"), None if reason is None else arg.text(reason))

    async def accept(self, lease: AnyLease, ref: str) -> FinishView:
        """Records that an external provider has the work: the job keeps its slot, the worker is free."""
        return await self._finish(lease, self.accepted(ref))

    def accepted(self, ref: str, poll_s: float | None = None) -> c.AcceptedByProvider:
        """The validated ending of a run whose work a provider has. poll_s: after how many seconds the provider is
        polled if it has not called back; None: never."""
        poll_ms = None if poll_s is None else arg.milliseconds(poll_s, "poll_s")
        return c.AcceptedByProvider(arg.name(ref, "a provider's reference"), poll_ms)

    async def give_up(self, lease: AnyLease, reason: str) -> FinishView:
        """Cancels the job from inside its run, with a refund."""
        return await self._finish(lease, self.cancelled(reason))

    def cancelled(self, reason: str) -> c.CancelledByHandler:
        """The validated ending of a run whose handler cancelled the job."""
        return c.CancelledByHandler(arg.text(reason))

    async def time_out(self, lease: AnyLease) -> FinishView:
        """Ends a run that reached the job's timeout: the job is failed and refunded."""
        return await self._finish(lease, c.TimedOut())

    async def hand_back(self, lease: AnyLease, reason: str, *, lost: bool = False) -> FinishView:
        """Returns the job to the queue at once, because the worker stops. `lost`: the run's process died, which counts
        as a recovery."""
        return await self._finish(lease, self.interrupted(reason, lost=lost))

    def interrupted(self, reason: str, *, lost: bool = False) -> c.Interrupted:
        """The validated ending of a run that was interrupted."""
        return c.Interrupted(arg.text(reason), lost)

    async def _finish(self, lease: AnyLease, ending: c.Ending) -> FinishView:
        return _ended(await self._ask(_finish(lease, ending), Finished))

    async def finish_job(self, job_id: str, ending: c.Ending, *, epoch: int | None = None) -> FinishView:
        """Writes how a run ended, by job id: for call-backs, which are authenticated otherwise than by a lease."""
        checked = None if epoch is None else arg.epoch(epoch)
        jitter = random.random()  # noqa: S311 (jitter, not a secret)
        return _ended(await self._ask(c.Finish(arg.job_id(job_id), ending, checked, jitter), Finished))


class StandingClaim:
    """A claim that waits for work. Withdraw it or await its leases: otherwise leases that it was granted are lost."""

    def __init__(self, standing: StandingTicket) -> None:
        self._standing = standing

    @property
    def answered(self) -> asyncio.Future[Any]:
        """Done when the claim has leases or was withdrawn."""
        return self._standing.ticket.future

    def withdraw(self) -> bool:
        return self._standing.withdraw()

    async def leases(self) -> list[Lease]:
        await self._standing.ticket.future
        return self.granted()

    def granted(self) -> list[Lease]:
        """The leases of an answered claim."""
        (outcome,) = self._standing.ticket.future.result()
        return [Lease.of(lease) for lease in answer(outcome, Claimed).leases]


def _ended(finished: Finished) -> FinishView:
    """The view of a run's end. A job that failed for good leaves a warning; our own worker logs its ends itself."""
    job = finished.job
    if finished.changed and job.status == "failed":
        known = fields_of(job.id, job.spec, attempt=job.attempts, epoch=job.epoch, status="failed")
        log.warning("failed", extra={**known, "error": None if job.error is None else redacted(job.error)})
    return finish_view(finished)


def _finish(lease: AnyLease, ending: c.Ending) -> c.Finish:
    jitter = random.random()  # noqa: S311 (jitter, not a secret)
    return c.Finish(lease.job_id, ending, lease.epoch, jitter, lease.account)
