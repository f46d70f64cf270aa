"""Accounts: open one, credit it, move it to another plan."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from . import ledger
from .commands import ChangePlan, Credit, OpenAccount
from .outcomes import AccountChanged, Refusal
from .policy import MAX_AMOUNT, MAX_BALANCE, OWN_PREFIX
from .promote import promote
from .records import Account, Key
from .refusals import account_closed, lacks_credits, no_account, no_plan
from .rule import Audited, Needs, Rule
from .workspace import Workspace


def open_account(ws: Workspace, command: OpenAccount) -> AccountChanged | Refusal:
    if command.plan not in ws.policy.plans:
        return no_plan(command.plan, ws.policy)
    if command.account_id.startswith(OWN_PREFIX):
        return Refusal(
            "INVALID_ARGUMENT",
            f"accounts whose ids begin with {OWN_PREFIX!r} are Ficha's own; nothing was changed. Choose another id.",
        )
    if command.credits != 0 and (refusal := _refuse_amount(command.credits, grant=True)) is not None:
        return refusal
    if (known := ws.account(command.account_id)) is not None:
        if command.exist_ok:
            return AccountChanged(known, repeated=True)
        return Refusal(
            "INVALID_STATE",
            f"account {command.account_id} is open already; nothing was changed. Use grant to add credits.",
        )
    account = Account(command.account_id, command.plan, ws.now)
    ws.put_account(account)
    if command.credits:
        account = ledger.post(ws, account, "grant", command.credits, reason=command.reason)
    return AccountChanged(account)


def change_plan(ws: Workspace, command: ChangePlan) -> AccountChanged | Refusal:
    """Moves an account to another plan. Queued jobs keep their priority; parked ones that now fit become ready."""
    if command.plan not in ws.policy.plans:
        return no_plan(command.plan, ws.policy)
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    if (refusal := account_closed(account)) is not None:
        return refusal
    ws.put_account(replace(account, plan=command.plan))
    promote(ws, account.id, at_most=account.parked)
    moved = ws.account(account.id)
    assert moved is not None
    return AccountChanged(moved)


def credit(ws: Workspace, command: Credit) -> AccountChanged | Refusal:
    """Adds to a balance or corrects it. With a key a repeat changes nothing: a payment call-back may arrive twice."""
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    # An adjustment is entered even after the account was closed: a payment may be paid back later.
    if command.kind == "grant" and (refusal := account_closed(account)) is not None:
        return refusal
    fingerprint = f"{command.kind} {command.amount}"
    if command.key is not None and (key := ws.key((account.id, "grant", command.key))) is not None:
        if key.fingerprint != fingerprint:
            return Refusal(
                "IDEMPOTENCY_MISMATCH",
                f"the key {command.key!r} was used for a {key.fingerprint}; nothing was changed. Use a new key.",
            )
        return AccountChanged(account, repeated=True, entry=key.entry)
    if (refusal := _refuse_amount(command.amount, grant=command.kind == "grant")) is not None:
        return refusal
    if account.balance + command.amount < 0:
        return lacks_credits(account, -command.amount)
    if account.balance + command.amount > MAX_BALANCE:
        return Refusal(
            "INVALID_ARGUMENT",
            f"account {account.id} has {account.balance} credits; adding {command.amount} would pass the largest "
            f"balance, {MAX_BALANCE}.",
        )
    account = ledger.post(ws, account, command.kind, command.amount, reason=command.reason)
    if command.key is not None:
        ws.put_key(
            Key(
                account.id, "grant", command.key, fingerprint, created_at=ws.now, expires_at=None, entry=account.entries
            )
        )
    return AccountChanged(account, entry=account.entries)


def _refuse_amount(amount: int, *, grant: bool) -> Refusal | None:
    if amount == 0 or abs(amount) > MAX_AMOUNT or (grant and amount < 0):
        kinds = f"a whole number from 1 to {MAX_AMOUNT}" if grant else f"a whole number up to ±{MAX_AMOUNT}, not 0"
        return Refusal("INVALID_ARGUMENT", f"the amount must be {kinds}, not {amount}; nothing was changed.")
    return None


def _needs_account(wanted: Needs, command: OpenAccount) -> None:
    wanted.accounts.add(command.account_id)


def _audited(act: str, outcome: AccountChanged, **particulars: Any) -> Audited:
    return Audited(act, f"account {outcome.account.id}", {**particulars, "balance": outcome.account.balance})


def _audit_opening(command: OpenAccount, opened: AccountChanged) -> Audited:
    return _audited("open_account", opened, plan=command.plan, credits=command.credits)


def _needs_parked(wanted: Needs, command: ChangePlan) -> None:
    wanted.accounts.add(command.account_id)
    wanted.parked_of.add(command.account_id)


def _audit_plan(command: ChangePlan, moved: AccountChanged) -> Audited:
    return _audited("change_plan", moved, plan=command.plan)


def _needs_key(wanted: Needs, command: Credit) -> None:
    wanted.accounts.add(command.account_id)
    if command.key is not None:
        wanted.keys.add((command.account_id, "grant", command.key))


def _audit_credit(command: Credit, credited: AccountChanged) -> Audited:
    return _audited(command.kind, credited, amount=command.amount, reason=command.reason, key=command.key)


RULES = (
    Rule(
        OpenAccount,
        decide=open_account,
        needs=_needs_account,
        refuses=("INVALID_ARGUMENT", "INVALID_STATE", "NOT_FOUND"),
        audit=_audit_opening,
    ),
    Rule(
        ChangePlan, decide=change_plan, needs=_needs_parked, refuses=("ACCOUNT_CLOSED", "NOT_FOUND"), audit=_audit_plan
    ),
    Rule(
        Credit,
        decide=credit,
        needs=_needs_key,
        refuses=("ACCOUNT_CLOSED", "IDEMPOTENCY_MISMATCH", "INSUFFICIENT_CREDITS", "INVALID_ARGUMENT", "NOT_FOUND"),
        audit=_audit_credit,
    ),
)
