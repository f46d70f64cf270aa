"""Accounts, their credits and their ledger; API keys; and the log of all such acts."""

from __future__ import annotations

from .. import validation as arg
from ..core.records import ApiKeyScope
from ..engine.views import AccountView, ApiKeyView, AuditView, Credited, EntryView, Erased, NewApiKey, Page
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, segment


class AccountMethods(RequestMethods):
    @operation
    def account(self, account: str | None = None) -> Flow[AccountView]:
        """An account with its balance, plan and usage; the key's own if none is named."""
        return self.get("/api/account", AccountView, account=account)

    @operation
    def ledger(
        self, account: str | None = None, *, before: str | None = None, limit: int = 50
    ) -> Flow[Page[EntryView]]:
        """A page of an account's ledger lines, newest first; `before` is the `next` of the previous page."""
        return self.get("/api/account/ledger", Page[EntryView], account=account, cursor=before, limit=limit)

    @operation
    def accounts(
        self, *, search: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[AccountView]]:
        """A page of accounts, by id; with `search`, those whose id begins with it."""
        return self.get("/api/admin/accounts", Page[AccountView], search=search, cursor=after, limit=limit)

    @operation
    def open_account(
        self, account: str, *, plan: str | None = None, credits: int = 0, exist_ok: bool = False
    ) -> Flow[AccountView]:
        """Opens an account, with a first grant of credits if any. With `exist_ok`, one that is open already is returned
        unchanged, and only then does the client retry the call."""
        body = {"account": arg.name(account, "an account"), "plan": plan, "credits": credits, "exist_ok": exist_ok}
        return self.post("/api/admin/accounts", AccountView, body, harmless=exist_ok)

    @operation
    def change_plan(self, account: str, plan: str) -> Flow[AccountView]:
        """Moves an account to another plan."""
        return self.post(_of(account, "plan"), AccountView, {"plan": plan}, harmless=True)

    @operation
    def grant(self, account: str, amount: int, *, reason: str | None = None, key: str | None = None) -> Flow[Credited]:
        """Adds credits; returns the new balance and the ledger line. With a `key` (a payment's id, say) a repeat adds
        nothing, and says so; only then does the client retry the call."""
        body = {"amount": amount, "reason": reason, "key": key}
        return self.post(_of(account, "grant"), Credited, body, harmless=key is not None)

    @operation
    def adjust(self, account: str, amount: int, *, reason: str, key: str | None = None) -> Flow[Credited]:
        """Corrects a balance, up or down but never below zero."""
        body = {"amount": amount, "reason": reason, "key": key}
        return self.post(_of(account, "adjust"), Credited, body, harmless=key is not None)

    @operation
    def erase(self, account: str) -> Flow[Erased]:
        """Removes a person's data for good, and closes the account. Ledger lines stay, without their reasons."""
        return self.post(_of(account, "erase"), Erased, harmless=True)

    @operation
    def create_api_key(
        self, name: str, *, scope: ApiKeyScope = "user", account: str | None = None, ttl_s: float | None = None
    ) -> Flow[NewApiKey]:
        """Creates a key; its secret is shown this once."""
        body = {"name": name, "scope": scope, "account": account, "ttl_s": ttl_s}
        return self.post("/api/admin/api-keys", NewApiKey, body)

    @operation
    def api_keys(self, *, after: str | None = None, limit: int = 50) -> Flow[Page[ApiKeyView]]:
        """A page of keys, without their secrets, which are not stored."""
        return self.get("/api/admin/api-keys", Page[ApiKeyView], cursor=after, limit=limit)

    @operation
    def revoke_api_key(self, key_id: str) -> Flow[ApiKeyView]:
        """Revokes a key; a second time changes nothing."""
        return self.post(f"/api/admin/api-keys/{arg.job_id(key_id, 'API key')}/revoke", ApiKeyView, harmless=True)

    @operation
    def audit(
        self, *, target: str | None = None, actor: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[AuditView]]:
        """A page of the log of administrative acts, newest first; with `target`, such as `account ana`, or `actor`,
        only acts on that target or by that actor."""
        return self.get("/api/admin/audit", Page[AuditView], target=target, actor=actor, cursor=after, limit=limit)


def _of(account: str, what: str) -> str:
    return f"/api/admin/accounts/{segment(arg.name(account, 'an account'))}/{what}"
