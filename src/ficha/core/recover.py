"""Recover: does what is due for a job. State and time are checked here again, under the lock.

So the sweeper may find candidates with a plain query; two sweepers, or one with an old list, do no harm.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from .claim import set_behind
from .commands import Recover
from .finish import cancel_now, fail, reuse, take_back, tell_provider, time_out
from .new_jobs import waiting_place
from .outcomes import Recovered, RecoveryAct, Refusal
from .policy import MILLISECOND, SECOND, aged_rank
from .records import HELD, Awaiting, Content, Job, Leased, Parked, Ready
from .refusals import no_job
from .rule import Audited, Needs, Rule
from .snapshot import Changes
from .workspace import Workspace


def recover(ws: Workspace, command: Recover) -> Recovered | Refusal:
    job = ws.job(command.job_id)
    if job is None:
        return no_job(command.job_id)
    match job.place:
        case None:
            return Recovered(job.id, "nothing")
        case Leased():
            return _recover_lease(ws, job, job.place)
        case Awaiting():
            return _recover_awaiting(ws, job, job.place)
        case Ready() | Parked():
            return _recover_waiting(ws, job, job.place)
        case _ as never:
            assert_never(never)


def _recover_awaiting(ws: Workspace, job: Job, place: Awaiting) -> Recovered:
    if ws.now >= place.deadline_at:
        tell_provider(ws, job)
        return _failed(ws, job, f"the provider did not answer within {job.spec.timeout_ms / 1000:g} s")
    if _is_too_old(ws, job):
        tell_provider(ws, job)
        return _too_old(ws, job)
    return Recovered(job.id, "nothing")


def _recover_lease(ws: Workspace, job: Job, lease: Leased) -> Recovered:
    """Times out a run whose worker was alive at the deadline: it has sent a heartbeat since. Without one the worker may
    have died long before, so its lease is left to expire, and the job runs again with its whole timeout."""
    if lease.heartbeat_at >= lease.deadline_at:
        return Recovered(job.id, "failed", time_out(ws, job).refunded)
    if _is_too_old(ws, job):
        return _too_old(ws, job)
    is_silent = ws.now - lease.heartbeat_at >= ws.policy.stuck_ms * MILLISECOND
    if ws.now < lease.expires_at and not is_silent:
        return Recovered(job.id, "nothing")
    taken = take_back(ws, job, "its worker was silent for too long", lost=True)
    return Recovered(job.id, "requeued" if taken.status == "queued" else "failed", taken.refunded)


def _is_too_old(ws: Workspace, job: Job) -> bool:
    return job.started_at is not None and ws.now - job.started_at >= ws.policy.max_age_ms * MILLISECOND


def _too_old(ws: Workspace, job: Job) -> Recovered:
    return _failed(ws, job, f"not finished {ws.policy.max_age_ms / 3_600_000:g} hours after its first start")


def _failed(ws: Workspace, job: Job, error: str) -> Recovered:
    return Recovered(job.id, "failed", fail(ws, job, error, dead=True, for_user=True).refunded)


def _recover_waiting(ws: Workspace, job: Job, place: Ready | Parked) -> Recovered:
    equal = None if job.spec.content_hash is None else ws.content(job.spec)
    if equal is not None and equal.result is not None:
        return Recovered(job.id, "reused", reuse(ws, job, equal.result).refunded)
    if job.wait_until_at is not None and ws.now >= job.wait_until_at and job.started_at is None:
        waited_s = (job.wait_until_at - job.created_at) / SECOND
        reason = f"it waited longer than {_length(waited_s)}"
        return Recovered(job.id, "cancelled", cancel_now(ws, job, reason).refunded)
    act: RecoveryAct = "nothing"
    match place:
        case Parked(behind=str()):
            act = _recover_behind(ws, job, place, equal)
        case Parked(due_at=int(due_at)) if ws.now >= due_at:
            now_at = waiting_place(ws, job, due_at)
            act = "promoted" if isinstance(now_at, Ready) else "parked"
            ws.put_job(replace(job, place=now_at))
        case Ready(ages_at=int(ages_at)) if ws.now >= ages_at:
            act = "aged"
            ws.put_job(replace(job, place=Ready(*aged_rank(job, ws.plan(ws.owner(job)), ws.now))))
    return Recovered(job.id, act)


def _length(seconds: float) -> str:
    """A length of time in words, for the job's owner; rounded down, so that it did wait longer."""
    for unit, size in (("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:g} {unit}"
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


def _recover_behind(ws: Workspace, job: Job, place: Parked, equal: Content | None) -> RecoveryAct:
    """Decides on a job behind an equal one: that one ended without a result, another one runs now, or it goes on."""
    assert place.due_at is not None
    if equal is None:
        ws.put_job(replace(job, place=Ready(*aged_rank(job, ws.plan(ws.owner(job)), ws.now))))
        return "promoted"
    if equal.job_id == place.behind and ws.now < place.due_at:
        return "nothing"
    set_behind(ws, job, equal.job_id)
    return "parked"


def over_at(place: Leased | Awaiting) -> int:
    """When the job's hold is over: when its lease expires, or when its time is up (see `_recover_lease`)."""
    if isinstance(place, Leased) and place.heartbeat_at < place.deadline_at:
        return place.expires_at
    return place.deadline_at


def waits(changes: Changes) -> list[int]:
    """Returns in how many microseconds these changes give the sweeper something to recover: jobs that they delay to a
    time, and runs that ended, for which equal jobs may wait."""
    if not changes.events:
        return []
    # Every change that delays a job has an event, with the time of the decision.
    now = changes.events[0].at
    found: list[int] = []
    for change in changes.jobs:
        before, place = change.before, change.after.place
        if type(place) is Parked and place.due_at is not None and place.behind is None and not place.is_held_back:
            found.append(place.due_at - now)
        was_held = before is not None and isinstance(before.place, HELD)
        if change.after.spec.content_hash is not None and was_held and not isinstance(place, HELD):
            found.append(0)
    return found


def _needs(wanted: Needs, command: Recover) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit(command: Recover, outcome: Recovered) -> Audited:
    return Audited("recover", f"job {command.job_id}", {"act": outcome.act})


RULES = (Rule(Recover, decide=recover, needs=_needs, refuses=("NOT_FOUND",), audit=_audit),)
