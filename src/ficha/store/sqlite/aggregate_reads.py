"""The read side's questions about many jobs at once: counts, who waits, what is due."""

from __future__ import annotations

import apsw
from msgspec import json

from ...core.policy import MILLISECOND, SECOND
from ...core.records import Batch, Status, Tally, Worker
from .. import base as q
from ..waiting_columns import Lines
from . import rows
from .commit_reads import lately_completed
from .rows import listed

# ruff: noqa: S608 (all that is put into these statements are names from this package)

BATCH = f"SELECT {listed(Batch.__struct_fields__)} FROM batches WHERE id = ?"
BATCH_COUNTS = (
    "SELECT coalesce(l.status, j.status) AS status_now, count(*) FROM jobs j LEFT JOIN leases l ON l.job_id = j.id "
    "WHERE j.batch_id = ? GROUP BY status_now"
)
POOLS = "SELECT name, slots, resized, paused FROM pools ORDER BY name"
POOL_OCCUPIED = "SELECT pool, count(*) FROM leases GROUP BY pool"
POOL_READY = "SELECT pool, count(*) FROM ready GROUP BY pool"
WORKER_NAMES = (
    "SELECT name FROM (SELECT name FROM workers UNION SELECT worker FROM worker_counts) WHERE name > ? "
    "ORDER BY name LIMIT ?"
)
WORKER = f"SELECT {listed(Worker.__struct_fields__)} FROM workers WHERE name = ?"
WORKER_TALLIES = f"SELECT {listed(Tally.__struct_fields__)} FROM worker_counts WHERE worker = ? ORDER BY kind"
WORKERS_HELD = (
    "SELECT worker, count(*), count(*) FILTER (WHERE heartbeat_at < ?) FROM leases WHERE worker IS NOT NULL "
    "GROUP BY worker"
)
# One page of lines as four columns, put together outside of Python, where nobody has to wait for it.
_WAITING = """
SELECT json_group_array(owner), json_group_array(jobs), group_concat(ranks, ''), group_concat(ids, '') FROM (
    SELECT
        owner, count(*) AS jobs,
        group_concat(printf('%016x', rank), '') AS ranks, group_concat(replace(job_id, '-', ''), '') AS ids
    FROM (
        SELECT {0} AS owner, rank, job_id FROM {1} AND ({0}, rank, job_id) > (?, ?, ?)
        ORDER BY {0}, rank, job_id LIMIT ?
    ) GROUP BY owner ORDER BY owner
)
"""
WAITING_READY = _WAITING.format("pool", "ready WHERE TRUE")
WAITING_PARKED = _WAITING.format("account_id", "parked WHERE due_at IS NULL")

_DUE_JOBS = (
    # The first four look at every lease; see the schema for why.
    "SELECT job_id FROM leases WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit",
    "SELECT job_id FROM leases WHERE deadline_at <= :now ORDER BY deadline_at LIMIT :limit",
    "SELECT job_id FROM leases WHERE heartbeat_at <= :stuck ORDER BY heartbeat_at LIMIT :limit",
    "SELECT job_id FROM leases WHERE started_at <= :old ORDER BY started_at LIMIT :limit",
    "SELECT job_id FROM parked WHERE due_at <= :now ORDER BY due_at LIMIT :limit",
    "SELECT job_id FROM parked WHERE wait_until_at <= :now AND started_at IS NULL ORDER BY wait_until_at LIMIT :limit",
    "SELECT job_id FROM ready WHERE wait_until_at <= :now AND started_at IS NULL ORDER BY wait_until_at LIMIT :limit",
    "SELECT job_id FROM ready WHERE ages_at <= :now ORDER BY ages_at LIMIT :limit",
)
_DUE_RESERVATIONS = (
    "SELECT id FROM reservations WHERE state = 'active' AND expires_at <= :now ORDER BY expires_at LIMIT :limit"
)
_DUE_KEYS = "SELECT account_id, scope, key FROM keys WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit"
# Asked every second, so it is one statement and needs no transaction. Each cause has its own limit.
DUE = " UNION ALL ".join(
    (
        *(f"SELECT 'job', job_id, NULL, NULL FROM ({part})" for part in _DUE_JOBS),
        f"SELECT 'reservation', id, NULL, NULL FROM ({_DUE_RESERVATIONS})",
        f"SELECT 'key', account_id, scope, key FROM ({_DUE_KEYS})",
    )
)

