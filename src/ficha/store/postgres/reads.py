"""The read side's questions, each as one statement over committed rows.

What takes several statements runs in one REPEATABLE READ transaction, so that the answer is one view. Nothing here
locks, and nothing here decides: what is "due" or "stuck" is the question's own words as a condition.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from ...core.dataset import State
from ...core.policy import MILLISECOND
from ...core.records import Account, Batch, Entry, Key, Pool, Reservation, Status, Step, Tally
from ...core.snapshot import Snapshot
from ...core.states import ACTIVE
from .. import base as q
from ..base import Clock
from ..waiting_columns import Lines
from . import api_key_reads, commit_reads, full_state, rows
from .connections import BEGIN_READING, Connection, transaction
from .load import view
from .sql_types import at, instant, uuid_in, uuids
from .tables import ACCOUNTS, BATCHES, ENTRIES, KEYS, POOLS, RESERVATIONS, STEPS, WORKERS

T = TypeVar("T")

_JOB_ROWS: Final = f"SELECT {rows.ANY_JOB}, j.payload::text, j.result::text FROM jobs j {rows.HOT_ROWS}"
NOW: Final = f"SELECT {instant('clock_timestamp()')}"

GET_JOBS: Final = f"{_JOB_ROWS} WHERE j.id = ANY ($1::uuid[])"
GET_ACCOUNT: Final = f"SELECT {ACCOUNTS.selected('a')} FROM accounts a WHERE a.id = $1"
LIST_STEPS: Final = f"SELECT {STEPS.selected('s')} FROM steps s WHERE s.job_id = $1::uuid ORDER BY s.number"
GET_BATCH: Final = f"SELECT {BATCHES.selected('b')} FROM batches b WHERE b.id = $1::uuid"
COUNT_BATCH: Final = """
SELECT coalesce(l.status, j.status), count(*) FROM jobs j LEFT JOIN leases l ON l.job_id = j.id
WHERE j.batch_id = $1::uuid GROUP BY 1
"""
LIST_POOLS: Final = f"""
SELECT {POOLS.selected("q")},
    (SELECT count(*) FROM leases WHERE leases.pool = q.name),
    (SELECT count(*) FROM ready WHERE ready.pool = q.name AND $1)
FROM pools q ORDER BY q.name
"""
# Counts and leases are added up for all workers at once: there are few rows, and no index leads to those of one.
LIST_WORKERS: Final = f"""
WITH sums AS MATERIALIZED ({full_state.WHOLE_TALLIES}),
page AS MATERIALIZED (
    SELECT name FROM (SELECT name FROM workers UNION SELECT worker FROM sums) AS known
    WHERE $1::text IS NULL OR name > $1 ORDER BY name LIMIT $2
)
SELECT page.name, counted.kinds, counted.runs, counted.busy_us, coalesce(held.running, 0), coalesce(held.stuck, 0),
    {WORKERS.selected("w")}
FROM page
LEFT JOIN workers w ON w.name = page.name
LEFT JOIN (
    SELECT worker, array_agg(kind ORDER BY kind) AS kinds, array_agg(runs ORDER BY kind) AS runs,
        array_agg(busy_us ORDER BY kind) AS busy_us
    FROM sums GROUP BY worker
) AS counted ON counted.worker = page.name
LEFT JOIN (
    SELECT worker, count(*) AS running, count(*) FILTER (WHERE heartbeat_at < {at("$3::bigint")}) AS stuck
    FROM leases GROUP BY worker
) AS held ON held.worker = page.name
ORDER BY page.name
"""


def _waiting(owner: str, rows: str) -> str:
    """One page of lines as four columns, put together by the database: aggregates take the rows in their order."""
    return f"""
