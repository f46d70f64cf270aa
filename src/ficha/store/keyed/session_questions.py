"""Queries about the sessions of pages."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from functools import partial
from typing import Final

from ...core.records import PageSessions
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from .tables import KEYED

_SESSIONS: Final = KEYED["PageSessions"]
_text: Final = partial(sql_file, __package__)


def get_page_sessions(sql: Dialect, query: q.GetPageSessions, now: int | None) -> Asking[PageSessions | None]:
    page = Select(sql, f"SELECT {sql.selected(_SESSIONS, 't')} FROM ficha.page_sessions t")
    page.matches("t.account_id", "=", query.account_id)
    rows = yield page.statement()
    return _SESSIONS.record(rows[0]) if rows else None


def list_session_jobs(sql: Dialect, query: q.ListSessionJobs, now: int | None) -> Asking[list[str]]:
    asked = {"session": sql.parameter(1, "text"), "account": sql.parameter(2, "text")}
    text = _text("session_jobs").format(id=sql.read("j.id", "uuid"), **asked, limit=sql.parameter(3, "number"))
    return [row[0] for row in (yield Statement(text, (query.session, query.account_id, query.limit)))]


SESSION_QUESTIONS: Final[Answers] = {
    q.GetPageSessions: get_page_sessions,
    q.ListSessionJobs: list_session_jobs,
}
