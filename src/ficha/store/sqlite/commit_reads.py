"""The read side's questions about what happened: a job's history, and the commits."""

from __future__ import annotations

import apsw

from ...core.history import history_page
from ...core.records import Event
from .. import base as q
from ..commits import account_mark, decoded
from . import rows
from .rows import listed

# ruff: noqa: S608 (all that is put into these statements are names from this package)

JOB = f"SELECT {rows.JOB_READ} FROM jobs j {rows.JOB_JOINS} WHERE j.id = ?"
KEPT_BEFORE = "SELECT count(*) FROM events WHERE job_id = ? AND number <= ?"
KEPT = f"SELECT {listed(rows.EVENT_COLUMNS)} FROM events WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?"
COMMITS = "SELECT number, at, events FROM commits WHERE number > ? ORDER BY number LIMIT ?"
COMMITS_OF = "SELECT number, at, events FROM commits WHERE number > ? AND instr(events, ?) > 0 ORDER BY number LIMIT ?"
LAST_COMMIT = "SELECT coalesce(max(number), 0) FROM commits"
FIRST_SEARCHED = (
    "SELECT number FROM (SELECT number, sum(size) OVER (ORDER BY number DESC) - size AS newer FROM commits "
    "ORDER BY number DESC LIMIT ?1) WHERE newer < ?1 ORDER BY number LIMIT 1"
)
NEWEST = "SELECT at, events FROM commits WHERE size > 0 ORDER BY number DESC LIMIT ?"


def get_history(db: apsw.Connection, query: q.GetHistory, now: int) -> list[Event]:
    row = db.execute(JOB, (query.job_id,)).fetchone()
    if row is None:
        return []
    before = db.execute(KEPT_BEFORE, (query.job_id, query.after)).get if query.after else 0
    kept = [rows.event_of(found) for found in db.execute(KEPT, (query.job_id, query.after, query.limit))]
    return history_page(rows.job_of(row), kept, before, query.after, query.limit)


def list_commits(db: apsw.Connection, query: q.ListCommits, now: int) -> list[q.Commit]:
    if query.telling_of is None:
        found = db.execute(COMMITS, (query.after, query.limit))
    else:
        found = db.execute(COMMITS_OF, (query.after, account_mark(query.telling_of), query.limit))
    return [q.Commit(number, decoded(text, at)) for number, at, text in found]


def get_first_searched(db: apsw.Connection, query: q.GetFirstSearched, now: int) -> int:
    return db.execute(FIRST_SEARCHED, (q.EVENTS_SEARCHED,)).get or 0


def get_horizon(db: apsw.Connection, query: q.GetHorizon, now: int) -> q.Horizon:
    return q.Horizon(db.execute(LAST_COMMIT).get)


def lately_completed(db: apsw.Connection) -> tuple[str, ...]:
    """The jobs whose completion one of the newest commits tells."""
    newest = (decoded(text, at) for at, text in db.execute(NEWEST, (q.COMMITS_AVERAGED,)))
    return tuple(event.job_id for events in newest for event in events if event.kind == "completed")
