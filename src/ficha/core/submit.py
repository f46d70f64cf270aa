"""Submit: checks idempotency, plan, limits and balance, then charges and creates the jobs: all of them or none, or as
many as the credits allow."""

from __future__ import annotations

from collections.abc import Container
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from . import ledger
from .commands import ForgetKey, NewJob, Submit
from .files import refuse_files, take_files
from .outcomes import Forgotten, Rate, Refusal, Submitted
from .policy import (
    HOUR,
    MAX_AMOUNT,
    MILLISECOND,
    SECOND,
    Plan,
    aged_rank,
    hour_of,
    priority_of,
    submits_this_hour,
)
from .quota import consumed, quota_warnings, refuse_quota, refuse_reservation
from .records import WAITING, Account, Batch, File, Job, Key, KeyName, PageSessions, Parked, ProviderOutage, Ready
from .refusals import account_closed, lacks_credits, no_account, no_batch, no_plan, provider_down
from .rule import Audited, Needs, Rule
from .sessions import is_heard
from .visibility import is_for_plan, not_for_plan
from .workspace import Workspace


def submit(ws: Workspace, command: Submit) -> Submitted | Refusal:
    """Creates and charges the jobs. The refusals are checked in order of precedence."""
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    if (refusal := account_closed(account)) is not None:
        return refusal
    if (repeat := _repeated(ws, command, account)) is not None:
        if command.jobs[0].spec.session is not None and isinstance(repeat, Submitted):
            is_heard(ws, account.id, command.jobs[0].spec.session)
        return repeat
    plan = ws.plan(account)
    if plan is None:
        return no_plan(account.plan, ws.policy)
    new_jobs, served = served_by_content(ws, command)
    cost = 0
    for job in new_jobs:
        cost += job.spec.cost
    refusal = refuse_limits(
        ws, command, account, plan, new_jobs, served, len(new_jobs), len(new_jobs) - len(served), cost
    )
    if refusal is None:
        return _create(ws, command, account, plan, new_jobs, served, cost)
    if not command.as_far_as_credits or refusal.code not in NUMBERS:
        return refusal
    allowed, cost = _allowed(ws, command, account, plan, new_jobs, served)
    if allowed == 0:
        return refusal
    created = _create(ws, command, account, plan, new_jobs[:allowed], served, cost)
    return replace(created, left_out=len(new_jobs) - allowed, refusal=refusal)


NUMBERS: Final = frozenset(
    {"ACTIVE_JOB_EXISTS", "COST_LIMIT", "INSUFFICIENT_CREDITS", "QUOTA_EXCEEDED", "RATE_LIMITED"}
)
"""The refusals of `refuse_counts`: fewer jobs may pass."""


def _allowed(
    ws: Workspace,
    command: Submit,
    account: Account,
    plan: Plan,
    new_jobs: tuple[NewJob, ...],
    served: dict[str, str],
) -> tuple[int, int]:
    """How many of the first jobs the account may have, and what they cost. A job more never makes a refusal go away, so
    half of the rest is tried at a time."""
    costs = list(accumulate((job.spec.cost for job in new_jobs), initial=0))
    waiting = list(accumulate((job.id not in served for job in new_jobs), initial=0))
    reserved = command.reservation_id is not None
    passes, fails = 0, len(new_jobs)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if refuse_counts(ws, account, plan, middle, waiting[middle], costs[middle], reserved=reserved) is None:
            passes = middle
        else:
            fails = middle
    return passes, costs[passes]


def refuse_limits(
    ws: Workspace,
    command: Submit,
    account: Account,
    plan: Plan,
    kinds: tuple[NewJob, ...],
    served: Container[str],
    jobs: int,
    queued: int,
    cost: int,
) -> Refusal | None:
    """The refusal, if the account may not have so many jobs at this cost. The refusals are in order of precedence, and
    a submit that asks for more is refused too.

    kinds: the jobs, or one of each kind. served: the ids of those that an earlier result answers. queued: how many it
    does not.
    """
    return (
        _refuse_times(ws, command)
        or _refuse_plan(kinds, plan)
        or (_refuse_batch(ws, command) if command.joins else None)
        or refuse_reservation(ws, command.reservation_id, account.id)
        or refuse_files(ws, account.id, kinds)
        or _refuse_cost(kinds, cost)
        or _refuse_outage(ws, command, kinds, served)
        or refuse_counts(ws, account, plan, jobs, queued, cost, reserved=command.reservation_id is not None)
    )


