"""Submit: checks idempotency, plan, limits and balance, then charges and creates the jobs: all of them or none, or as
many as the credits allow."""

from __future__ import annotations

from collections.abc import Container
from itertools import accumulate, groupby

from msgspec.structs import replace

from . import ledger
from .brakes import look_at_brakes
from .commands import ForgetKey, NewJob, Submit
from .files import take_files
from .new_jobs import counted, due_at_of, first_boost, new_job
from .outcomes import Forgotten, Refusal, Submitted
from .policy import (
    MILLISECOND,
    Plan,
)
from .quota import consumed, quota_warnings
from .records import WAITING, Account, Batch, File, Job, Key, KeyName, PageSessions, ProviderOutage
from .refusals import account_closed, no_account, no_plan
from .rule import Audited, Needs, Rule
from .sessions import is_heard
from .split_requests import requests_in
from .submit_limits import NUMBERS, rate_of, refuse_counts, refuse_limits, spending_warning
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
    requests = requests_in(new_jobs)
    queued = requests if not served else requests_in(job for job in new_jobs if job.id not in served)
    refusal = refuse_limits(ws, command, account, plan, new_jobs, served, requests, queued, cost)
    if refusal is None:
        return _create(ws, command, account, plan, new_jobs, served, cost)
    if not command.as_far_as_credits or refusal.code not in NUMBERS:
        return refusal
    allowed, cost = _allowed(ws, command, account, plan, new_jobs, served)
    if allowed == 0:
        return refusal
    created = _create(ws, command, account, plan, new_jobs[:allowed], served, cost)
    return replace(created, left_out=len(new_jobs) - allowed, refusal=refusal)


def _allowed(
    ws: Workspace,
    command: Submit,
    account: Account,
    plan: Plan,
    new_jobs: tuple[NewJob, ...],
    served: dict[str, str],
) -> tuple[int, int]:
    """Returns how many of the first jobs the account may have, and what they cost. A further request never removes a
    refusal, so a binary search finds the number. The parts of a split request are created together or not at all."""
    found = [[*group] for _, group in groupby(new_jobs, key=lambda job: job.spec.part_of or job.id)]
    jobs = list(accumulate(map(len, found), initial=0))
    costs = list(accumulate((sum(job.spec.cost for job in request) for request in found), initial=0))
    waiting = list(accumulate((any(job.id not in served for job in request) for request in found), initial=0))
    reserved, counts_parts = command.reservation_id is not None, command.counts_parts
    passes, fails = 0, len(found)
    while fails - passes > 1:
        middle = (passes + fails) // 2
        numbers = middle, waiting[middle], costs[middle]
        if refuse_counts(ws, account, plan, *numbers, reserved=reserved, counts_parts=counts_parts) is None:
            passes = middle
        else:
            fails = middle
    return jobs[passes], costs[passes]


def _repeated(ws: Workspace, command: Submit, account: Account) -> Submitted | Refusal | None:
    """Returns the outcome for a key that was used before: the first job, as it is now."""
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
        rate=rate_of(account, ws.plan(account), ws.now),
        left_out=max(0, len(command.jobs) - key.jobs) if command.as_far_as_credits else 0,
    )


def is_remembered(key: Key, now: int) -> bool:
    return key.expires_at is None or key.expires_at > now


def served_by_content(ws: Workspace, command: Submit) -> tuple[tuple[NewJob, ...], dict[str, str]]:
    """Returns the jobs to create, and the result of each job that an earlier result answers; such jobs are free."""
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
    latest = queued[-1] if queued else account.latest_job
    ws.put_account(counted(account, len(new_jobs), requests_in(new_jobs), latest, now))
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
        quota_warnings(ws, account, plan, counts_parts=command.counts_parts),
        spending_warning(account, plan, now),
        rate_of(account, plan, now),
    )


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
    look_at_brakes(wanted, command.jobs)
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
    if command.counts_parts:
        wanted.parts_of.add(command.account_id)


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
            "TOOL_CLOSED",
        ),
        audit=_audit,
    ),
    Rule(ForgetKey, decide=forget_key, needs=_needs_key),
)
