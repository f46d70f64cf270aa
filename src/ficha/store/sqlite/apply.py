"""Writes the changes of a batch: one statement per kind of row, run over all its rows. No value is made up here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apsw
from msgspec.structs import astuple

from ...core.records import (
    Account,
    ApiKey,
    ApiKeyUse,
    Batch,
    Entry,
    Key,
    Leader,
    Pool,
    Reservation,
    Step,
    Tally,
    Worker,
)
from ...core.snapshot import Changes, JobRows, job_rows
from . import rows
from .rows import Row, insert, update, upsert

# Accounts and keys are written whole, and nothing hangs on their rows: an upsert would take half as long again.
ACCOUNT = insert("accounts", Account.__struct_fields__, "REPLACE")
JOB = insert("jobs", rows.JOB_COLUMNS)
JOB_END = update("jobs", ("id", *rows.END_COLUMNS), rows.END_COLUMNS)
JOB_AMENDED = "UPDATE jobs SET dead_at = ?2, events = ?3 WHERE id = ?1"
CHECKPOINT = upsert("checkpoints", rows.CHECKPOINT_COLUMNS, ["job_id"])

READY = insert("ready", rows.READY_COLUMNS)
READY_CHANGED = update("ready", rows.READY_COLUMNS, ("rank", "ages_at", *rows.HOT_COLUMNS))
READY_GONE = "DELETE FROM ready WHERE job_id = ?"
PARKED = insert("parked", rows.PARKED_COLUMNS)
PARKED_CHANGED = update("parked", rows.PARKED_COLUMNS, ("rank", "due_at", *rows.HOT_COLUMNS))
PARKED_GONE = "DELETE FROM parked WHERE job_id = ?"
LEASE = insert("leases", rows.LEASE_COLUMNS)
LEASE_CHANGED = update("leases", rows.LEASE_COLUMNS, rows.LEASE_COLUMNS[3:])
LEASE_GONE = "DELETE FROM leases WHERE job_id = ?"

ENTRY = insert("entries", Entry.__struct_fields__)
# The first stored result of a step stands.
STEP = f"{insert('steps', Step.__struct_fields__)} ON CONFLICT (job_id, name) DO NOTHING"
KEY = insert("keys", Key.__struct_fields__, "REPLACE")
KEY_GONE = "DELETE FROM keys WHERE account_id = ? AND scope = ? AND key = ?"
RESERVATION = upsert("reservations", Reservation.__struct_fields__, ["id"])
# Jobs that are added to a batch later leave it as it was first submitted.
BATCH = f"{insert('batches', Batch.__struct_fields__)} ON CONFLICT (id) DO NOTHING"
POOL = upsert("pools", Pool.__struct_fields__, ["name"])
CONTENT = upsert("contents", ("tool", "content_hash", "job_id"), ["tool", "content_hash"])
LEADER = upsert("leaders", Leader.__struct_fields__, ["name"])
WORKER = upsert("workers", Worker.__struct_fields__, ["name"])
TALLY = (
    f"{insert('worker_counts', Tally.__struct_fields__)} ON CONFLICT (worker, kind) "
    "DO UPDATE SET runs = runs + excluded.runs, busy_us = busy_us + excluded.busy_us"
)
EVENT = insert("events", rows.EVENT_COLUMNS)
API_KEY = upsert("api_keys", ApiKey.__struct_fields__, ["id"])
API_KEY_USE = upsert("api_key_uses", ApiKeyUse.__struct_fields__, ["key_id"])
AUDIT = insert("audit", rows.AUDIT_COLUMNS)


def apply(db: apsw.Connection, changes: Changes) -> None:
    """Writes the changes, inside the caller's transaction."""
    _write(db, ACCOUNT, astuple, changes.accounts)
    if changes.jobs:
        _write_jobs(db, changes, job_rows(changes.jobs))
    _write(db, ENTRY, astuple, changes.entries)
    _write(db, KEY, astuple, changes.keys)
    _write(db, KEY_GONE, tuple, changes.forgotten_keys)
    _write(db, STEP, astuple, changes.steps)
    _write(db, RESERVATION, astuple, changes.reservations)
    _write(db, BATCH, astuple, changes.batches)
    _write(db, POOL, astuple, changes.pools)
    _write(db, CONTENT, rows.content_values, changes.contents)
    _write(db, LEADER, astuple, changes.leaders)
    _write(db, WORKER, rows.worker_values, changes.workers)
    _write(db, TALLY, astuple, changes.tallies)
    _write(db, EVENT, rows.event_values, changes.history)
    _write(db, API_KEY, astuple, changes.api_keys)
    _write(db, API_KEY_USE, astuple, changes.api_key_uses)
    _write(db, AUDIT, rows.audit_values, changes.audit)


def _write(db: apsw.Connection, statement: str, values: Callable[[Any], Row], records: Sequence[Any]) -> None:
    # Most batches have no rows of most kinds, and a statement costs something even if it is run for none.
    if records:
        db.executemany(statement, map(values, records))


def _write_jobs(db: apsw.Connection, changes: Changes, jobs: JobRows) -> None:
    payloads, results, places = changes.payloads, changes.results, jobs.places
    _write(db, JOB, lambda job: rows.job_values(job, payloads[job.id], results.get(job.id)), jobs.born)
    _write(db, JOB_END, lambda job: rows.end_values(job, results.get(job.id)), jobs.ended)
    _write(db, JOB_AMENDED, lambda job: (job.id, job.dead_at, job.events), jobs.amended)
    _write(db, CHECKPOINT, rows.checkpoint_values, jobs.checkpoints)
    # A job has one narrow row at most, so it leaves its old table before it enters the new one.
    _write(db, READY_GONE, _single, places.ready_gone)
    _write(db, PARKED_GONE, _single, places.parked_gone)
    _write(db, LEASE_GONE, _single, places.leases_gone)
    _write(db, READY, rows.ready_values, places.ready_new)
    _write(db, READY_CHANGED, rows.ready_values, places.ready_changed)
    _write(db, PARKED, rows.parked_values, places.parked_new)
    _write(db, PARKED_CHANGED, rows.parked_values, places.parked_changed)
    _write(db, LEASE, rows.lease_values, places.leases_new)
    _write(db, LEASE_CHANGED, rows.lease_values, places.leases_changed)


def _single(value: str) -> Row:
    return (value,)
