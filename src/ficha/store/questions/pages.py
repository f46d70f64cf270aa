"""The queries that list the records of one table: each is a line of `PAGES`."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Any, Final

from ...core.records import Account
from .. import base as q
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select
from ..sql.tables import Table

PAGES: Final[dict[type[q.Query[Any]], tuple[Table, str, tuple[tuple[str, str, str], ...]]]] = {
    q.GetAccount: (t.ACCOUNTS, "id", (("id", "=", "account_id"),)),
    q.ListAccounts: (t.ACCOUNTS, "id", (("id", ">", "after"), ("id", ">=", "prefix"), ("id", "<", "prefix_end"))),
    q.ListSteps: (t.STEPS, "{insertion_order}", (("job_id", "=", "job_id"),)),
    q.ListAccepted: (t.EVENTS, "at DESC, t.job_id DESC", (("data ->> 'ref'", "=", "ref"),)),
    q.ListJobEvents: (t.EVENTS, "number", (("job_id", "=", "job_id"), ("kind", "=", "kind"))),
    q.ListEntries: (t.ENTRIES, "number DESC", (("account_id", "=", "account_id"), ("number", "<", "before_number"))),
    q.ListJobEntries: (t.ENTRIES, "number", (("job_id", "=", "job_id"),)),
}
"""Queries that list records of a table: the table, the order, and conditions (column, operator, field of the query)."""


def page_of(sql: Dialect, table: Table, more: str = "") -> Select:
    return Select(sql, f"SELECT {more}{sql.selected(table, 't')} FROM ficha.{table.name} t")


def list_page(sql: Dialect, query: q.Query[Any], now: int | None) -> Asking[list[Any]]:
    table, order, conditions = PAGES[type(query)]
    page = page_of(sql, table)
    for column, operator, name in conditions:
        page.matches(f"t.{column}", operator, getattr(query, name), table.kind(column))
    tail = f"ORDER BY t.{order.format(insertion_order=sql.insertion_order)}"
    return [*map(table.record, (yield page.statement(tail, getattr(query, "limit", None))))]


def get_account(sql: Dialect, query: q.GetAccount, now: int | None) -> Asking[Account | None]:
    return next(iter((yield from list_page(sql, query, now))), None)


def list_keys(sql: Dialect, query: q.ListKeys, now: int | None) -> Asking[list[Any]]:
    page = page_of(sql, t.KEYS)
    page.matches("t.account_id", "=", query.account_id)
    page.matches("t.key", "=", query.key)
    if query.after is not None:
        after = ", ".join(page.given(value, "text") for value in query.after)
        page.where(f"(t.account_id, t.key, t.scope) > ({after})")
    return [*map(t.KEYS.record, (yield page.statement("ORDER BY t.account_id, t.key, t.scope", query.limit)))]


PAGE_QUESTIONS: Final[Answers] = {
    **dict.fromkeys(PAGES, list_page),
    q.GetAccount: get_account,
    q.ListKeys: list_keys,
}
