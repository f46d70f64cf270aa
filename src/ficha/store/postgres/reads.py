"""The queries that PostgreSQL answers in its own way, and the table of which function answers which query.

A query of several statements runs in one REPEATABLE READ transaction, so that the answer is one view. Nothing locks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Final, TypeVar

from ...core.records import Job
from ...core.snapshot import Snapshot
from ...core.states import ACTIVE
from .. import base as q
from ..base import Clock
from ..questions import QUESTIONS, SEVERAL, WALKS
from ..sql.dialect import Asking, Select, sql_file
from ..sql.jobs import HOT_ROWS, JOBS, job_columns, job_of
from .connections import BEGIN_READING, Connection, transaction
from .dialect import SQL
from .load import view

T = TypeVar("T")

NOW: Final = f"SELECT {SQL.clock}"
HORIZON: Final = sql_file(__package__, "horizon")
NOT_FOR_WALKS: Final = ("enable_seqscan", "enable_bitmapscan", "enable_sort", "jit")
"""Each page continues in the index where the last one ended. With old statistics the planner might sort the whole table
for each page instead, or compile (JIT) a statement for longer than it runs."""
BEGIN_WALKING: Final = "; ".join((BEGIN_READING, *(f"SET LOCAL {way} = off" for way in NOT_FOR_WALKS)))


async def answer(connection: Connection, query: q.Query[T], clock: Clock | None) -> T:
    shared = QUESTIONS.get(type(query))
    if shared is None:
        result: T = await _OWN[type(query)](connection, query, clock)
        return result
    asking = shared(SQL, query, None if clock is None else clock())
    begin = BEGIN_WALKING if type(query) in WALKS else BEGIN_READING
    async with transaction(connection, begin) if type(query) in SEVERAL else nullcontext():
        result = await ask(connection, asking)
        return result


async def ask(connection: Connection, asking: Asking[T]) -> T:
    """Runs a shared query, statement by statement."""
    try:
        statement = next(asking)
        while True:
            statement = asking.send([*map(tuple, await connection.fetch(statement.text, *statement.values))])
    except StopIteration as done:
        answer: T = done.value
        return answer


async def _list_jobs(connection: Connection, query: q.ListJobs, clock: Clock | None) -> list[Job]:
    page = Select(SQL, f"SELECT {job_columns(SQL, texts=False)} FROM ficha.jobs j {HOT_ROWS}")  # noqa: S608 (only names)
    page.matches("j.account_id", "=", query.account_id)
    if query.statuses:
        statuses = ", ".join(page.given(status, "text") for status in query.statuses)
        page.where(f"coalesce(l.status, j.status) IN ({statuses})")
        if set(query.statuses) <= ACTIVE:
            # Excludes no further job, but lets the scan start from the few active jobs.
            held = "SELECT job_id FROM ficha.leases"
            waiting = " UNION ALL SELECT job_id FROM ficha.ready UNION ALL SELECT job_id FROM ficha.parked"
            page.where(f"j.id IN ({held}{waiting if 'queued' in query.statuses else ''})")
    for name in q.LISTED_BY:
        page.matches(f"j.{name}", "=", getattr(query, name), JOBS.kind(name))
    if query.dead:
        page.where("j.dead_at IS NOT NULL")
    page.matches("l.heartbeat_at", "<", query.stuck_before_at, "instant")
    page.matches("j.id", "<", query.before, "uuid")
    listed = page.statement("ORDER BY j.id DESC", query.limit)
    return [*map(job_of, map(tuple, await connection.fetch(listed.text, *listed.values)))]


async def _get_horizon(connection: Connection, query: q.GetHorizon, clock: Clock | None) -> q.Horizon:
    [(last, writers)] = await connection.fetch(HORIZON)
    return q.Horizon(last, frozenset(writers))


async def database_now(connection: Connection, clock: Clock | None) -> int:
    return int(await connection.fetchval(NOW)) if clock is None else clock()


async def _get_snapshot(connection: Connection, query: q.GetSnapshot, clock: Clock | None) -> Snapshot:
    async with transaction(connection, BEGIN_READING):
        return await view(connection, query.needs, clock)


_OWN: Final[dict[type[q.Query[Any]], Callable[[Connection, Any, Clock | None], Awaitable[Any]]]] = {
    q.ListJobs: _list_jobs,
    q.GetHorizon: _get_horizon,
    q.GetSnapshot: _get_snapshot,
}
