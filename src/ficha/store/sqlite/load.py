"""Reads what a group needs into a snapshot. The writer's transaction has the database's only write lock already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import apsw

from ...core.needs import PROMOTIONS_PER_SLOT, Needs
from ...core.records import Content, Job
from ...core.snapshot import Snapshot
from ...core.split_requests import PARTS_SEARCHED, has_parts
from ...core.suspects import LOST_RUNS_MOST
from ..account_rows import account_rows, row_counts
from ..schema_name import in_schema
from ..sql import tables as t
from ..sql.jobs import HOT_ROWS, JOB_WIDTH, job_columns, job_of
from ..sql.tables import Table
from .dialect import SQL
from .keyed_rows import load_keyed
from .row_cache import SqliteRowCache

# ruff: noqa: S608 (all that is put into these statements are names from this package)

JOBS = f"SELECT {job_columns(SQL)} FROM carray(?) k CROSS JOIN jobs j ON j.id = k.value {in_schema(HOT_ROWS, '')}"
PAYLOADS = "SELECT j.id, j.payload FROM carray(?) k CROSS JOIN jobs j ON j.id = k.value"
ACCOUNTS = f"SELECT {SQL.selected(t.ACCOUNTS, 'a')} FROM carray(?) k CROSS JOIN accounts a ON a.id = k.value"
KEYS = f"SELECT {SQL.selected(t.KEYS, 'k')} FROM keys k WHERE account_id = ? AND scope = ? AND key = ?"
STEPS = "SELECT job_id, name, result FROM steps WHERE job_id = ? AND name = ?"
RESERVATIONS_OF = (
    f"SELECT {SQL.selected(t.RESERVATIONS, 'v')} "
    "FROM carray(?) k CROSS JOIN reservations v ON v.account_id = k.value AND v.state = 'active'"
)
PARKED = "SELECT account_id, job_id FROM parked WHERE account_id = ? AND due_at IS NULL ORDER BY rank, job_id LIMIT ?"
OCCUPIED = "SELECT count(*) FROM leases WHERE pool = ?"
READY = (
    f"SELECT {job_columns(SQL, 'r')}, j.payload FROM ready r CROSS JOIN jobs j ON j.id = r.job_id "
    "LEFT JOIN checkpoints c ON c.job_id = r.job_id WHERE r.pool = ? AND r.recoveries <= ? "
    "ORDER BY r.rank, r.job_id LIMIT ?"
)
CONTENTS = (
    "SELECT c.tool, c.content_hash, c.job_id, j.result "
    "FROM contents c CROSS JOIN jobs j ON j.id = c.job_id WHERE c.tool = ? AND c.content_hash = ?"
)
HOOKS_OF = f"SELECT {SQL.selected(t.HOOKS, 'h')} FROM hooks h WHERE job_id = ?"
API_KEYS_OF = f"SELECT {SQL.selected(t.API_KEYS, 'k')} FROM api_keys k WHERE name = ? AND revoked_at IS NULL"
ROWS_OF = in_schema(f"SELECT {row_counts('k.value')} FROM carray(?) k", "")

NEWEST_PARTS = (
    "SELECT account_id, part_of, finished_at FROM jobs "
    f"WHERE account_id = ? AND part_of IS NOT NULL ORDER BY id DESC LIMIT {PARTS_SEARCHED}"
)

NAMED = {
    table.name: f"SELECT {SQL.selected(table, 't')} FROM {table.name} t WHERE {table.key[0]} = ?"
    for table in (t.RESERVATIONS, t.POOLS, t.BATCHES, t.API_KEYS)
}
"""Records by their key, for the field of the snapshot that has the table's name."""

T = TypeVar("T")

_ALL = -1  # SQLite takes a negative LIMIT for no limit.


def load(db: apsw.Connection, needs: Needs, now: int, remembered: SqliteRowCache) -> Snapshot:
    """Everything that `needs` names, as it is now. Cached rows are not read again."""
    snapshot = needs.nothing(now)
    named = _load_keys(db, needs, snapshot)
    _load_jobs(db, needs.jobs | needs.owned_jobs | named, snapshot, remembered)
    _load_named(db, needs, snapshot, t.RESERVATIONS)
    _load_accounts(db, needs, snapshot, remembered)
    holders = [key for key in needs.reservations_of if (found := snapshot.accounts.get(key)) and found.reserved]
    if holders:
        for row in db.execute(RESERVATIONS_OF, _array(holders)):
            snapshot.reservations_of[row[1]].append(t.RESERVATIONS.record(row))
    _load_parked(db, needs, snapshot, remembered)
    _load_payloads(db, needs, snapshot)
    if needs.steps:
        for job_id, name, result in db.executemany(STEPS, needs.steps):
            snapshot.steps[job_id, name] = result
    for table in (t.POOLS, t.BATCHES, t.API_KEYS):
        _load_named(db, needs, snapshot, table)
    load_keyed(db, needs, snapshot)
    if needs.api_keys_of:
        for row in db.executemany(API_KEYS_OF, _singles(needs.api_keys_of)):
            snapshot.api_keys_of[row[1]].append(t.API_KEYS.record(row))
    if needs.hooks_of:
        for row in db.executemany(HOOKS_OF, _singles(needs.hooks_of)):
            snapshot.hooks_of[row[1]].append(t.HOOKS.record(row))
    if needs.rows_of:
        snapshot.rows_of.update({row[0]: account_rows(row) for row in db.execute(ROWS_OF, _array(needs.rows_of))})
    if with_parts := [key for key in needs.parts_of if has_parts(snapshot.accounts[key])]:
        for account, request, finished_at in db.executemany(NEWEST_PARTS, _singles(with_parts)):
            if finished_at is None:
                parts = snapshot.parts_of[account]
                parts[request] = parts.get(request, 0) + 1
    _load_ready(db, needs, snapshot)
    if contents := [*needs.contents, *snapshot.add_contents()]:
        for row in db.executemany(CONTENTS, contents):
            snapshot.contents[row[0], row[1]] = Content(*row)
    return snapshot


