"""The queries about files, in every database."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.records import File, FileUsage
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from .tables import KEYED

_FILES: Final = KEYED["File"]
_USAGE: Final = KEYED["FileUsage"]


def get_files(sql: Dialect, query: q.GetFiles, now: int | None) -> Asking[list[File]]:
    text = f"SELECT {sql.selected(_FILES, 't')} FROM ficha.files t WHERE {sql.among('t.id', 1, 'uuid')}"
    rows = yield Statement(text, (sql.values({*query.ids}, "uuid"),))
    return [*map(_FILES.record, rows)]


def list_files(sql: Dialect, query: q.ListFiles, now: int | None) -> Asking[list[File]]:
    page = Select(sql, f"SELECT {sql.selected(_FILES, 't')} FROM ficha.files t")
    page.where("t.state <> 'removed'")
    page.matches("t.account_id", "=", query.account_id)
    page.matches("t.role", "=", query.role)
    page.matches("t.id", "<", query.before, "uuid")
    return [*map(_FILES.record, (yield page.statement("ORDER BY t.id DESC", query.limit)))]


def list_linked_files(sql: Dialect, query: q.ListLinkedFiles, now: int | None) -> Asking[list[File]]:
    column = "t.job_id" if query.link == "job" else "t.reservation_id"
    # The files are found first, then sorted: otherwise PostgreSQL may walk over all accounts' files in order of id.
    linked = f"SELECT * FROM ficha.files t WHERE {sql.among(column, 1, 'uuid')} AND t.state <> 'removed'"
    text = f"WITH linked AS MATERIALIZED ({linked}) SELECT {sql.selected(_FILES, 't')} FROM linked t "
    text += f"ORDER BY t.id LIMIT {sql.parameter(2, 'number')}"
    rows = yield Statement(text, (sql.values({*query.ids}, "uuid"), query.limit))
    return [*map(_FILES.record, rows)]


def list_due_files(sql: Dialect, query: q.ListDueFiles, now: int | None) -> Asking[list[File]]:
    due = f"t.expires_at <= (SELECT at FROM ({sql.moment}) AS moment)"
    text = f"SELECT {sql.selected(_FILES, 't')} FROM ficha.files t WHERE {due} "
    text += f"ORDER BY t.expires_at, t.id LIMIT {sql.parameter(4, 'number')}"
    return [*map(_FILES.record, (yield Statement(text, (now, 0, 0, query.limit, 0))))]


def get_file_usage(sql: Dialect, query: q.GetFileUsage, now: int | None) -> Asking[FileUsage]:
    page = Select(sql, f"SELECT {sql.selected(_USAGE, 't')} FROM ficha.file_usage t")
    page.matches("t.account_id", "=", query.account_id)
    rows = yield page.statement()
    return _USAGE.record(rows[0]) if rows else FileUsage(query.account_id)


FILE_QUESTIONS: Final[Answers] = {
    q.GetFiles: get_files,
    q.ListFiles: list_files,
    q.ListLinkedFiles: list_linked_files,
    q.ListDueFiles: list_due_files,
    q.GetFileUsage: get_file_usage,
}
