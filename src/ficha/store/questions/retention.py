"""The queries about what is removed by age, and about what is left of an account. Both SQL stores answer them alike."""

# ruff: noqa: S608 (texts are put together from names of our own; values are always parameters)
from __future__ import annotations

from typing import Final

from ...core.erasure import ERASED
from ...core.records import Job
from ...core.retention import WALK
from .. import base as q
from ..keyed.tables import KEYED
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement
from ..sql.jobs import job_columns, job_of

_CURSORS: Final = KEYED["RetentionCursor"]


def get_retention(sql: Dialect, query: q.GetRetention, now: int | None) -> Asking[q.RetentionPoint]:
    if now is None:
        [(now,)] = yield Statement(f"SELECT {sql.clock}")
    cursor = Select(sql, f"SELECT {sql.selected(_CURSORS, 't')} FROM ficha.retention_cursors t")
    cursor.matches("t.name", "=", WALK)
    cursors = yield cursor.statement()
    kept = Select(sql, f"SELECT {sql.read('job_id', 'uuid')} FROM ficha.kept_jobs")
    kept.matches("look_at", "<=", now, "instant")
    rows = yield kept.statement("ORDER BY look_at", query.limit)
    return q.RetentionPoint(now, _CURSORS.record(cursors[0]) if cursors else None, [row[0] for row in rows])


def list_old_jobs(sql: Dialect, query: q.ListOldJobs, now: int | None) -> Asking[list[Job]]:
    """Walks on over the primary key, or over the account's index. Checkpoints are joined to the jobs found."""
    if query.ids is not None:
        walked = Statement(
            f"SELECT * FROM ficha.jobs WHERE {sql.among('id', 1, 'uuid')}", (sql.values({*query.ids}, "uuid"),)
        )
    else:
        part = Select(sql, "SELECT * FROM ficha.jobs")
        part.matches("account_id", "=", query.account_id)
        part.matches("id", ">", query.after, "uuid")
        part.matches("id", "<", query.before, "uuid")
        order = "ORDER BY id" if query.account_id is None else "ORDER BY account_id, id"
        walked = part.statement(order, query.limit)
    joined = f"FROM ({walked.text}) j LEFT JOIN ficha.checkpoints c ON c.job_id = j.id ORDER BY j.id"
    rows = yield Statement(f"SELECT {job_columns(sql, '', texts=False)} {joined}", walked.values)
    return [*map(job_of, rows)]


def list_fuller(sql: Dialect, query: q.ListFuller, now: int | None) -> Asking[list[str]]:
    other = f"j.batch_id = b.id AND NOT ({sql.among('j.id', 2, 'uuid')})"
    text = f"SELECT {sql.read('b.id', 'uuid')} FROM ficha.batches b WHERE {sql.among('b.id', 1, 'uuid')} "
    text += f"AND EXISTS (SELECT 1 FROM ficha.jobs j WHERE {other})"
    rows = yield Statement(text, (sql.values(query.batches, "uuid"), sql.values(query.jobs, "uuid")))
    return [row[0] for row in rows]


def list_account_rows(sql: Dialect, query: q.ListRowsLeft, now: int | None) -> Asking[q.RowsLeft]:
    def listed(columns: str, source: str, *conditions: str, order: str = "") -> Statement:
        page = Select(sql, f"SELECT {columns} FROM ficha.{source}")
        account = page.given(query.account_id, "text")
        for condition in conditions or ("account_id = {account}",):
            page.where(condition.format(account=account))
        return page.statement(order, query.limit)

    an_id = sql.read("id", "uuid")
    api_keys = yield listed(an_id, "api_keys", "account_id = {account}", f"name <> '{ERASED}'")
    keys = yield listed("scope, key", "keys")
    reservations = yield listed(an_id, "reservations")
    deliveries = yield listed(an_id, "deliveries")
    lines = Select(sql, "SELECT number FROM ficha.entries")
    lines.matches("account_id", "=", query.account_id)
    lines.matches("number", ">", query.after_number, "number")
    lines.where("reason IS NOT NULL")
    entries = yield lines.statement("ORDER BY number", query.limit)
    audit = yield listed("number", "audit", "account_id = {account}", "words IS NOT NULL", order="ORDER BY number")
    first = [[row[0] for row in rows] for rows in (api_keys, reservations, deliveries, entries, audit)]
    return q.RowsLeft(first[0], [(scope, key) for scope, key in keys], *first[1:])


RETENTION_QUESTIONS: Final[Answers] = {
    q.GetRetention: get_retention,
    q.ListOldJobs: list_old_jobs,
    q.ListFuller: list_fuller,
    q.ListRowsLeft: list_account_rows,
}
