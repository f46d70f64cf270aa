"""Queries over the tables of keyed records, the same for both databases."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.records import AnyKeyed, KeyedName
from ..sql.dialect import Answers, Asking, Dialect, Select
from .brake_questions import BRAKE_QUESTIONS
from .bulk_questions import BULK_QUESTIONS
from .file_questions import FILE_QUESTIONS
from .hook_questions import HOOK_QUESTIONS
from .schedule_questions import SCHEDULE_QUESTIONS
from .session_questions import SESSION_QUESTIONS
from .tables import IN_FIRST_PART, KEYED, OWNERS
from .webhook_questions import WEBHOOK_QUESTIONS

KEYED_QUESTIONS: Final[Answers] = {
    **FILE_QUESTIONS,
    **WEBHOOK_QUESTIONS,
    **SESSION_QUESTIONS,
    **BRAKE_QUESTIONS,
    **BULK_QUESTIONS,
    **SCHEDULE_QUESTIONS,
    **HOOK_QUESTIONS,
}
"""The queries that have a file of their own here; the last argument is the time (None: the database's clock)."""


def keyed_between(sql: Dialect, after: str, last: str) -> Asking[dict[KeyedName, AnyKeyed]]:
    """All records of the accounts beyond `after` up to `last`, and those of no account. A kind that may have thousands
    of the latter is read with the first part only."""
    found: dict[KeyedName, AnyKeyed] = {}
    for kind, table in KEYED.items():
        if after and kind in IN_FIRST_PART:
            continue
        page = Select(sql, f"SELECT {sql.selected(table, 't')} FROM ficha.{table.name} t")
        if (owner := OWNERS[kind]) is not None:
            page.where(
                f"({owner} = '' OR {owner} > {page.given(after, 'text')} AND {owner} <= {page.given(last, 'text')})"
            )
        found |= {(kind, row[0]): table.record(row) for row in (yield page.statement())}
    return found