def refuse_counts(
    ws: Workspace, account: Account, plan: Plan, jobs: int, queued: int, cost: int, *, reserved: bool = False
) -> Refusal | None:
    """The same by the numbers alone. Whatever makes jobs for an account's user asks this."""
    return (
        refuse_quota(ws, account, plan, queued, reserved=reserved)
        or _refuse_rate(account, plan, jobs, ws.now)
        or _refuse_spending(account, plan, cost, ws.now)
        or (lacks_credits(account, cost) if account.balance < cost else None)
    )


def _repeated(ws: Workspace, command: Submit, account: Account) -> Submitted | Refusal | None:
    """The answer to a key that was used before: the first job, as it is now."""
    if command.key is None:
        return None
    key = ws.key((account.id, "submit", command.key))
    if key is None or not is_remembered(key, ws.now):
        return None
    if key.fingerprint != command.fingerprint:
        return Refusal(
            "IDEMPOTENCY_MISMATCH",
            f"the key {command.key!r} was used for another tool or payload; nothing was submitted. "
            "Use a new key for a new job, or send exactly what was sent first.",
            details={"job_id": key.job_id},
        )
    assert key.job_id is not None
    job = ws.job(key.job_id)
    if job is None:
        return Refusal(
            "INVALID_STATE",
            f"the key {command.key!r} was used for job {key.job_id}, which ended and has left by its age; nothing was "
            "submitted or charged now. Use a new key for a new job.",
            details={"job_id": key.job_id},
        )
    rank = job.place.rank if isinstance(job.place, WAITING) else None
    return Submitted(
        job.id,
        job.status,
        job.spec.pool,
        job.priority,
        rank,
        key.cost,
        account.balance,
        jobs=key.jobs,
        batch_id=key.batch_id,
        idempotent_hit=True,
        rate=_rate(account, ws.plan(account), ws.now),
        left_out=max(0, len(command.jobs) - key.jobs) if command.as_far_as_credits else 0,
    )


def is_remembered(key: Key, now: int) -> bool:
    return key.expires_at is None or key.expires_at > now


def served_by_content(ws: Workspace, command: Submit) -> tuple[tuple[NewJob, ...], dict[str, str]]:
    """The jobs to create, and the results of those that an earlier result answers; those are free."""
    served: dict[str, str] = {}
    for job in command.jobs:
        if job.spec.content_hash:
            break
    else:
        return command.jobs, served
    jobs = []
    for job in command.jobs:
        content = ws.content(job.spec) if job.spec.content_hash else None
        if content is not None and content.result is not None:
            served[job.id] = content.result
            job = replace(job, spec=replace(job.spec, cost=0))
        jobs.append(job)
    return tuple(jobs), served


def _refuse_times(ws: Workspace, command: Submit) -> Refusal | None:
    """What is asked to be kept, or to wait, for longer than is allowed would be stored nearly without end."""
    policy = ws.policy
    if command.key_ttl_ms is not None and command.key_ttl_ms > policy.key_ttl_max_ms:
        most, asked = policy.key_ttl_max_ms / 3_600_000, command.key_ttl_ms / 3_600_000
        return Refusal(
            "INVALID_ARGUMENT",
            f"key_ttl_hours may be at most {most:g}, not {asked:g}; nothing was submitted. Ask for less, or raise the "
            "application's key_ttl_max_s.",
            details={"limit": most},
        )
    if due_at_of(command, ws.now) - ws.now > policy.schedule_max_ms * MILLISECOND:
        most = policy.schedule_max_ms / 86_400_000
        return Refusal(
            "INVALID_ARGUMENT",
            f"run_at and delay_s may be at most {most:g} days ahead; nothing was submitted. Ask for an earlier time, "
            "or raise the application's schedule_max_s.",
            details={"limit": most},
        )
    return None


def _refuse_plan(jobs: tuple[NewJob, ...], plan: Plan) -> Refusal | None:
    for job in jobs:
        if job.plans is not None and not is_for_plan(job.plans, plan.name):
            return not_for_plan(job.spec.tool, job.plans, plan.name)
    return None


def _refuse_batch(ws: Workspace, command: Submit) -> Refusal | None:
    """An account can join only its own batches; those of others are not found."""
    assert command.batch_id is not None
    batch = ws.batch(command.batch_id)
    return no_batch(command.batch_id) if batch is None or batch.account_id != command.account_id else None


def _rate(account: Account, plan: Plan | None, now: int) -> Rate | None:
    if plan is None or plan.per_hour is None:
        return None
    left = plan.per_hour - submits_this_hour(account, now)
    return Rate(plan.per_hour, left if left > 0 else 0, _rest_of_hour_s(now))


