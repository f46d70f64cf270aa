"""Dead letters: failed jobs that an operator should look at. A failed job stays failed and refunded; running its work
again is a new job, with a charge of its own."""

from __future__ import annotations

from msgspec.structs import replace

from . import ledger
from .brakes import brake_name, closed
from .commands import Discard, Requeue, Resubmit
from .new_jobs import counted, waiting_place
from .outcomes import Discarded, Refusal, Submitted
from .policy import priority_of
from .records import WAITING, Account, Brake, Job, ProviderOutage
from .refusals import account_closed, lacks_credits, no_job, no_plan
from .rule import Audited, Needs, Rule
from .submit_limits import refuse_counts, refuse_outage
from .visibility import is_for_plan, not_for_plan
from .workspace import Workspace


def requeue(ws: Workspace, command: Requeue) -> Submitted | Refusal:
    """An operator's act: quotas and rate limits do not apply, but the balance must cover the cost."""
    job = ws.job(command.job_id)
    if job is None:
        return no_job(command.job_id)
    if job.dead_at is None:
        return _not_dead(job)
    account = ws.owner(job)
    if (refusal := account_closed(account)) is not None:
        return refusal
    if account.balance < job.spec.cost:
        return lacks_credits(account, job.spec.cost)
    account = replace(account, submitted=account.submitted + 1, latest_job=command.new_id)
    return _run_again(ws, job, command, account, job.priority)


def resubmit(ws: Workspace, command: Resubmit) -> Submitted | Refusal:
    """A user's act: the tool, the plan and the balance limit it as they would limit a submit of the same job now."""
    job = ws.job(command.job_id)
    if job is None or job.account_id != command.account_id:
        return no_job(command.job_id)
    if job.dead_at is None:
        return _not_dead(job)
    account, tool = ws.owner(job), command.tools.get(job.spec.tool)
    plan = ws.plan(account)
    if (refusal := account_closed(account)) is not None:
        return refusal
    if tool is None:
        return Refusal("UNKNOWN_TOOL", f"there is no tool {job.spec.tool!r}, so job {job.id} cannot run again.")
    if plan is None:
        return no_plan(account.plan, ws.policy)
    if tool.plans is not None and not is_for_plan(tool.plans, plan.name):
        return not_for_plan(job.spec.tool, tool.plans, plan.name)
    if (refusal := closed(ws, "tool", job.spec.tool) or closed(ws, "pool", tool.pool)) is not None:
        return refusal
    if tool.provider is not None and (refusal := refuse_outage(ws, tool.provider, ws.now)) is not None:
        return refusal
    # A part runs again as a part of its request, which may be active.
    queued = int(job.spec.part_of not in ws.open_requests(account.id))
    if (refusal := refuse_counts(ws, account, plan, 1, queued, job.spec.cost, counts_parts=True)) is not None:
        return refusal
    priority = priority_of(plan, tool.priority, 0)
    return _run_again(ws, job, command, counted(account, 1, 1, command.new_id, ws.now), priority)


def _not_dead(job: Job) -> Refusal:
    return Refusal(
        "INVALID_STATE",
        f"job {job.id} ({job.status}) is not in the dead-letter list; nothing was changed.",
        details={"status": job.status},
    )


def _run_again(ws: Workspace, job: Job, command: Requeue | Resubmit, account: Account, priority: int) -> Submitted:
    """Takes the job off the dead-letter list and submits its work as a new job, which `account` counts already."""
    job = replace(job, dead_at=None, events=job.events + 1)
    ws.put_job(job)
    ws.add_event(job, "requeued", as_job=command.new_id)
    again = replace(_again(job, command, ws.now), priority=priority, plan=account.plan, number=account.submitted)
    ws.put_account(account)
    ledger.charge(ws, account, again)
    again = replace(again, place=waiting_place(ws, again, ws.now))
    ws.add_job(again, ws.payload(job.id))
    ws.add_event(again, "submitted", requeue_of=job.id)
    rank = again.place.rank if isinstance(again.place, WAITING) else None
    return Submitted(
        again.id,
        again.status,
        again.spec.pool,
        again.priority,
        rank,
        again.spec.cost,
        ws.owner(again).balance,
        batch_id=again.batch_id,
    )


def _again(job: Job, command: Requeue | Resubmit, now: int) -> Job:
    """A new job for the same work, from its beginning."""
    return Job(
        id=command.new_id,
        account_id=job.account_id,
        spec=job.spec,
        priority=job.priority,
        created_at=now,
        status="queued",
        place=None,
        wait_until_at=None if job.wait_until_at is None else now + job.wait_until_at - job.created_at,
        batch_id=job.batch_id,
        requeue_of=job.id,
        events=1,
        charged=job.spec.cost,
        submitted_by=command.submitted_by,
    )


def discard(ws: Workspace, command: Discard) -> Discarded | Refusal:
    job = ws.job(command.job_id)
    if job is None:
        return no_job(command.job_id)
    if job.dead_at is None:
        return Discarded(job.id, changed=False)
    job = replace(job, dead_at=None, events=job.events + 1)
    ws.put_job(job)
    ws.add_event(job, "discarded")
    return Discarded(job.id, changed=True)


def _needs_payload(wanted: Needs, command: Requeue) -> None:
    wanted.owned_jobs.add(command.job_id)
    wanted.payloads.add(command.job_id)


def _needs_quota(wanted: Needs, command: Resubmit) -> None:
    wanted.accounts.add(command.account_id)
    wanted.reservations_of.add(command.account_id)
    wanted.parts_of.add(command.account_id)
    wanted.owned_jobs.add(command.job_id)
    wanted.payloads.add(command.job_id)
    # The job's tool is not known yet.
    for name, tool in command.tools.items():
        wanted.look(Brake, brake_name("tool", name), brake_name("pool", tool.pool))
    wanted.find(ProviderOutage, *(tool.provider for tool in command.tools.values() if tool.provider is not None))


def _audit_requeue(command: Requeue | Resubmit, _: Submitted) -> Audited:
    return Audited("requeue", f"job {command.job_id}", {"as_job": command.new_id})


def _needs_job(wanted: Needs, command: Discard) -> None:
    wanted.owned_jobs.add(command.job_id)


def _audit_discard(command: Discard, _: Discarded) -> Audited:
    return Audited("discard", f"job {command.job_id}")


RULES = (
    Rule(
        Requeue,
        decide=requeue,
        needs=_needs_payload,
        refuses=("ACCOUNT_CLOSED", "INSUFFICIENT_CREDITS", "INVALID_STATE", "NOT_FOUND"),
        audit=_audit_requeue,
    ),
    Rule(
        Resubmit,
        decide=resubmit,
        needs=_needs_quota,
        refuses=(
            "ACCOUNT_CLOSED",
            "ACTIVE_JOB_EXISTS",
            "COST_LIMIT",
            "FORBIDDEN",
            "INSUFFICIENT_CREDITS",
            "INVALID_STATE",
            "NOT_FOUND",
            "PROVIDER_DOWN",
            "QUOTA_EXCEEDED",
            "RATE_LIMITED",
            "TOOL_CLOSED",
            "UNKNOWN_TOOL",
        ),
        audit=_audit_requeue,
    ),
    Rule(Discard, decide=discard, needs=_needs_job, refuses=("NOT_FOUND",), audit=_audit_discard),
)