SELECT array_agg(owner), array_agg(jobs), string_agg(ranks, ''::bytea), string_agg(ids, ''::bytea) FROM (
    SELECT
        owner, count(*) AS jobs,
        string_agg(int8send(rank), ''::bytea) AS ranks, string_agg(uuid_send(job_id), ''::bytea) AS ids
    FROM (
        SELECT {owner} AS owner, rank, job_id FROM {rows} AND ({owner}, rank, job_id) > ($1, $2, $3)
        ORDER BY {owner}, rank, job_id LIMIT $4
    ) AS page GROUP BY owner ORDER BY owner
) AS lines
"""


WAITING_READY: Final = _waiting("pool", "ready WHERE TRUE")
WAITING_PARKED: Final = _waiting("account_id", "parked WHERE due_at IS NULL")
NOT_FOR_WAITING: Final = ("enable_seqscan", "enable_bitmapscan", "enable_sort", "jit")
"""Each page goes on in the index where the last one ended. With old statistics the planner might sort the whole table
for each of them instead, and where it believes in many rows, compile a statement for longer than it runs."""
# Asked every second, so it is one statement and needs no transaction. Each cause has its own limit, so that many of one
# kind do not hide another. What makes a lease due has no index of its own: there are as many leases as jobs that run,
# and a sweep reads them all in one passing.
DUE: Final = f"""
WITH moment AS MATERIALIZED (
    SELECT at, at - $2::bigint * interval '1 millisecond' AS stuck_at,
        at - $3::bigint * interval '1 millisecond' AS old_at
    FROM (SELECT coalesce({at("$1::bigint")}, clock_timestamp()) AS at) AS clock
),
held AS MATERIALIZED (
    SELECT job_id, least(expires_at, deadline_at) <= moment.at AS is_over,
        heartbeat_at <= stuck_at AS is_stuck, started_at <= old_at AS is_old
    FROM moment CROSS JOIN leases
    WHERE least(expires_at, deadline_at) <= moment.at OR heartbeat_at <= stuck_at OR started_at <= old_at
)
SELECT 'now', {instant("at")}::text, NULL, NULL FROM moment
UNION ALL
SELECT 'job', job_id::text, NULL, NULL FROM (
    (SELECT job_id FROM held WHERE is_over LIMIT $4)
    UNION
    (SELECT job_id FROM held WHERE is_stuck LIMIT $4)
    UNION
    (SELECT job_id FROM held WHERE is_old LIMIT $4)
    UNION
    (SELECT job_id FROM parked WHERE due_at <= (SELECT at FROM moment) ORDER BY due_at LIMIT $4)
    UNION
    (
        SELECT job_id FROM parked WHERE wait_until_at <= (SELECT at FROM moment) AND started_at IS NULL
        ORDER BY wait_until_at LIMIT $4
    )
    UNION
    (
        SELECT job_id FROM ready WHERE wait_until_at <= (SELECT at FROM moment) AND started_at IS NULL
        ORDER BY wait_until_at LIMIT $4
    )
    UNION
    (SELECT job_id FROM ready WHERE ages_at <= (SELECT at FROM moment) ORDER BY ages_at LIMIT $4)
) AS jobs
UNION ALL
(
    SELECT 'reservation', id::text, NULL, NULL FROM reservations
    WHERE state = 'active' AND expires_at <= (SELECT at FROM moment)
    ORDER BY expires_at LIMIT $4
)
UNION ALL
(
    SELECT 'key', account_id, scope, key FROM keys WHERE expires_at <= (SELECT at FROM moment)
    ORDER BY expires_at LIMIT $4
)
"""
STATS_HELD: Final = f"""
SELECT l.status, coalesce(c.name, ''), count(*), count(*) FILTER (WHERE l.heartbeat_at < {at("$1::bigint")})
FROM leases l LEFT JOIN checkpoints c ON c.job_id = l.job_id GROUP BY 1, 2
"""
STATS_COUNTS: Final = """
SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM parked),
    (SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL)
