"""The limits of a submit: plan, times, files, provider, quota, rate, spending and credits, as a ladder of refusals."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from . import ledger
from .brakes import refuse_closed
from .commands import NewJob, Submit
from .files import refuse_files
from .new_jobs import due_at_of
from .outcomes import Rate, Refusal
from .policy import (
    HOUR,
    MAX_AMOUNT,
    MILLISECOND,
    SECOND,
    Plan,
    submits_this_hour,
)
from .quota import refuse_quota, refuse_reservation
from .records import Account, ProviderOutage
from .refusals import lacks_credits, no_batch, provider_down
from .visibility import is_for_plan, not_for_plan
from .workspace import Workspace


def refuse_limits(
    ws: Workspace,
    command: Submit,
    account: Account,
    plan: Plan,
    kinds: tuple[NewJob, ...],
    served: Container[str],
    requests: int,
    queued: int,
    cost: int,
) -> Refusal | None:
    """Returns the refusal, if the account may not have so many requests at this cost. The refusals are in order of
    precedence. Where a submit is refused, one that asks for more is refused too.

    kinds: the jobs, or one of each kind. served: the ids of those that an earlier result answers. queued: how many
    requests no earlier result answers.
    """
    return (
        refuse_closed(ws, kinds)
        or _refuse_times(ws, command)
        or _refuse_plan(kinds, plan)
        or (_refuse_batch(ws, command) if command.joins else None)
        or refuse_reservation(ws, command.reservation_id, account.id)
        or refuse_files(ws, account.id, kinds)
        or _refuse_cost(kinds, cost)
        or _refuse_outage(ws, command, kinds, served)
        or refuse_counts(
            ws,
            account,
            plan,
            requests,
            queued,
            cost,
            reserved=command.reservation_id is not None,
            counts_parts=command.counts_parts,
        )
    )


def refuse_counts(
    ws: Workspace,
    account: Account,
    plan: Plan,
    requests: int,
    queued: int,
    cost: int,
    *,
    reserved: bool = False,
    counts_parts: bool = False,
) -> Refusal | None:
    """Returns the refusal by the numbers alone. Every rule that makes jobs for an account's user checks this."""
    return (
        refuse_quota(ws, account, plan, queued, reserved=reserved, counts_parts=counts_parts)
        or _refuse_rate(account, plan, requests, ws.now)
        or _refuse_spending(account, plan, cost, ws.now)
        or (lacks_credits(account, cost) if account.balance < cost else None)
    )


NUMBERS: Final = frozenset(
    {"ACTIVE_JOB_EXISTS", "COST_LIMIT", "INSUFFICIENT_CREDITS", "QUOTA_EXCEEDED", "RATE_LIMITED"}
)
"""The codes of `refuse_counts`. With fewer jobs the submit may pass."""


def _refuse_times(ws: Workspace, command: Submit) -> Refusal | None:
    """Refuses keys and delays beyond the allowed time: they would be stored nearly for ever."""
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


def rate_of(account: Account, plan: Plan | None, now: int) -> Rate | None:
    if plan is None or plan.per_hour is None:
        return None
    left = plan.per_hour - submits_this_hour(account, now)
    return Rate(plan.per_hour, left if left > 0 else 0, _rest_of_hour_s(now))


def _rest_of_hour_s(now: int) -> int:
    return -(-(HOUR - now % HOUR) // SECOND)


def _refuse_rate(account: Account, plan: Plan, requests: int, now: int) -> Refusal | None:
    if plan.per_hour is None or (used := submits_this_hour(account, now)) + requests <= plan.per_hour:
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
    """Refuses jobs whose provider is down when they may start: not those that start after the outage, nor those that an
    earlier result answers, which need no provider."""
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
