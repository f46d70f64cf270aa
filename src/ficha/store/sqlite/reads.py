"""The queries that SQLite answers in its own way, and the table of which function answers which query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import apsw

from ...core.records import Job, Status
from ...core.snapshot import Snapshot
from ...core.states import FINAL, HOLDS_SLOT
from .. import base as q
from ..questions import QUESTIONS, SEVERAL
from ..schema_name import in_schema
from ..sql.jobs import HOT_ROWS, job_columns, job_of
from .dialect import SQL
from .load import load
from .row_cache import SqliteRowCache

# ruff: noqa: S608 (all that is put into these statements are names from this package)

T = TypeVar("T")

_HOT_ROWS: Final = in_schema(HOT_ROWS, "")
_JOB: Final = job_columns(SQL, texts=False)
LAST_COMMIT: Final = "SELECT coalesce(max(number), 0) FROM commits"


def answer(db: apsw.Connection, query: q.Query[T], now: int) -> T:
    """Answers in one view: the caller began a transaction, except for `ONE_STATEMENT`. `now` is the store's time."""
    shared = QUESTIONS.get(type(query))
    if shared is None:
        result: T = _OWN[type(query)](db, query, now)
        return result
    asking = shared(SQL, query, now)
    try:
        statement = next(asking)
        while True:
            statement = asking.send(list(db.execute(in_schema(statement.text, ""), statement.values)))
    except StopIteration as done:
        result = done.value
        return result


def _list_jobs(db: apsw.Connection, query: q.ListJobs, now: int) -> list[Job]:
    values = {
        **{name: getattr(query, name) for name in ("account_id", *q.LISTED_BY, "before", "limit")},
        "stuck": query.stuck_before_at,
        **{f"status{number}": status for number, status in enumerate(query.statuses)},
    }
    return list(map(job_of, db.execute(job_list(query), values)))


def job_list(query: q.ListJobs) -> str:
    """The statement for a list of jobs.

    The jobs of each status are in a table with few others. The statement scans those tables backwards by id and merges
    the rows, so that it reads one page however many jobs there are.
    """
    wanted = frozenset(query.statuses)
    if query.stuck_before_at is not None:
        arms = [_arm(query, "leases", _is_one_of("h.status", query, wanted), "h.heartbeat_at < :stuck")]
    elif query.dead or not wanted:
        arms = [_arm(query, "jobs", _is_one_of("coalesce(l.status, j.status)", query, wanted))]
    else:
        arms = [
            *([_arm(query, "ready"), _arm(query, "parked")] if "queued" in wanted else []),
            *([_arm(query, "leases", _is_one_of("h.status", query, wanted))] if wanted & HOLDS_SLOT else []),
            *([_arm(query, "jobs", _is_one_of("j.status", query, wanted & FINAL))] if wanted & FINAL else []),
        ]
    return " UNION ALL ".join(arms) + " ORDER BY 1 DESC LIMIT :limit"


def _arm(query: q.ListJobs, table: str, *conditions: str) -> str:
    source, key, owner = "jobs j", "j.id", "j.account_id"
    if table != "jobs":
        source, key, owner = f"{table} h CROSS JOIN jobs j ON j.id = h.job_id", "h.job_id", "h.account_id"
    where = _all_of(
        (query.account_id, f"{owner} = :account_id"),
        (query.before, f"{key} < :before"),
        *((getattr(query, name), f"j.{name} = :{name}") for name in q.LISTED_BY),
        (query.dead or None, "j.dead_at IS NOT NULL"),
        *((True, condition) for condition in conditions),
    )
    # The id comes from the scanned table, so that SQLite knows that the rows are in order already.
    return f"SELECT {key}{_JOB.removeprefix('j.id')} FROM {source} {_HOT_ROWS} WHERE {where}"


def _is_one_of(column: str, query: q.ListJobs, statuses: frozenset[Status]) -> str:
    """The condition that a status is one of those asked for; always true if none was."""
    marks = [f":status{number}" for number, status in enumerate(query.statuses) if status in statuses]
    return f"{column} IN ({', '.join(marks)})" if marks else "TRUE"


def _all_of(*asked: tuple[object, str]) -> str:
    """The conditions whose value is not None, joined by AND."""
    return " AND ".join(condition for value, condition in asked if value is not None) or "TRUE"


def _get_horizon(db: apsw.Connection, query: q.GetHorizon, now: int) -> q.Horizon:
    return q.Horizon(db.execute(LAST_COMMIT).get)


def _get_snapshot(db: apsw.Connection, query: q.GetSnapshot, now: int) -> Snapshot:
    return load(db, query.needs, now, SqliteRowCache())


_OWN: Final[dict[type[q.Query[Any]], Callable[[apsw.Connection, Any, int], Any]]] = {
    q.ListJobs: _list_jobs,
    q.GetHorizon: _get_horizon,
    q.GetSnapshot: _get_snapshot,
}
ONE_STATEMENT: Final = frozenset({*QUESTIONS, q.ListJobs, q.GetHorizon} - SEVERAL)
"""Queries of one statement, which is one view by itself."""
