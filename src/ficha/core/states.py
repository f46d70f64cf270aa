"""The one transition table, and one constructor for each legal move of a job.

No other file says which move is legal, and no other code sets a status.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from .policy import MILLISECOND, poll_wait_ms
from .records import Awaiting, Job, Leased, Parked, Ready, Status

MOVES: Final[dict[Status, frozenset[Status]]] = {
    "queued": frozenset({"starting", "completed", "cancelled"}),
    "starting": frozenset({"running", "failed", "cancelled", "queued"}),
    "running": frozenset({"completed", "failed", "cancelled", "queued"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

BIRTHS: Final[frozenset[Status]] = frozenset({"queued", "completed"})
"""A job is born queued, or completed where an earlier result of the same content answers it."""

WHY: Final[dict[tuple[Status, Status], str]] = {
    ("queued", "starting"): "a worker claims it",
    ("queued", "completed"): "the result of an equal job is reused",
    ("queued", "cancelled"): "cancelled, or waited too long",
    ("starting", "running"): "the handler starts",
    ("starting", "failed"): "error, timeout or poison",
    ("starting", "cancelled"): "cancelled",
    ("starting", "queued"): "retry or recovery",
    ("running", "completed"): "finish",
    ("running", "failed"): "error, timeout or poison",
    ("running", "cancelled"): "cancelled",
    ("running", "queued"): "retry or recovery",
}

ACTIVE: Final[frozenset[Status]] = frozenset(status for status, moves in MOVES.items() if moves)
FINAL: Final[frozenset[Status]] = frozenset(MOVES) - ACTIVE
HOLDS_SLOT: Final[frozenset[Status]] = frozenset({"starting", "running"})


def is_legal(before: Status, after: Status) -> bool:
    """Whether a job may go from one status to the other."""
    return after in MOVES[before]


def diagram() -> str:
    """The table as a Mermaid state diagram; the documentation shows exactly this text."""
    lines = ["stateDiagram-v2", "    [*] --> queued", "    [*] --> completed: an earlier result is reused"]
    for before, moves in MOVES.items():
        lines += [f"    {before} --> {after}: {WHY[before, after]}" for after in MOVES if after in moves]
    lines += [f"    {status} --> [*]" for status in MOVES if status in FINAL]
    return "\n".join(lines) + "\n"


def _checked(job: Job, after: Status) -> Status:
    assert is_legal(job.status, after), f"job {job.id} cannot go from {job.status} to {after}"
    return after


def claimed(job: Job, worker: str, now: int, lease_ms: int) -> Job:
    deadline_at = now + job.spec.timeout_ms * MILLISECOND
    return replace(
        job,
        status=_checked(job, "starting"),
        epoch=job.epoch + 1,
        started_at=now if job.started_at is None else job.started_at,
        events=job.events + 1,
        first_worker=worker if job.started_at is None else job.first_worker,
        place=Leased(worker, now, now, now + lease_ms * MILLISECOND, deadline_at),
    )


def started(job: Job, now: int) -> Job:
    first_run_at = now if job.epoch == 1 else job.first_run_at
    return replace(job, status=_checked(job, "running"), events=job.events + 1, first_run_at=first_run_at)


def accepted(job: Job, lease: Leased, ref: str, now: int, poll_ms: int | None = None) -> Job:
    """The provider has the work: the worker becomes free, the slot does not."""
    status: Status = "running" if job.status == "running" else _checked(job, "running")
    place = Awaiting(ref, now, lease.deadline_at)
    if poll_ms is not None:
        # A call-back may have come before the provider's answer.
        wait_ms = 0 if job.callbacks else poll_wait_ms(place, now, poll_ms)
        place = replace(place, poll_at=now + wait_ms * MILLISECOND)
    return replace(job, status=status, place=place, events=job.events + 1)


def retried(job: Job, place: Ready | Parked, *, failed: bool) -> Job:
    return replace(
        job, status=_checked(job, "queued"), place=place, attempts=job.attempts + failed, events=job.events + 1
    )


def taken_back(job: Job, place: Ready, *, lost: bool) -> Job:
    return replace(
        job, status=_checked(job, "queued"), place=place, recoveries=job.recoveries + lost, events=job.events + 1
    )


def completed(job: Job, delivered: int, now: int) -> Job:
    return replace(
        job,
        status=_checked(job, "completed"),
        place=None,
        delivered=delivered,
        finished_at=now,
        events=job.events + 1,
    )


def reused(job: Job, now: int) -> Job:
    """Completed without a run of its own: the result is an equal job's."""
    return completed(job, job.spec.units, now)


def failed(job: Job, error: str, now: int, *, dead: bool, counts: bool = False, for_user: bool = False) -> Job:
    return replace(
        job,
        status=_checked(job, "failed"),
        place=None,
        error=error,
        user_error=error if for_user else None,
        finished_at=now,
        attempts=job.attempts + counts,
        dead_at=now if dead else None,
        events=job.events + 1,
    )


def cancelled(job: Job, reason: str | None, now: int) -> Job:
    return replace(
        job,
        status=_checked(job, "cancelled"),
        place=None,
        error=reason,
        user_error=reason,
        finished_at=now,
        events=job.events + 1,
    )
