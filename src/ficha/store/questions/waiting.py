"""The query for all waiting jobs, as columns of numbers (`waiting_columns.py`), page by page."""

from __future__ import annotations

from typing import Final

from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Statement
from ..waiting_columns import Lines


def get_waiting(sql: Dialect, query: q.GetWaiting, now: int | None) -> Asking[q.Waiting]:
    ready = yield from _lines(sql, "pool", "ficha.ready WHERE TRUE", query.page)
    return q.Waiting(ready, (yield from _lines(sql, "account_id", "ficha.parked WHERE due_at IS NULL", query.page)))


def _lines(sql: Dialect, owner: str, rows: str, page: int) -> Asking[Lines]:
    text = sql.waiting.format(owner=owner, rows=rows)
    lines, taken = Lines(), page
    while taken == page:
        [columns] = yield Statement(text, (*lines.last, page))
        if columns[2] is None:
            break
        taken = lines.append(*sql.waiting_columns(columns))
    return lines


WAITING_QUESTIONS: Final[Answers] = {q.GetWaiting: get_waiting}
