"""Queries about declared hooks, and about how many runs of each are still to be made."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Statement, sql_file
from .tables import KEYED

_HOOKS: Final = KEYED["DeclaredHook"]
_text: Final = partial(sql_file, __package__)


def list_declared_hooks(sql: Dialect, query: q.ListDeclaredHooks, now: int | None) -> Asking[q.DeclaredHooks]:
    words = {"hook": sql.selected(_HOOKS, "t"), "at": sql.read("m.at", "instant"), "moment": sql.moment}
    text = _text("declared_hooks").format(**words, limit=sql.parameter(4, "number"))
    rows = yield Statement(text, (now, 0, 0, query.limit, 0))
    return q.DeclaredHooks(int(rows[0][0]), [_HOOKS.record(row[1:]) for row in rows if row[1] is not None])


def count_hooks(sql: Dialect, query: q.CountHooks, now: int | None) -> Asking[list[q.OwedHook]]:
    words = {"due_at": sql.read("min(due_at)", "instant"), "limit": sql.parameter(1, "number")}
    rows = yield Statement(_text("owed_hooks").format(**words), (query.limit,))
    return [q.OwedHook(*row) for row in rows]


HOOK_QUESTIONS: Final[Answers] = {
    q.ListDeclaredHooks: list_declared_hooks,
    q.CountHooks: count_hooks,
}
