"""Every change of a balance: writes one immutable entry and updates the balance and the period's spending."""

from __future__ import annotations

from msgspec.structs import replace

from .policy import CREDITS_LOW_HOOK, MAX_AMOUNT, day_of, month_of
from .records import Account, Entry, EntryKind, Job, PendingHook
from .workspace import Workspace


def post(
    ws: Workspace,
    account: Account,
    kind: EntryKind,
    amount: int,
    *,
    job_id: str | None = None,
    reason: str | None = None,
) -> Account:
    """Writes one entry and returns the account after it.

    The caller has checked that the balance allows it.
    """
    after = replace(account, balance=account.balance + amount, entries=account.entries + 1)
    return _entered(ws, after, kind, amount, job_id, reason)


def _entered(
    ws: Workspace, after: Account, kind: EntryKind, amount: int, job_id: str | None, reason: str | None
) -> Account:
    """Writes the account with its new balance, and the entry for the change."""
    assert 0 < abs(amount) <= MAX_AMOUNT, f"an entry of {amount} credits is out of range"
    assert 0 <= after.balance < 2**63, f"account {after.id} would have {after.balance} credits"
    ws.add_entry(Entry(after.id, after.entries, kind, amount, after.balance, ws.now, job_id, reason))
    ws.put_account(after)
    return after


def spent_today(account: Account, now: int) -> int:
    return account.day_spent if account.day_at == day_of(now) else 0


def spent_this_month(account: Account, now: int) -> int:
    return account.month_spent if account.month_at == month_of(now) else 0


def charge(ws: Workspace, account: Account, job: Job) -> Account:
    """Takes a job's cost. A free job writes no entry."""
    cost = job.charged
    if cost == 0:
        return account
    low = None if ws.policy.webhooks is None else ws.policy.webhooks.low_credits
    # Only the charge that crosses the threshold sends a message: later ones begin below it.
    if low is not None and account.balance >= low > account.balance - cost:
        ws.put_hook(PendingHook(CREDITS_LOW_HOOK, job.id, ws.now))
    return _entered(ws, charged(account, cost, ws.now), "charge", -cost, job.id, _described(job))


def charged(account: Account, cost: int, now: int) -> Account:
    """The account after one charge."""
    day, month = day_of(now), month_of(now)
    return replace(
        account,
        balance=account.balance - cost,
        entries=account.entries + 1,
        day_at=day,
        day_spent=cost + (account.day_spent if account.day_at == day else 0),
        month_at=month,
        month_spent=cost + (account.month_spent if account.month_at == month else 0),
    )


def _described(job: Job) -> str:
    """What was bought, for whoever reads the ledger."""
    return job.spec.tool if job.spec.units == 1 else f"{job.spec.tool}, {job.spec.units} items"


def refund(ws: Workspace, job: Job, amount: int, reason: str) -> int:
    """Refunds part or all of what the job was charged, and returns how much.

    At most once per job: not if nothing was charged or anything was refunded before. A refund in the period of the
    charge is taken off what was spent in it.
    """
    if amount == 0 or job.charged == 0 or job.refunded:
        return 0
    assert amount <= job.charged, f"job {job.id} was charged {job.charged}, cannot refund {amount}"
    account = ws.owner(job)
    now, created = ws.now, job.created_at
    if account.day_at == day_of(now) == day_of(created):
        account = replace(account, day_spent=max(0, account.day_spent - amount))
    if account.month_at == month_of(now) == month_of(created):
        account = replace(account, month_spent=max(0, account.month_spent - amount))
    post(ws, account, "refund", amount, job_id=job.id, reason=reason)
    ws.put_job(replace(job, refunded=amount))
    return amount


def undelivered(charged: int, delivered: int, of: int) -> int:
    """The refund when only a part was delivered, rounded up to a whole credit."""
    return charged - charged * min(delivered, of) // of