def _rest_of_hour_s(now: int) -> int:
    return -(-(HOUR - now % HOUR) // SECOND)


def _refuse_rate(account: Account, plan: Plan, jobs: int, now: int) -> Refusal | None:
    if plan.per_hour is None or (used := submits_this_hour(account, now)) + jobs <= plan.per_hour:
        return None
    wait_s = _rest_of_hour_s(now)
    return Refusal(
        "RATE_LIMITED",
        f"plan {plan.name} allows {plan.per_hour} jobs per hour and account {account.id} has submitted {used} of them; "
        f"try again in {wait_s} s.",
        retry_after_s=wait_s,
        details={"limit": plan.per_hour, "used": used},
    )


def _refuse_cost(jobs: tuple[NewJob, ...], cost: int) -> Refusal | None:
    """The application computes the cost; a negative one would add credits to the account."""
    for job in jobs:
        if job.spec.cost < 0:
            return Refusal(
                "INVALID_ARGUMENT", f"a job costs 0 credits or more, not {job.spec.cost}; nothing was submitted."
            )
    if cost > MAX_AMOUNT:
        return Refusal("INVALID_ARGUMENT", f"a submit may cost at most {MAX_AMOUNT} credits, this one costs {cost}.")
    return None


def _refuse_outage(ws: Workspace, command: Submit, kinds: tuple[NewJob, ...], served: Container[str]) -> Refusal | None:
    """A job that is to run later may find its provider working, and one that an earlier result answers needs none."""
    for job in kinds:
        if job.provider is not None and job.id not in served:
            refusal = refuse_outage(ws, job.provider, due_at_of(command, ws.now))
            if refusal is not None:
                return refusal
    return None


def refuse_outage(ws: Workspace, provider: str, due_at: int) -> Refusal | None:
    """The refusal, if the provider's circuit breaker is open when the job may start."""
    outage = ws.find(ProviderOutage, provider)
    return None if outage is None or outage.until_at <= due_at else provider_down(outage, ws.now)


def _refuse_spending(account: Account, plan: Plan, cost: int, now: int) -> Refusal | None:
    if cost == 0:
        return None
    for period, limit, spent_in in (
        ("day", plan.daily_limit, ledger.spent_today),
        ("month", plan.monthly_limit, ledger.spent_this_month),
    ):
        if limit is not None and (spent := spent_in(account, now)) + cost > limit:
            return Refusal(
                "COST_LIMIT",
                f"account {account.id} has spent {spent} of {limit} credits this {period} (UTC) and this submit costs "
                f"{cost}; wait for the next {period} or raise the limit of plan {plan.name}.",
                details={"period": period, "limit": limit, "spent": spent, "cost": cost},
            )
    return None


def spending_warning(account: Account, plan: Plan, now: int) -> str | None:
    """The warning for a soft limit that the account has reached, after the charge."""
    if plan.daily_warning is None and plan.monthly_warning is None:
        return None
    for period, limit, spent_in in (
        ("day", plan.daily_warning, ledger.spent_today),
        ("month", plan.monthly_warning, ledger.spent_this_month),
    ):
        if limit is not None and (spent := spent_in(account, now)) >= limit:
            return f"{spent} credits spent this {period}, beyond the warning limit of {limit}"
    return None


def _create(
    ws: Workspace,
    command: Submit,
    account: Account,
    plan: Plan,
    new_jobs: tuple[NewJob, ...],
    served: dict[str, str],
    cost: int,
) -> Submitted:
    assert new_jobs, "a submit has at least one job"
    now = ws.now
    queued = [new.id for new in new_jobs if new.id not in served] if served else [new_jobs[-1].id]
    ws.put_account(counted(account, len(new_jobs), queued[-1] if queued else account.latest_job, now))
    first: Job | None = None
    boost, due_at = first_boost(ws, account), due_at_of(command, now)
    for index, new in enumerate(new_jobs):
        job = _born(ws, command, plan, new, index, account.submitted, boost if first is None else 0, due_at, served)
        if first is None:
            first = job
        if new.id in served:
            ws.put_result(job.id, served[new.id])
        if new.files:
            take_files(ws, new)
    assert first is not None
    if command.reservation_id is not None:
        consumed(ws, command.reservation_id, first.id)
    if command.batch_id is not None and not command.joins:
        ws.add_batch(Batch(command.batch_id, account.id, len(new_jobs), now))
    if command.key is not None:
        _remember(ws, command, first, len(new_jobs), cost)
    if first.spec.session is not None:
        is_heard(ws, account.id, first.spec.session)
    account = ws.owner(first)
    return Submitted(
        first.id,
        first.status,
        first.spec.pool,
        first.priority,
        first.place.rank if isinstance(first.place, WAITING) else None,
        cost,
        account.balance,
        len(new_jobs),
        command.batch_id,
        False,
        quota_warnings(ws, account, plan),
        spending_warning(account, plan, now),
        _rate(account, plan, now),
    )


def counted(account: Account, jobs: int, latest_job: str | None, now: int) -> Account:
    """The account with so many submits more."""
    hour = hour_of(now)
    return replace(
        account,
        submitted=account.submitted + jobs,
        hour_at=hour,
        hour_submits=jobs + (account.hour_submits if account.hour_at == hour else 0),
        latest_job=latest_job,
    )


def first_boost(ws: Workspace, account: Account) -> int:
    """What is taken off the priority of the account's next job."""
    return ws.policy.first_job_boost if account.submitted == 0 else 0


def due_at_of(command: Submit, now: int) -> int:
    """When the jobs of a submit may start."""
    return max(command.run_at or 0, now + command.delay_ms * MILLISECOND)


def _born(
    ws: Workspace,
    command: Submit,
    plan: Plan,
    new: NewJob,
    index: int,
    before: int,
    boost: int,
    due_at: int,
    served: Container[str],
) -> Job:
    account = ws.account(command.account_id)
    assert account is not None
    is_served = new.id in served
    behind = index * ws.policy.batch_spacing_ms * MILLISECOND
    job = new_job(ws.now, account, plan, command, new, before + index + 1, boost, due_at, behind, is_served=is_served)
    ledger.charge(ws, account, job)
    ws.add_job(job, new.payload)
    ws.add_event(job, "submitted")
    if is_served:
        job = replace(job, events=2)
        ws.put_job(job)
        ws.add_event(job, "reused")
    return job


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
    """The job as it is created. behind: see `aged_rank`. is_served: an earlier result answers it, so that it ends at
    once."""
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


def _remember(ws: Workspace, command: Submit, first: Job, jobs: int, cost: int) -> None:
    assert command.key is not None
    ttl_ms = ws.policy.key_ttl_ms if command.key_ttl_ms is None else command.key_ttl_ms
    ws.put_key(
        Key(
            command.account_id,
            "submit",
            command.key,
            command.fingerprint,
            ws.now,
            ws.now + ttl_ms * MILLISECOND,
            first.id,
            command.batch_id,
            jobs,
            cost,
        )
    )


def forget_key(ws: Workspace, command: ForgetKey) -> Forgotten:
    """Deletes a key if it has expired."""
    name: KeyName = (command.account_id, command.scope, command.key)
    key = ws.key(name)
    if key is None or is_remembered(key, ws.now):
        return Forgotten(changed=False)
    ws.forget_key(name)
    return Forgotten(changed=True)


def _needs(wanted: Needs, command: Submit) -> None:
    wanted.accounts.add(command.account_id)
    wanted.reservations_of.add(command.account_id)
    if command.key is not None:
        wanted.keys.add((command.account_id, "submit", command.key))
    if command.reservation_id is not None:
        wanted.reservations.add(command.reservation_id)
    for job in command.jobs:
        if job.spec.content_hash:
            wanted.contents.add((job.spec.tool, job.spec.content_hash))
        if job.provider is not None:
            wanted.find(ProviderOutage, job.provider)
        if job.files:
            wanted.find(File, *job.files)
        if job.spec.session is not None:
            wanted.find(PageSessions, command.account_id)
    if command.joins and command.batch_id is not None:
        wanted.batches.add(command.batch_id)


def _audit(command: Submit, outcome: Submitted) -> Audited:
    told = {"job_id": outcome.job_id, "batch_id": outcome.batch_id, "jobs": outcome.jobs, "cost": outcome.cost}
    return Audited(
        "submit", f"account {command.account_id}", {"tool": command.jobs[0].spec.tool, "key": command.key, **told}
    )


def _needs_key(wanted: Needs, command: ForgetKey) -> None:
    wanted.accounts.add(command.account_id)
    wanted.keys.add((command.account_id, command.scope, command.key))


RULES = (
    Rule(
        Submit,
        decide=submit,
        needs=_needs,
        refuses=(
            "ACCOUNT_CLOSED",
            "ACTIVE_JOB_EXISTS",
            "COST_LIMIT",
            "FORBIDDEN",
            "IDEMPOTENCY_MISMATCH",
            "INSUFFICIENT_CREDITS",
            "INVALID_ARGUMENT",
            "INVALID_PAYLOAD",
            "INVALID_STATE",
            "NOT_FOUND",
            "PROVIDER_DOWN",
            "QUOTA_EXCEEDED",
            "RATE_LIMITED",
        ),
        audit=_audit,
    ),
    Rule(ForgetKey, decide=forget_key, needs=_needs_key),
)