def _load_named(db: apsw.Connection, needs: Needs, snapshot: Snapshot, table: Table) -> None:
    if wanted := getattr(needs, table.name):
        found = getattr(snapshot, table.name)
        for row in db.executemany(NAMED[table.name], _singles(wanted)):
            found[row[0]] = table.record(row)


def _array(values: Collection[str]) -> tuple[Any]:
    """Many values as a single parameter."""
    return (apsw.carray(tuple(values)),)


def _singles(values: Iterable[str]) -> list[tuple[str]]:
    return [(value,) for value in values]


def _load_keys(db: apsw.Connection, needs: Needs, snapshot: Snapshot) -> set[str]:
    """Loads the keys; returns the ids of the jobs that they led to."""
    if not needs.keys:
        return set()
    found = [*map(t.KEYS.record, db.executemany(KEYS, needs.keys))]
    snapshot.keys.update({(key.account_id, key.scope, key.key): key for key in found})
    return {key.job_id for key in found if key.job_id is not None}


def _load_jobs(db: apsw.Connection, ids: set[str], snapshot: Snapshot, remembered: SqliteRowCache) -> None:
    if unread := _recall(ids, remembered.jobs, snapshot.jobs):
        jobs = snapshot.jobs
        for row in db.execute(JOBS, _array(unread)):
            jobs[row[0]] = job_of(row)


def _recall(ids: Iterable[str], remembered: dict[str, T], found: dict[str, T | None]) -> list[str]:
    """Puts cached rows under their id, and None under every other id; returns those others, which must be read."""
    unread = []
    for key in ids:
        known = found[key] = remembered.get(key)
        if known is None:
            unread.append(key)
    return unread


def _load_accounts(db: apsw.Connection, needs: Needs, snapshot: Snapshot, remembered: SqliteRowCache) -> None:
    """Loads the accounts named, and those of the jobs and reservations named."""
    ids = set(needs.accounts)
    ids.update(job.account_id for job_id in needs.owned_jobs if (job := snapshot.jobs[job_id]) is not None)
    ids.update(held.account_id for held in snapshot.reservations.values() if held is not None)
    if unread := _recall(ids, remembered.accounts, snapshot.accounts):
        for row in db.execute(ACCOUNTS, _array(unread)):
            snapshot.accounts[row[0]] = t.ACCOUNTS.record(row)


def _load_parked(db: apsw.Connection, needs: Needs, snapshot: Snapshot, remembered: SqliteRowCache) -> None:
    """Loads the jobs that may be promoted. Accounts without parked jobs, which are most, cost nothing."""
    snapshot.parked.update({account: [] for account in snapshot.accounts})
    limits = Counter[str]()
    for job_id in needs.owned_jobs:
        job: Job | None = snapshot.jobs[job_id]
        if job is not None:
            limits[job.account_id] += PROMOTIONS_PER_SLOT
    limits.update(dict.fromkeys(needs.parked_of, 0))
    wanted = [
        (key, _ALL if key in needs.parked_of else limit)
        for key, limit in limits.items()
        if (account := snapshot.accounts[key]) is not None and account.parked
    ]
    if not wanted:
        return
    for account_id, job_id in db.executemany(PARKED, wanted):
        snapshot.parked[account_id].append(job_id)
    promotable = {job_id for ids in snapshot.parked.values() for job_id in ids}
    _load_jobs(db, promotable - snapshot.jobs.keys(), snapshot, remembered)


def _load_payloads(db: apsw.Connection, needs: Needs, snapshot: Snapshot) -> None:
    wanted = set(needs.payloads)
    if needs.ready:
        # A claim may take a job that this group promotes.
        wanted.update(*snapshot.parked.values())
    if wanted:
        snapshot.payloads = dict(db.execute(PAYLOADS, _array(wanted)))


def _load_ready(db: apsw.Connection, needs: Needs, snapshot: Snapshot) -> None:
    jobs, payloads = snapshot.jobs, snapshot.payloads
    for pool, limit in needs.ready.items():
        # Without a limit the count of running jobs is not needed, and it takes longer the more there are.
        known = snapshot.pools.get(pool)
        is_counted = known is not None and (known.limit is not None or pool in needs.changed_pools)
        if is_counted:
            snapshot.occupied[pool] = db.execute(OCCUPIED, (pool,)).get
        ready = snapshot.ready[pool]
        for row in db.execute(READY, (pool, LOST_RUNS_MOST if pool in needs.suspects else 0, limit)):
            job_id = row[0]
            ready.append(job_id)
            jobs[job_id] = job_of(row)
            payloads[job_id] = row[JOB_WIDTH]