QUEUED = "SELECT (SELECT count(*) FROM ready) + (SELECT count(*) FROM parked)"
HELD = "SELECT status, count(*) FROM leases GROUP BY status"
HELD_BY_CHECKPOINT = (
    "SELECT coalesce(c.name, '') AS checkpoint, count(*) FROM leases l LEFT JOIN checkpoints c ON c.job_id = l.job_id "
    "GROUP BY checkpoint"
)
STUCK = "SELECT count(*) FROM leases WHERE heartbeat_at < ?"
DEAD = "SELECT count(*) FROM jobs WHERE dead_at IS NOT NULL"
RUN_TIME = "SELECT avg(j.finished_at - j.started_at) FROM carray(?) k CROSS JOIN jobs j ON j.id = k.value"


def get_batch(db: apsw.Connection, query: q.GetBatch, now: int) -> q.BatchCounts | None:
    row = db.execute(BATCH, (query.batch_id,)).fetchone()
    if row is None:
        return None
    return q.BatchCounts(Batch(*row), dict(db.execute(BATCH_COUNTS, (query.batch_id,))))


def list_pools(db: apsw.Connection, query: q.ListPools, now: int) -> list[q.PoolCounts]:
    occupied: dict[str, int] = dict(db.execute(POOL_OCCUPIED))
    ready: dict[str, int] = dict(db.execute(POOL_READY)) if query.count_ready else {}
    pools = map(rows.pool_of, db.execute(POOLS))
    return [q.PoolCounts(pool, occupied.get(pool.name, 0), ready.get(pool.name, 0)) for pool in pools]


def list_workers(db: apsw.Connection, query: q.ListWorkers, now: int) -> q.WorkerList:
    names = [name for (name,) in db.execute(WORKER_NAMES, (query.after or "", query.limit))]
    found = db.execute(WORKERS_HELD, (now - query.stuck_ms * MILLISECOND,))
    held = {name: (running, stuck) for name, running, stuck in found}
    return q.WorkerList(now, [_worker_counts(db, name, *held.get(name, (0, 0))) for name in names])


def _worker_counts(db: apsw.Connection, name: str, running: int, stuck: int) -> q.WorkerCounts:
    row = db.execute(WORKER, (name,)).fetchone()
    tallies = tuple(Tally(*found) for found in db.execute(WORKER_TALLIES, (name,)))
    return q.WorkerCounts(name, None if row is None else rows.worker_of(row), tallies, running, stuck)


def get_waiting(db: apsw.Connection, query: q.GetWaiting, now: int) -> q.Waiting:
    return q.Waiting(_lines(db, WAITING_READY, query.page), _lines(db, WAITING_PARKED, query.page))


def _lines(db: apsw.Connection, statement: str, page: int) -> Lines:
    lines, taken = Lines(), page
    while taken == page:
        [(owners, counts, ranks, ids)] = db.execute(statement, (*lines.last, page))
        if ranks is None:
            break
        taken = lines.append(json.decode(owners), json.decode(counts), bytes.fromhex(ranks), bytes.fromhex(ids))
    return lines


def get_due(db: apsw.Connection, query: q.GetDue, now: int) -> q.Due:
    values = {
        **{"now": now, "limit": query.limit},
        **{"stuck": now - query.stuck_ms * MILLISECOND, "old": now - query.max_age_ms * MILLISECOND},
    }
    found = list(db.execute(DUE, values))
    return q.Due(
        now,
        jobs=list(dict.fromkeys(name for kind, name, _, _ in found if kind == "job")),
        reservations=[name for kind, name, _, _ in found if kind == "reservation"],
        keys=[(account_id, scope, key) for kind, account_id, scope, key in found if kind == "key"],
    )


def get_stats(db: apsw.Connection, query: q.GetStats, now: int) -> q.Stats:
    by_status: dict[Status, int] = dict(db.execute(HELD))
    if queued := db.execute(QUEUED).get:
        by_status["queued"] = queued
    completed = lately_completed(db)
    run_time = db.execute(RUN_TIME, (apsw.carray(completed),)).get if completed else None
    return q.Stats(
        by_status=by_status,
        by_checkpoint=dict(db.execute(HELD_BY_CHECKPOINT)),
        stuck=db.execute(STUCK, (now - query.stuck_ms * MILLISECOND,)).get,
        dead=db.execute(DEAD).get,
        avg_run_s=None if run_time is None else run_time / SECOND,
    )
