"""Queries about bulk acts."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.records import BulkAct
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from .tables import KEYED

_ACTS: Final = KEYED["BulkAct"]


def list_bulk_acts(sql: Dialect, query: q.ListBulkActs, now: int | None) -> Asking[list[BulkAct]]:
    page = Select(sql, f"SELECT {sql.selected(_ACTS, 't')} FROM ficha.bulk_acts t")
    page.matches("t.id", "=", query.id, "uuid")
    page.matches("t.id", "<", query.before, "uuid")
    return [*map(_ACTS.record, (yield page.statement("ORDER BY t.id DESC", query.limit)))]


def list_due_bulk_acts(sql: Dialect, query: q.ListDueBulkActs, now: int | None) -> Asking[list[BulkAct]]:
    due_at = "coalesce(t.part_due_at, t.due_at)"
    due = f"t.state = 'running' AND {due_at} <= (SELECT at FROM ({sql.moment}) AS moment)"
    text = f"SELECT {sql.selected(_ACTS, 't')} FROM ficha.bulk_acts t WHERE {due} "
    text += f"ORDER BY {due_at}, t.id LIMIT {sql.parameter(4, 'number')}"
    return [*map(_ACTS.record, (yield Statement(text, (now, 0, 0, query.limit, 0))))]


BULK_QUESTIONS: Final[Answers] = {
    q.ListBulkActs: list_bulk_acts,
    q.ListDueBulkActs: list_due_bulk_acts,
}
