"""One constructor per legal move of a job. No other code sets a status."""

from __future__ import annotations

from msgspec.structs import replace

from .policy import MILLISECOND
from .records import Awaiting, Job, Leased, Parked, Ready, Status
from .states import is_legal


def _checked(job: Job, after: Status) -> Status:
    assert is_legal(job.status, after), f"job {job.id} cannot go from {job.status} to {after}"
    return after


def claimed(job: Job, worker: str, now: int, lease_ms: int) -> Job:
    deadline_at = now + job.timeout_ms * MILLISECOND
    return replace(
        job,
        status=_checked(job, "starting"),
        epoch=job.epoch + 1,
        started_at=now if job.started_at is None else job.started_at,
        place=Leased(worker, now, now, now + lease_ms * MILLISECOND, deadline_at),
    )


def started(job: Job) -> Job:
    return replace(job, status=_checked(job, "running"))


def accepted(job: Job, lease: Leased, ref: str, now: int) -> Job:
    """The provider has the work: the worker is free, the slot is not."""
    running = job if job.status == "running" else started(job)
    return replace(running, place=Awaiting(ref, now, lease.deadline_at))


def retried(job: Job, place: Ready | Parked, *, failed: bool) -> Job:
    return replace(job, status=_checked(job, "queued"), place=place, attempts=job.attempts + failed)


def taken_back(job: Job, place: Ready, *, lost: bool) -> Job:
    return replace(job, status=_checked(job, "queued"), place=place, recoveries=job.recoveries + lost)


def completed(job: Job, delivered: int, now: int) -> Job:
    return replace(job, status=_checked(job, "completed"), place=None, delivered=delivered, finished_at=now)


def failed(job: Job, error: str, now: int, *, dead: bool, counts: bool = False) -> Job:
    return replace(
        job,
        status=_checked(job, "failed"),
        place=None,
        error=error,
        finished_at=now,
        attempts=job.attempts + counts,
        dead_at=now if dead else None,
    )


def cancelled(job: Job, reason: str | None, now: int) -> Job:
    return replace(job, status=_checked(job, "cancelled"), place=None, error=reason, finished_at=now)
