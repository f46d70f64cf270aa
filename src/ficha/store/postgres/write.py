"""Writes what a group changed: one statement, built from the parts that it has rows for (`parts.py`)."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Final

from ...core.snapshot import Changes, Snapshot
from ..commits import commit_rows
from ..sql import jobs as j
from ..sql import tables as t
from ..sql.tables import Table
from .dialect import Fetcher, Layout
from .keyed_rows import KEYED_PARTS, filled_keyed
from .listener import CHANNEL
from .parts import WAYS, Filled, Part, delete, insert, split, update, upsert

_ACCOUNT_IDS: Final = Table("account_ids", ("id",), t.ACCOUNTS.columns[:1], lambda account: (account.id,))
ACCOUNT_IDS: Final = insert("account_ids_new", _ACCOUNT_IDS)
# A record that did not exist when the group was decided is inserted and never overwrites. If another transaction has
# inserted it since, the statement fails and the group is decided again.
NEW_OR_CHANGED: Final = {
    table.name: (insert(f"{table.name}_new", table), update(f"{table.name}_changed", table))
    for table in (t.ACCOUNTS, t.KEYS, t.RESERVATIONS, t.POOLS, t.API_KEYS)
}
BORN: Final = insert("born", j.JOBS)
ENDED: Final = update("ended", j.JOB_ENDS)
AMENDED: Final = update("amended", j.JOB_AMENDS)
REMOVED: Final = update("removed", j.JOB_REMOVALS)
EMPTIED: Final = update("emptied", j.JOB_PAYLOADS)
FORGOTTEN: Final = tuple(delete(f"{table.name}_forgotten_job", table) for table in j.JOB_TABLES)
CHECKPOINTS: Final = upsert("checkpoints_saved", j.CHECKPOINTS)
PLACES: Final = {
    f"{table.name}_{what}": part(f"{table.name}_{what}", table)
    for table in (j.READY, j.PARKED, j.LEASES)
    for what, part in WAYS
}
# Rows that are not locked before are written in key order, each once, so that two transactions cannot deadlock.
BATCHES: Final = insert("batches_new", t.BATCHES, " ON CONFLICT (id) DO NOTHING")
UPSERTS: Final = {
    "contents": upsert("contents_known", t.CONTENTS),
    "workers": upsert("workers_seen", t.WORKERS),
    "api_key_uses": upsert("api_key_uses", t.API_KEY_USES),
    "hooks": upsert("hooks_owed", t.HOOKS),
}
OTHERS: Final = {
    "steps": insert("steps_saved", t.STEPS, " ON CONFLICT (job_id, name) DO NOTHING"),
    "forgotten_keys": delete("keys_forgotten", t.KEYS),
    "forgotten_reservations": delete("reservations_forgotten", t.RESERVATIONS),
    "begun_contents": insert("contents_begun", t.CONTENTS),
    "forgotten_contents": delete("contents_forgotten", t.CONTENTS),
    "tallies": insert("tallies", t.TALLIES),
    "entries": insert("entries_new", t.ENTRIES),
    "history": insert("events_new", t.EVENTS),
    "ended_hooks": delete("hooks_ended", t.HOOKS),
    "audit": insert("audit_new", t.AUDIT),
    "forgotten_steps": delete("steps_forgotten", t.JOB_STEPS),
    "emptied_events": update("events_emptied", t.NO_QUOTES),
    "forgotten_batches": delete("batches_forgotten", t.BATCHES),
    "emptied_entries": update("entries_emptied", t.NO_REASONS),
    "emptied_audit": update("audit_emptied", t.NO_WORDS),
}
COMMITS: Final = insert("commits_new", t.COMMITS)

SERVER: Final = "(SELECT '@' || extract(epoch FROM pg_postmaster_start_time()))"
"""The part of a version that names the server, by the time at which it was started. One running server has one history:
it never loses what it committed. A promoted standby, a restored back-up and a server that was started again are others,
on which the same transaction number can stand for other rows."""

PARTS: Final = (
    *(ACCOUNT_IDS, *(part for parts in NEW_OR_CHANGED.values() for part in parts)),
    *(BORN, ENDED, AMENDED, REMOVED, EMPTIED, *FORGOTTEN, *PLACES.values(), CHECKPOINTS, BATCHES),
    *(*UPSERTS.values(), *OTHERS.values()),
    *KEYED_PARTS,
    COMMITS,
)
"""All parts."""


async def write(
    connection: Fetcher,
    layout: Layout,
    snapshot: Snapshot,
    changes: Changes,
    marker: tuple[str, int] | None = None,
    hints: Sequence[str] = (),
) -> str:
    """Writes the changes, with the marker and hints if there are any; returns the version of all rows written."""
    filled = filled_parts(snapshot, changes, marker)
    text = statement(tuple(part for part, _ in filled), bool(hints))
    values = [part.rows(layout, records) for part, records in filled]
    [row] = await connection.fetch(text, *values, *([hints] if hints else []))
    return str(row[0])


@lru_cache(maxsize=1024)
def statement(parts: tuple[Part, ...], with_hints: bool) -> str:
    """The text for these parts. The same parts give the same text, so a connection has it prepared."""
    ctes = ", ".join(part.cte(number) for number, part in enumerate(parts, 1))
    return f"{f'WITH {ctes} ' if ctes else ''}SELECT {answer(len(parts) + 1 if with_hints else None)}"


def answer(hints: int | None) -> str:
    """Selects the version of all rows written, and sends the hints in the parameter with this number at the commit."""
    notified = f"(SELECT count(pg_notify('{CHANNEL}', hint)) FROM unnest(${hints}::text[]) AS w (hint))"
    return f"pg_current_xact_id()::xid::text || {SERVER}" + (f", {notified}" if hints else "")


def filled_parts(snapshot: Snapshot, changes: Changes, marker: tuple[str, int] | None) -> list[Filled]:
    """The parts that the changes need, with their records."""
    filled: list[Filled] = []
    if opened := [account for account in changes.accounts if snapshot.accounts.get(account.id) is None]:
        filled.append((ACCOUNT_IDS, opened))
    for name, (new, changed) in NEW_OR_CHANGED.items():
        if records := getattr(changes, name):
            filled += split(new, changed, getattr(snapshot, name), records)
    if changes.jobs:
        filled += _job_parts(changes)
    if changes.forgotten_jobs:
        filled += [(part, changes.forgotten_jobs) for part in FORGOTTEN]
    if changes.batches:
        filled.append((BATCHES, sorted(changes.batches, key=attrgetter("id"))))
    for name, part in UPSERTS.items():
        if records := getattr(changes, name):
            by_key = {attrgetter(*part.table.key)(record): record for record in records}
            filled.append((part, [by_key[key] for key in sorted(by_key)]))
    filled += [(part, records) for name, part in OTHERS.items() if (records := getattr(changes, name))]
    filled += filled_keyed(snapshot, changes)
    if marker is not None or changes.events or changes.figures:
        filled.append((COMMITS, commit_rows(marker, snapshot.now, changes)))
    return filled


def _job_parts(changes: Changes) -> list[Filled]:
    rows, payloads, results = j.job_rows(changes.jobs, changes.forgotten_jobs), changes.payloads, changes.results
    filled: list[Filled] = [
        (BORN, [(job, payloads[job.id], results.get(job.id)) for job in rows.born]),
        (ENDED, [(job, results.get(job.id)) for job in rows.ended]),
        (AMENDED, rows.amended),
        (REMOVED, [(job, payloads[job.id], results[job.id]) for job in rows.removed]),
        (EMPTIED, [(job, payloads[job.id]) for job in rows.emptied]),
        *((part, rows.places.get(name, ())) for name, part in PLACES.items()),
        (CHECKPOINTS, rows.checkpoints),
    ]
    return [(part, records) for part, records in filled if records]
