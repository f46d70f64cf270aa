"""Queries about schedules."""

from __future__ import annotations

from functools import partial
from typing import Final

from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Statement, sql_file
from .tables import KEYED

_SCHEDULES: Final = KEYED["Schedule"]
_text: Final = partial(sql_file, __package__)


def list_schedules(sql: Dialect, query: q.ListSchedules, now: int | None) -> Asking[q.ScheduleList]:
    words = {"schedule": sql.selected(_SCHEDULES, "t"), "at": sql.read("m.at", "instant"), "moment": sql.moment}
    text = _text("schedules").format(**words, limit=sql.parameter(4, "number"))
    rows = yield Statement(text, (now, 0, 0, query.limit, 0))
    return q.ScheduleList(int(rows[0][0]), [_SCHEDULES.record(row[1:]) for row in rows if row[1] is not None])


SCHEDULE_QUESTIONS: Final[Answers] = {
    q.ListSchedules: list_schedules,
}
