"""Accounts, their credits and their ledger."""

from __future__ import annotations

from typing import Any, Literal

from .. import validation as arg
from ..core.commands import ChangePlan, Credit, OpenAccount
from ..core.outcomes import AccountChanged, Refusal
from ..core.refusals import no_plan
from ..engine.views import AccountView, Credited, EntryView, Page, credited
from ..errors import Refused
from .base import Operations

CreditKind = Literal["grant", "adjust"]


class AccountOperations(Operations):
    async def open_account(
        self,
        account: str,
        *,
        plan: str | None = None,
        credits: int = 0,
        exist_ok: bool = False,
        connection: Any = None,
    ) -> AccountView:
        """Opens an account, with a first grant of credits if any.

        With `exist_ok`, an account that is open already is returned as it is: its plan stays, and nothing is granted.
        connection: as in `submit`.
        """
        command = OpenAccount(
            arg.name(account, "an account"),
            self.default_plan if plan is None else self._given(plan),
            arg.amount(credits, "the opening credits"),
            exist_ok=arg.flag(exist_ok, "exist_ok"),
        )
        return self.queries.changed_account((await self._ask(command, AccountChanged, connection)).account)

    async def change_plan(self, account: str, plan: str) -> AccountView:
        """Moves an account to another plan."""
        command = ChangePlan(arg.name(account, "an account"), self._given(plan))
        return self.queries.changed_account((await self._ask(command, AccountChanged)).account)

    def _given(self, plan: str) -> str:
        """Returns the plan. Refuses Ficha's own plans, which the rules accept for the accounts of simulations."""
        policy = self.engine.policy
        if arg.name(plan, "a plan") in policy.plans and not policy.is_declared(plan):
            raise Refused.of(no_plan(plan, policy))
        return plan

    async def grant(
        self, account: str, amount: int, *, reason: str | None = None, key: str | None = None, connection: Any = None
    ) -> Credited:
        """Adds credits; returns the new balance and the ledger line. With a `key` (a payment's id, say) a repeat adds
        nothing, and its answer says so.

        connection: as in `submit`.
        """
        return await self._credit(account, amount, "grant", reason, key, connection)

    async def adjust(self, account: str, amount: int, *, reason: str, key: str | None = None) -> Credited:
        """Corrects a balance, up or down but never below zero."""
        return await self._credit(account, amount, "adjust", reason, key)

    async def _credit(
        self,
        account: str,
        amount: int,
        kind: CreditKind,
        reason: str | None,
        key: str | None,
        connection: Any = None,
    ) -> Credited:
        command = Credit(
            arg.name(account, "an account"),
            arg.amount(amount),
            kind,
            None if reason is None else arg.text(reason),
            None if key is None else arg.key(key),
        )
        return credited(await self._ask(command, AccountChanged, connection))

    async def account(self, account: str) -> AccountView:
        """An account with its balance, plan and usage."""
        view = await self.queries.account(arg.name(account, "an account"))
        if view is None:
            raise Refused.of(Refusal("NOT_FOUND", f"there is no account {account!r}; open it first."))
        return view

    async def accounts(
        self, *, search: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[AccountView]:
        """A page of accounts, by id; with `search`, those whose id begins with it."""
        return await self.queries.accounts(
            arg.optional_name(after, "after"),
            arg.count(limit, "limit", self.limits.page_items),
            arg.optional_name(search, "search"),
        )

    async def ledger(self, account: str, *, before: int | str | None = None, limit: int = 50) -> Page[EntryView]:
        """A page of an account's ledger lines, newest first; `before` is the `next` of the page before."""
        await self.account(account)
        return await self.queries.ledger(
            account, arg.cursor(before, "before"), arg.count(limit, "limit", self.limits.page_items)
        )
