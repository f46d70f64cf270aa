"""Writes the changes of a group: one statement per kind of row, run for all its rows. It computes no values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import apsw

from ...core.snapshot import Changes
from ..sql import jobs as j
from ..sql import tables as t
from ..sql.tables import Table, Values
from .dialect import delete, insert, update, upsert
from .keyed_rows import write_keyed

Write = tuple[str, Callable[[Any], Values]]


def _by(statement: Callable[[Table], str], table: Table, tail: str = "") -> Write:
    return statement(table) + tail, table.values


def _gone(table: Table) -> Write:
    return delete(table), lambda key: (key,)


ACCOUNT_CHANGED: Final = _by(update, t.ACCOUNTS)
ACCOUNT_NEW: Final = _by(insert, t.ACCOUNTS, " ON CONFLICT DO NOTHING")
# A key that is there already has expired: the new one takes its place. An upsert would take half as long again.
KEY: Final = insert(t.KEYS, "REPLACE"), t.KEYS.values
BORN: Final = _by(insert, j.JOBS)
ENDED: Final = _by(update, j.JOB_ENDS)
AMENDED: Final = _by(update, j.JOB_AMENDS)
REMOVED: Final = _by(update, j.JOB_REMOVALS)
EMPTIED: Final = _by(update, j.JOB_PAYLOADS)
FORGOTTEN: Final = tuple(_gone(table) for table in j.JOB_TABLES)
CHECKPOINT: Final = _by(upsert, j.CHECKPOINTS)
# A job has at most one hot row, so the old one is deleted before the new one is inserted.
PLACES: Final = {
    f"{table.name}_{what}": made(table)
    for what, made in (("gone", _gone), ("new", partial(_by, insert)), ("changed", partial(_by, update)))
    for table in (j.READY, j.PARKED, j.LEASES)
}
OTHERS: Final = {
    "entries": _by(insert, t.ENTRIES),
    "keys": KEY,
    "forgotten_keys": (delete(t.KEYS), tuple),
    # The first stored result of a step is kept.
    "steps": _by(insert, t.STEPS, " ON CONFLICT (job_id, name) DO NOTHING"),
    "reservations": _by(upsert, t.RESERVATIONS),
    "forgotten_reservations": _gone(t.RESERVATIONS),
    # Jobs added to a batch later do not change the batch's row.
    "batches": _by(insert, t.BATCHES, " ON CONFLICT (id) DO NOTHING"),
    "pools": _by(upsert, t.POOLS),
    "contents": _by(upsert, t.CONTENTS),
    "begun_contents": _by(insert, t.CONTENTS),
    "forgotten_contents": (delete(t.CONTENTS), tuple),
    "workers": _by(upsert, t.WORKERS),
    "tallies": _by(
        insert,
        t.TALLIES,
        " ON CONFLICT (worker, kind) DO UPDATE SET runs = runs + excluded.runs, busy_us = busy_us + excluded.busy_us",
    ),
    "history": _by(insert, t.EVENTS),
    "api_keys": _by(upsert, t.API_KEYS),
    "api_key_uses": _by(upsert, t.API_KEY_USES),
    "audit": _by(insert, t.AUDIT),
    "hooks": _by(upsert, t.HOOKS),
    "ended_hooks": (delete(t.HOOKS), tuple),
    "forgotten_steps": _gone(t.JOB_STEPS),
    "forgotten_batches": _gone(t.BATCHES),
    "emptied_entries": ("UPDATE entries SET reason = NULL WHERE account_id = ? AND number = ?", tuple),
    "emptied_audit": ("UPDATE audit SET words = NULL WHERE account_id = ? AND number = ?", tuple),
    "emptied_events": ("UPDATE events SET data = NULL WHERE job_id = ? AND kind = ?", tuple),
}
"""The other fields of `Changes`, in the order in which they are written."""


def write(db: apsw.Connection, changes: Changes) -> None:
    """Writes the changes, inside the caller's transaction."""
    _write_accounts(db, changes.accounts)
    if changes.jobs:
        rows, payloads, results = j.job_rows(changes.jobs, changes.forgotten_jobs), changes.payloads, changes.results
        _write(db, BORN, [(job, payloads[job.id], results.get(job.id)) for job in rows.born])
        _write(db, ENDED, [(job, results.get(job.id)) for job in rows.ended])
        _write(db, AMENDED, rows.amended)
        _write(db, REMOVED, [(job, payloads[job.id], results[job.id]) for job in rows.removed])
        _write(db, EMPTIED, [(job, payloads[job.id]) for job in rows.emptied])
        _write(db, CHECKPOINT, rows.checkpoints)
        for name, statement in PLACES.items():
            _write(db, statement, rows.places.get(name, ()))
    for name, statement in OTHERS.items():
        _write(db, statement, getattr(changes, name))
    for statement in FORGOTTEN:
        _write(db, statement, changes.forgotten_jobs)
    write_keyed(db, changes)


def _write_accounts(db: apsw.Connection, accounts: Sequence[Any]) -> None:
    """Updates the accounts, of which most exist already, then inserts the others. A REPLACE would take as long as the
    update, and would empty columns that a newer release has added."""
    before = db.total_changes()
    _write(db, ACCOUNT_CHANGED, accounts)
    if db.total_changes() - before < len(accounts):
        _write(db, ACCOUNT_NEW, accounts)


def _write(db: apsw.Connection, statement: Write, records: Sequence[Any]) -> None:
    # Most groups have no rows of most kinds, and running a statement for no rows has a cost too.
    if records:
        text, values = statement
        db.executemany(text, map(values, records))
