"""New jobs: their record, their place in the queue, and what they change in the account's counts."""

from __future__ import annotations

from msgspec.structs import replace

from .commands import NewJob, Submit
from .policy import (
    MILLISECOND,
    Plan,
    aged_rank,
    hour_of,
    priority_of,
)
from .records import Account, Job, Parked, Ready
from .workspace import Workspace


def counted(account: Account, jobs: int, requests: int, latest_job: str | None, now: int) -> Account:
    """Returns the account after it submitted `jobs` more jobs with so many requests."""
    hour = hour_of(now)
    return replace(
        account,
        submitted=account.submitted + jobs,
        hour_at=hour,
        hour_submits=requests + (account.hour_submits if account.hour_at == hour else 0),
        latest_job=latest_job,
    )


def due_at_of(command: Submit, now: int) -> int:
    """When the jobs of a submit may start."""
    due_at = now + command.delay_ms * MILLISECOND
    return due_at if command.run_at is None or command.run_at < due_at else command.run_at


def first_boost(ws: Workspace, account: Account) -> int:
    """What is taken off the priority of the account's next job."""
    return ws.policy.first_job_boost if account.submitted == 0 else 0


def new_job(
    now: int,
    account: Account,
    plan: Plan,
    command: Submit,
    new: NewJob,
    number: int,
    boost: int,
    due_at: int,
    behind: int = 0,
    *,
    is_served: bool,
) -> Job:
    """Returns the job as it is created. behind: see `aged_rank`. is_served: an earlier result answers the job, so it
    ends at once."""
    job = Job(
        new.id,
        account.id,
        new.spec,
        priority_of(plan, new.priority, boost),
        now,
        "completed" if is_served else "queued",
        None,
        None if new.max_wait_ms is None else max(now, due_at) + new.max_wait_ms * MILLISECOND,
        command.batch_id,
        events=1,
        charged=new.spec.cost,
        plan=plan.name,
        number=number,
        submitted_by=command.submitted_by,
    )
    if is_served:
        return replace(job, finished_at=now, delivered=new.spec.units)
    return replace(job, place=_waiting_place(now, account, plan, job, due_at, behind))


def waiting_place(ws: Workspace, job: Job, due_at: int) -> Ready | Parked:
    """The place of a job that waits: parked until its time, parked behind its account's limit, or ready."""
    account = ws.owner(job)
    return _waiting_place(ws.now, account, ws.plan(account), job, due_at)


def _waiting_place(
    now: int, account: Account, plan: Plan | None, job: Job, due_at: int, behind: int = 0
) -> Ready | Parked:
    rank, ages_at = aged_rank(job, plan, now, behind)
    if due_at > now:
        return Parked(rank, due_at)
    if has_room(account, plan):
        return Ready(rank, ages_at)
    return Parked(rank)


def has_room(account: Account, plan: Plan | None) -> bool:
    """Whether one more job of the account may be ready or running. A plan that no longer exists allows one job."""
    limit = 1 if plan is None else plan.max_running
    return limit is None or account.admitted < limit
