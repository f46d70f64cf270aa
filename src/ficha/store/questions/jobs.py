"""The queries about jobs and what belongs to them: history, the commits that tell of them, hooks, batches."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from functools import partial
from typing import Any, Final

from ...core.history import history_page
from ...core.records import Event
from .. import base as q
from ..commits import account_mark, decoded
from ..sql import tables as t
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from ..sql.jobs import HOT_ROWS, JOB_WIDTH, job_columns, job_of
from ..sql.tables import Kind

_text: Final = partial(sql_file, __package__)


def _whole_jobs(sql: Dialect, condition: str, value: Any) -> Asking[list[q.JobRow]]:
    texts = f"{sql.read('j.payload', 'json')}, {sql.read('j.result', 'json')}"
    rows = yield Statement(
        f"SELECT {job_columns(sql)}, {texts} FROM ficha.jobs j {HOT_ROWS} WHERE {condition}", (value,)
    )
    return [q.JobRow(job_of(row), row[JOB_WIDTH], row[JOB_WIDTH + 1]) for row in rows]


def get_jobs(sql: Dialect, query: q.GetJobs, now: int | None) -> Asking[list[q.JobRow]]:
    return _whole_jobs(sql, sql.among("j.id", 1, "uuid"), sql.values({*query.ids}, "uuid"))


def get_parts(sql: Dialect, query: q.GetParts, now: int | None) -> Asking[list[q.JobRow]]:
    return _whole_jobs(sql, f"j.part_of = {sql.parameter(1, 'uuid')}", sql.value(query.request_id, "uuid"))


def get_history(sql: Dialect, query: q.GetHistory, now: int | None) -> Asking[list[Event]]:
    found = {"job": job_columns(sql), "event": sql.selected(t.EVENTS, "e"), "hot_rows": HOT_ROWS}
    kinds: tuple[tuple[str, Kind], ...] = (("job_id", "uuid"), ("after", "number"), ("limit", "number"))
    asked = {name: sql.parameter(number, kind) for number, (name, kind) in enumerate(kinds, 1)}
    text = _text("history").format(**found, **asked)
    rows = yield Statement(text, (sql.value(query.job_id, "uuid"), query.after, query.limit))
    if not rows:
        return []
    kept = [t.EVENTS.record(row[JOB_WIDTH + 1 :]) for row in rows if row[JOB_WIDTH + 1] is not None]
    return history_page(job_of(rows[0]), kept, rows[0][JOB_WIDTH], query.after, query.limit)


def list_commits(sql: Dialect, query: q.ListCommits, now: int | None) -> Asking[list[q.Commit]]:
    page = Select(sql, f"SELECT number, {sql.read('at', 'instant')}, events FROM ficha.commits")
    page.matches("number", ">", query.after, "number")
    if query.telling_of is not None:
        page.where(sql.contains("events", page.given(account_mark(query.telling_of), "text")))
    rows = yield page.statement("ORDER BY number", query.limit)
    return [q.Commit(number, decoded(text, at)) for number, at, text in rows]


def get_first_searched(sql: Dialect, query: q.GetFirstSearched, now: int | None) -> Asking[int]:
    rows = yield Statement(_text("first_searched").format(most=sql.parameter(1, "number")), (q.EVENTS_SEARCHED,))
    return rows[0][0] if rows else 0


def list_hooks(sql: Dialect, query: q.ListHooks, now: int | None) -> Asking[list[Any]]:
    words = {"hook": sql.selected(t.HOOKS, "t"), "named": sql.among("t.name", 4, "text"), "moment": sql.moment}
    asked = {"any_name": str(not query.names), "any_time": str(not query.is_due), "limit": sql.parameter(5, "number")}
    text = _text("hooks").format(**words, **asked)
    return [*map(t.HOOKS.record, (yield Statement(text, (now, 0, 0, sql.values(query.names, "text"), query.limit))))]


def not_run_again(among: str) -> str:
    """The condition that a job `j` was not run again as a job `n` for which `among` holds."""
    return f"j.id NOT IN (SELECT n.requeue_of FROM ficha.jobs n WHERE {among} AND n.requeue_of IS NOT NULL)"


def get_batch(sql: Dialect, query: q.GetBatch, now: int | None) -> Asking[q.BatchCounts | None]:
    status = "coalesce(l.status, j.status)"
    named = sql.parameter(1, "uuid")
    latest = not_run_again(f"n.batch_id = {named}")
    jobs = f"LEFT JOIN ficha.jobs j ON j.batch_id = b.id AND {latest} LEFT JOIN ficha.leases l ON l.job_id = j.id"
    found = f"{status}, count(j.id), {sql.selected(t.BATCHES, 'b')}"
    text = f"SELECT {found} FROM ficha.batches b {jobs} WHERE b.id = {named} GROUP BY b.id, {status}"
    rows = yield Statement(text, (sql.value(query.batch_id, "uuid"),))
    if not rows:
        return None
    return q.BatchCounts(t.BATCHES.record(rows[0][2:]), {row[0]: row[1] for row in rows if row[1]})


JOB_QUESTIONS: Final[Answers] = {
    q.GetJobs: get_jobs,
    q.GetParts: get_parts,
    q.GetHistory: get_history,
    q.ListCommits: list_commits,
    q.GetFirstSearched: get_first_searched,
    q.ListHooks: list_hooks,
    q.GetBatch: get_batch,
}
