"""The read side's questions about what happened: a job's history, the commits, and how far their numbers go."""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from typing import Final

import msgspec

from ...core.history import history_page
from ...core.records import Event
from .. import base as q
from ..base import Clock
from ..commits import account_mark, decoded
from . import rows
from .connections import Connection
from .sql_types import instant, uuid_in

# One statement, so that the job and the lines that are kept of it are of one moment.
HISTORY: Final = f"""
SELECT {rows.ANY_JOB},
    (SELECT count(*) FROM events WHERE job_id = j.id AND number <= $2),
    (
        SELECT jsonb_agg(jsonb_build_array(number, kind, {instant("at")}, data) ORDER BY number)::text FROM (
            SELECT * FROM events WHERE job_id = j.id AND number > $2 ORDER BY number LIMIT $3
        ) AS page
    )
FROM (SELECT * FROM jobs WHERE id = $1::uuid) AS j {rows.OWN_HOT_ROWS}
"""
_COMMITS: Final = f"SELECT number, {instant('at')}, events FROM commits WHERE number > $1"
COMMITS: Final = f"{_COMMITS} ORDER BY number LIMIT $2"
COMMITS_OF: Final = f"{_COMMITS} AND strpos(events, $3) > 0 ORDER BY number LIMIT $2"
FIRST_SEARCHED: Final = """
SELECT number FROM (
    SELECT number, sum(size) OVER (ORDER BY number DESC) - size AS newer FROM commits ORDER BY number DESC LIMIT $1
) AS newest WHERE newer < $1 ORDER BY number LIMIT 1
"""
NEWEST: Final = f"SELECT {instant('at')}, events FROM commits WHERE size > 0 ORDER BY number DESC LIMIT $1"
# A transaction holds this lock on the table from before it takes a number until after its row can be seen. Whoever
# deletes there holds it too, which does no harm. The snapshot's running transactions would tell the same, but among
# them is every long one of every other database on the server, and all would wait for those.
HORIZON: Final = """
SELECT
    coalesce((SELECT max(number) FROM commits), 0),
    ARRAY(
        SELECT virtualtransaction FROM pg_locks
        WHERE relation = 'commits'::regclass AND mode = 'RowExclusiveLock' AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )
"""


async def get_history(connection: Connection, query: q.GetHistory, clock: Clock | None) -> list[Event]:
    row = await connection.fetchrow(HISTORY, uuid_in(query.job_id), query.after, query.limit)
    if row is None:
        return []
    job = rows.job(tuple(row))
    lines = msgspec.json.decode(row[rows.JOB_WIDTH + 1] or "[]")
    kept = [Event(job.id, job.account_id, *line) for line in lines]
    return history_page(job, kept, row[rows.JOB_WIDTH], query.after, query.limit)


async def list_commits(connection: Connection, query: q.ListCommits, clock: Clock | None) -> list[q.Commit]:
    if query.telling_of is None:
        found = await connection.fetch(COMMITS, query.after, query.limit)
    else:
        found = await connection.fetch(COMMITS_OF, query.after, query.limit, account_mark(query.telling_of))
    return [q.Commit(number, decoded(text, at)) for number, at, text in found]


async def get_first_searched(connection: Connection, query: q.GetFirstSearched, clock: Clock | None) -> int:
    return await connection.fetchval(FIRST_SEARCHED, q.EVENTS_SEARCHED) or 0


async def get_horizon(connection: Connection, query: q.GetHorizon, clock: Clock | None) -> q.Horizon:
    """One statement: its snapshot, which sees `last`, is older than its look at the locks."""
    row = await connection.fetchrow(HORIZON)
    assert row is not None
    last, writers = row
    return q.Horizon(last, frozenset(writers))


async def lately_completed(connection: Connection) -> list[str]:
    """The jobs whose completion one of the newest commits tells."""
    found = await connection.fetch(NEWEST, q.COMMITS_AVERAGED)
    return [event.job_id for at, text in found for event in decoded(text, at) if event.kind == "completed"]
