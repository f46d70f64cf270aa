"""Erasure: removes all that an account's owner gave or got. The lines of the ledger and of the audit log stay, without
what people wrote in them.

The first step closes the account, which no later act undoes: nothing new arrives while the rest is removed, step by
step. Every step can be repeated, so the process that erases may die at any point. `retention.py` removes the account's
jobs, and `files.py` its files.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from . import audit
from .commands import CloseAccount, EraseRows
from .outcomes import ClosedAccount, Refusal, RowsErased
from .policy import CLOSED_PLAN
from .records import Delivery, KeyScope, PageSessions, WebhookEndpoints
from .refusals import no_account
from .rule import Audited, Needs, Rule
from .workspace import Workspace

ERASED: Final = "erased"
"""The name that the API keys of an erased account get."""


def close_account(ws: Workspace, command: CloseAccount) -> ClosedAccount | Refusal:
    """Closes the account, and revokes the keys named. Keys made after the query for them are named by the next try."""
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    changed = account.plan != CLOSED_PLAN
    if changed:
        account = replace(account, plan=CLOSED_PLAN)
        ws.put_account(account)
    for record in (ws.find(WebhookEndpoints, account.id), ws.find(PageSessions, account.id)):
        if record is not None:
            ws.remove(record)
    for key_id in command.api_keys:
        key = ws.api_key(key_id)
        if key is not None and key.account_id == account.id:
            ws.put_api_key(replace(key, name=ERASED, hint="", revoked_at=key.revoked_at or ws.now))
    return ClosedAccount(account, changed)


def erase_rows(ws: Workspace, command: EraseRows) -> RowsErased | Refusal:
    account = ws.account(command.account_id)
    if account is None:
        return no_account(command.account_id)
    if account.plan != CLOSED_PLAN:
        return Refusal("INVALID_STATE", f"account {account.id} is open; nothing was removed. Close it first.")
    rows = 0
    for name, text in command.keys:
        scope: KeyScope = "submit" if name == "submit" else "grant"
        if ws.key((account.id, scope, text)) is not None:
            ws.forget_key((account.id, scope, text))
            rows += 1
    for reservation_id in command.reservations:
        held = ws.reservation(reservation_id)
        if held is not None and held.account_id == account.id:
            ws.put_reservation(replace(held, state="released"))
            ws.forget_reservation(held.id)
            rows += 1
    for delivery_id in command.deliveries:
        delivery = ws.find(Delivery, delivery_id)
        if delivery is not None and delivery.account_id == account.id:
            ws.remove(delivery)
            rows += 1
    for number in command.entries:
        ws.empty_reason(account.id, number)
    for number in command.audit:
        ws.empty_words(account.id, number)
    if command.audit:
        audit.record_of_system(ws, "erase_words", f"account {account.id}", lines=len(command.audit))
    rows += len(command.entries) + len(command.audit)
    return RowsErased(rows, changed=bool(rows))


def _needs_account(wanted: Needs, command: CloseAccount) -> None:
    wanted.accounts.add(command.account_id)
    wanted.api_keys.update(command.api_keys)
    wanted.find(WebhookEndpoints, command.account_id)
    wanted.find(PageSessions, command.account_id)


def _needs_rows(wanted: Needs, command: EraseRows) -> None:
    wanted.accounts.add(command.account_id)
    wanted.reservations.update(command.reservations)
    wanted.find(Delivery, *command.deliveries)
    for name, text in command.keys:
        wanted.keys.add((command.account_id, "submit" if name == "submit" else "grant", text))


def _audit(command: CloseAccount, outcome: ClosedAccount) -> Audited:
    return Audited("erase_account", f"account {command.account_id}", {"balance": outcome.account.balance})


RULES = (
    Rule(CloseAccount, decide=close_account, needs=_needs_account, refuses=("NOT_FOUND",), audit=_audit),
    Rule(EraseRows, decide=erase_rows, needs=_needs_rows, refuses=("INVALID_STATE", "NOT_FOUND")),
)
