"""Refusals that several rules share, each worded once: what, which id, what to do."""

from __future__ import annotations

from .outcomes import Refusal
from .policy import CLOSED_PLAN, SECOND, Policy
from .records import Account, Job, ProviderOutage


def no_account(account_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no account {account_id!r}; open it first.")


def account_closed(account: Account) -> Refusal | None:
    """The refusal, if the account was erased."""
    if account.plan != CLOSED_PLAN:
        return None
    return Refusal(
        "ACCOUNT_CLOSED",
        f"account {account.id} was erased, and is closed for good; nothing was changed. Open another one.",
    )


def no_plan(plan: str, policy: Policy) -> Refusal:
    known = ", ".join(plan.name for plan in policy.declared_plans)
    return Refusal(
        "NOT_FOUND",
        f"there is no plan {plan!r}; declared are: {known}. Choose one of them, or declare it in the application.",
    )


def no_job(job_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no job {job_id}.")


def no_pool(name: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no pool {name!r}; declare it in the application.")


def no_reservation(reservation_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no reservation {reservation_id}.")


def no_batch(batch_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no batch {batch_id}.")


def no_api_key(key_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no API key {key_id}.")


def no_provider(name: str) -> Refusal:
    return Refusal(
        "NOT_FOUND", f"there is no provider {name!r}: no tool has it, and none of its requests was ever counted."
    )


def provider_down(outage: ProviderOutage, now: int) -> Refusal:
    wait_s = -(-(outage.until_at - now) // SECOND)
    return Refusal(
        "PROVIDER_DOWN",
        f"provider {outage.provider} keeps failing, so nothing is sent to it for now; nothing was charged. "
        f"Try again in {wait_s} s.",
        retry_after_s=wait_s,
        details={"provider": outage.provider},
    )


def no_file(file_id: str) -> Refusal:
    return Refusal("NOT_FOUND", f"there is no file {file_id}.")


def lacks_credits(account: Account, need: int) -> Refusal:
    return Refusal(
        "INSUFFICIENT_CREDITS",
        f"account {account.id} has {account.balance} credits and needs {need}; nothing was charged. Add credits first.",
        details={"have": account.balance, "need": need},
    )


def lease_lost(job: Job, epoch: int | None) -> Refusal:
    return Refusal(
        "LEASE_LOST",
        f"job {job.id} is no longer held under epoch {epoch} (it is {job.status}, epoch {job.epoch}); nothing was "
        "changed. Stop working on it.",
        details={"status": job.status, "epoch": job.epoch},
    )