"""
STATS_RUNS: Final = """
SELECT avg(extract(epoch FROM finished_at - started_at))::float8 FROM jobs WHERE id = ANY ($1::uuid[])
"""


async def answer(connection: Connection, query: q.Query[T], clock: Clock | None) -> T:
    result: T = await _ANSWERS[type(query)](connection, query, clock)
    return result


class PagedSelect:
    """A statement put together from the conditions that a question has, with their values."""

    def __init__(self, select: str) -> None:
        self._select = select
        self._terms: list[str] = []
        self.values: list[Any] = []

    def where(self, term: str, *values: Any) -> None:
        """One condition; each `{}` in it stands for a value."""
        first = len(self.values) + 1
        self._terms.append(term.format(*(f"${n}" for n in range(first, first + len(values)))))
        self.values += values

    def text(self, order: str, limit: int) -> str:
        """The statement, once all conditions are there."""
        condition = f" WHERE {' AND '.join(self._terms)}" if self._terms else ""
        self.values.append(limit)
        return f"{self._select}{condition} ORDER BY {order} LIMIT ${len(self.values)}"


async def _get_jobs(connection: Connection, query: q.GetJobs, clock: Clock | None) -> list[q.JobRow]:
    return _job_rows(await connection.fetch(GET_JOBS, uuids(set(query.ids))))


def _job_rows(found: list[Any]) -> list[q.JobRow]:
    return [q.JobRow(rows.job(tuple(row)), row[rows.JOB_WIDTH], row[rows.JOB_WIDTH + 1]) for row in found]


async def _list_jobs(connection: Connection, query: q.ListJobs, clock: Clock | None) -> list[q.JobRow]:
    page = PagedSelect(_JOB_ROWS)
    if query.account_id is not None:
        page.where("j.account_id = {}", query.account_id)
    if query.statuses:
        page.where("coalesce(l.status, j.status) = ANY ({}::text[])", list(query.statuses))
        if set(query.statuses) <= ACTIVE:
            # Says nothing new, but lets the list start from the few jobs that are active.
            held = "SELECT job_id FROM leases"
            waiting = " UNION ALL SELECT job_id FROM ready UNION ALL SELECT job_id FROM parked"
            page.where(f"j.id IN ({held}{waiting if 'queued' in query.statuses else ''})")
    for column, value in (("tool", query.tool), ("pool", query.pool), ("session", query.session)):
        if value is not None:
            page.where(f"j.{column} = {{}}", value)
    if query.batch_id is not None:
        page.where("j.batch_id = {}::uuid", uuid_in(query.batch_id))
    if query.dead:
        page.where("j.dead_at IS NOT NULL")
    if query.stuck_before_at is not None:
        page.where(f"l.heartbeat_at < {at('{}::bigint')}", query.stuck_before_at)
    if query.before is not None:
        page.where("j.id < {}::uuid", query.before)
    return _job_rows(await connection.fetch(page.text("j.id DESC", query.limit), *page.values))


async def _get_account(connection: Connection, query: q.GetAccount, clock: Clock | None) -> Account | None:
    row = await connection.fetchrow(GET_ACCOUNT, query.account_id)
    return None if row is None else Account(*row)


async def _list_accounts(connection: Connection, query: q.ListAccounts, clock: Clock | None) -> list[Account]:
    page = PagedSelect(f"SELECT {ACCOUNTS.selected('a')} FROM accounts a")
    if query.after is not None:
        page.where("a.id > {}", query.after)
    return [Account(*row) for row in await connection.fetch(page.text("a.id", query.limit), *page.values)]


async def _list_entries(connection: Connection, query: q.ListEntries, clock: Clock | None) -> list[Entry]:
    page = PagedSelect(f"SELECT {ENTRIES.selected('e')} FROM entries e")
    page.where("e.account_id = {}", query.account_id)
    if query.before is not None:
        page.where("e.number < {}", query.before)
    return [Entry(*row) for row in await connection.fetch(page.text("e.number DESC", query.limit), *page.values)]


async def _list_steps(connection: Connection, query: q.ListSteps, clock: Clock | None) -> list[Step]:
    return [Step(*row) for row in await connection.fetch(LIST_STEPS, uuid_in(query.job_id))]


async def _list_reservations(
    connection: Connection, query: q.ListReservations, clock: Clock | None
) -> list[Reservation]:
    page = PagedSelect(f"SELECT {RESERVATIONS.selected('v')} FROM reservations v")
    if query.account_id is not None:
        page.where("v.account_id = {}", query.account_id)
    if query.before is not None:
        page.where("v.id < {}::uuid", query.before)
    return [Reservation(*row) for row in await connection.fetch(page.text("v.id DESC", query.limit), *page.values)]


async def _list_keys(connection: Connection, query: q.ListKeys, clock: Clock | None) -> list[Key]:
    page = PagedSelect(f"SELECT {KEYS.selected('k')} FROM keys k")
    if query.account_id is not None:
        page.where("k.account_id = {}", query.account_id)
    if query.after is not None:
        page.where("(k.account_id, k.key, k.scope) > ({}, {}, {})", *query.after)
    found = await connection.fetch(page.text("k.account_id, k.key, k.scope", query.limit), *page.values)
    return [Key(*row) for row in found]


async def _get_batch(connection: Connection, query: q.GetBatch, clock: Clock | None) -> q.BatchCounts | None:
    async with transaction(connection, BEGIN_READING):
        row = await connection.fetchrow(GET_BATCH, uuid_in(query.batch_id))
        if row is None:
            return None
        counts = await connection.fetch(COUNT_BATCH, uuid_in(query.batch_id))
        return q.BatchCounts(Batch(*row), {status: count for status, count in counts})


async def _list_pools(connection: Connection, query: q.ListPools, clock: Clock | None) -> list[q.PoolCounts]:
    found = await connection.fetch(LIST_POOLS, query.count_ready)
    return [q.PoolCounts(Pool(*pool), occupied, ready) for *pool, occupied, ready in found]


async def _list_workers(connection: Connection, query: q.ListWorkers, clock: Clock | None) -> q.WorkerList:
    async with transaction(connection, BEGIN_READING):
        now = await database_now(connection, clock)
        stuck_at = now - query.stuck_ms * MILLISECOND
        found = await connection.fetch(LIST_WORKERS, query.after, query.limit, stuck_at)
    workers = [
        q.WorkerCounts(
            name,
            None if worker[0] is None else rows.worker(*worker),
            tuple(Tally(name, *counts) for counts in zip(kinds or (), runs or (), busy_us or (), strict=True)),
            running,
            stuck,
        )
        for name, kinds, runs, busy_us, running, stuck, *worker in found
    ]
    return q.WorkerList(now, workers)


async def _get_waiting(connection: Connection, query: q.GetWaiting, clock: Clock | None) -> q.Waiting:
    begin = "; ".join((BEGIN_READING, *(f"SET LOCAL {way} = off" for way in NOT_FOR_WAITING)))
    async with transaction(connection, begin):
        ready = await _lines(connection, WAITING_READY, query.page)
        return q.Waiting(ready, await _lines(connection, WAITING_PARKED, query.page))


async def _lines(connection: Connection, statement: str, page: int) -> Lines:
    lines, taken = Lines(), page
    while taken == page:
        columns = await connection.fetchrow(statement, *lines.last, page)
        assert columns is not None
        if columns[0] is None:
            break
        taken = lines.append(*columns)
    return lines


async def _get_due(connection: Connection, query: q.GetDue, clock: Clock | None) -> q.Due:
    now = None if clock is None else clock()
    due = q.Due(0, [], [], [])
    for kind, name, scope, key in await connection.fetch(DUE, now, query.stuck_ms, query.max_age_ms, query.limit):
        match kind:
            case "now":
                now = int(name)
            case "job":
                due.jobs.append(name)
            case "reservation":
                due.reservations.append(name)
            case "key":
                due.keys.append((name, scope, key))
    assert now is not None
    return replace(due, now=now)


async def database_now(connection: Connection, clock: Clock | None) -> int:
    return int(await connection.fetchval(NOW)) if clock is None else clock()


async def _get_stats(connection: Connection, query: q.GetStats, clock: Clock | None) -> q.Stats:
    by_status: Counter[Status] = Counter()
    by_checkpoint: Counter[str] = Counter()
    stuck = 0
    async with transaction(connection, BEGIN_READING):
        stuck_at = await database_now(connection, clock) - query.stuck_ms * MILLISECOND
        held = await connection.fetch(STATS_HELD, stuck_at)
        counts = await connection.fetchrow(STATS_COUNTS)
        avg_run_s = await connection.fetchval(STATS_RUNS, await commit_reads.lately_completed(connection))
    assert counts is not None
    queued, dead = counts
    for status, checkpoint, jobs, silent in held:
        by_status[status] += jobs
        by_checkpoint[checkpoint] += jobs
        stuck += silent
    if queued:
        by_status["queued"] = queued
    return q.Stats(dict(by_status), dict(by_checkpoint), stuck, dead, avg_run_s)


async def _get_snapshot(connection: Connection, query: q.GetSnapshot, clock: Clock | None) -> Snapshot:
    async with transaction(connection, BEGIN_READING):
        return await view(connection, query.needs, clock)


async def _get_state(connection: Connection, query: q.GetState, clock: Clock | None) -> State:
    async with transaction(connection, BEGIN_READING):
        return await full_state.state(connection, query)


_ANSWERS: Final[dict[type[q.Query[Any]], Callable[[Connection, Any, Clock | None], Awaitable[Any]]]] = {
    q.GetJobs: _get_jobs,
    q.ListJobs: _list_jobs,
    q.GetAccount: _get_account,
    q.ListAccounts: _list_accounts,
    q.ListEntries: _list_entries,
    q.GetHistory: commit_reads.get_history,
    q.ListCommits: commit_reads.list_commits,
    q.GetFirstSearched: commit_reads.get_first_searched,
    q.GetHorizon: commit_reads.get_horizon,
    q.ListSteps: _list_steps,
    q.ListReservations: _list_reservations,
    q.ListKeys: _list_keys,
    q.GetBatch: _get_batch,
    q.ListPools: _list_pools,
    q.ListWorkers: _list_workers,
    q.GetWaiting: _get_waiting,
    q.GetDue: _get_due,
    q.GetStats: _get_stats,
    q.GetApiKey: api_key_reads.get_api_key,
    q.ListApiKeys: api_key_reads.list_api_keys,
    q.ListAudit: api_key_reads.list_audit,
    q.GetSnapshot: _get_snapshot,
    q.GetState: _get_state,
}
