"""Writes what a batch changed: one statement, put together from the parts that the batch has rows for (`parts.py`).

All parts see the rows as they were before it, which is why no part may touch a row that another one writes: `job_rows`
sorts hot rows so. Nothing here looks at what a value means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from ...core.snapshot import Changes, Snapshot, job_rows
from . import columns as t
from . import parts as p
from .parts import Condition, Part, statement
from .values import literal


class Executor(Protocol):
    """What is needed of a connection; a caller's own may be a pool's proxy."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


What = TypeVar("What", Part, Condition)


class Filled(Generic[What]):
    """Parts or conditions, each with its columns of values."""

    def __init__(self) -> None:
        self.whats: list[What] = []
        self._columns: list[Sequence[Sequence[Any]]] = []

    def fill(self, what: What, columns: Sequence[Sequence[Any]]) -> None:
        self.whats.append(what)
        self._columns.append(columns)

    @property
    def is_single(self) -> bool:
        """Whether each has one row."""
        return all(len(columns[0]) == 1 for columns in self._columns)

    def values(self, *, is_single: bool) -> list[Any]:
        """The parameters of the statement."""
        if is_single:
            return [column[0] for columns in self._columns for column in columns]
        found: list[Any] = []
        for what, columns in zip(self.whats, self._columns, strict=True):
            # What all rows share comes last, and once.
            found += [literal(column.kind, values) for column, values in zip(what.columns, columns, strict=False)]
            found += [values[0] for values in columns[len(what.columns) :]]
            if what.is_counted:
                found.append(len(columns[0]))
        return found


class Rows(Filled[Part]):
    """The parts of one batch with their rows."""

    def add(self, part: Part, records: Sequence[Any], *beside: Sequence[Any]) -> None:
        """Adds a part if it has rows. `beside` are the last columns, where their values are not in the records."""
        if records:
            self.fill(*part.filled((*zip(*map(part.row, records), strict=True), *beside)))


class Written(Struct, frozen=True):
    """The version that all rows written by a batch have, and the seats of the accounts among them."""

    version: str
    seats: dict[str, str]


class Guard(Filled[Condition]):
    """What must still be so for a batch to be written, and where the accounts lie that it was decided on."""

    def __init__(self, seats: Mapping[str, str]) -> None:
        super().__init__()
        self.seats = seats


_NO_GUARD: Final = Guard({})


async def apply(
    connection: Executor,
    snapshot: Snapshot,
    changes: Changes,
    marker: tuple[str, int] | None = None,
    guard: Guard = _NO_GUARD,
    hints: Sequence[str] = (),
) -> Written | None:
    """Writes the changes, with the batch's marker and hints where there are any, if the guard lets it.

    Answers None if nothing was written.
    """
    rows = sorted_rows(snapshot, changes, guard.seats)
    if marker is not None:
        rows.add(p.MARKER, [(*marker, snapshot.now)])
        if marker[1] % p.MARKERS_KEPT == 0:
            rows.add(p.MARKERS_PASSED, [marker])
    if not rows.whats:
        return None
    is_single = rows.is_single and guard.is_single
    text = statement(tuple(rows.whats), tuple(guard.whats), is_single=is_single, is_told=bool(hints))
    values = [*guard.values(is_single=is_single), *rows.values(is_single=is_single)]
    found = await connection.fetch(text, *values, hints) if hints else await connection.fetch(text, *values)
    if not found:
        return None
    version, names, seats, *_ = found[0]
    return Written(version, dict(zip(names or (), seats or (), strict=True)))


def sorted_rows(snapshot: Snapshot, changes: Changes, seats: Mapping[str, str]) -> Rows:
    """Changes by table; accounts by their seats, where these are known.

    A record that the snapshot did not have is inserted and never overwrites: should another batch have made it since,
    the statement fails and the batch is decided again. Rows that no lock orders are written in key order.
    """
    rows = Rows()
    accounts = sorted(changes.accounts, key=attrgetter("id"))
    seated = [account for account in accounts if account.id in seats]
    rows.add(p.ACCOUNTS_SEATED, seated, [seats[account.id] for account in seated])
    rows.add(p.ACCOUNT_IDS, [account for account in accounts if snapshot.accounts.get(account.id) is None])
    others = [account for account in accounts if account.id not in seats]
    _add_split(rows, p.ACCOUNTS_NEW, p.ACCOUNTS_CHANGED, snapshot.accounts, others, t.ACCOUNTS.key)
    _add_jobs(rows, changes)
    rows.add(p.STEPS, changes.steps)
    _add_split(rows, p.KEYS_NEW, p.KEYS_CHANGED, snapshot.keys, changes.keys, t.KEYS.key)
    rows.add(p.KEYS_FORGOTTEN, changes.forgotten_keys)
    _add_split(
        rows,
        p.RESERVATIONS_NEW,
        p.RESERVATIONS_CHANGED,
        snapshot.reservations,
        changes.reservations,
        t.RESERVATIONS.key,
    )
    rows.add(p.BATCHES, sorted(changes.batches, key=lambda batch: batch.id))
    _add_split(rows, p.POOLS_NEW, p.POOLS_CHANGED, snapshot.pools, changes.pools, t.POOLS.key)
    # The last one of a content stands; a statement may write a row only once.
    contents = {(content.tool, content.content_hash): content for content in changes.contents}
    rows.add(p.CONTENTS, [contents[key] for key in sorted(contents)])
    _add_split(rows, p.LEADERS_NEW, p.LEADERS_CHANGED, snapshot.leaders, changes.leaders, t.LEADERS.key)
    rows.add(p.WORKERS, sorted(changes.workers, key=attrgetter("name")))
    rows.add(p.TALLIES, changes.tallies)
    rows.add(p.ENTRIES, changes.entries)
    rows.add(p.EVENTS, changes.events)
    _add_split(rows, p.API_KEYS_NEW, p.API_KEYS_CHANGED, snapshot.api_keys, changes.api_keys, t.API_KEYS.key)
    rows.add(p.API_KEY_USES, sorted(changes.api_key_uses, key=attrgetter("key_id")))
    rows.add(p.AUDIT, changes.audit)
    return rows


def _add_split(
    rows: Rows, new: Part, changed: Part, known: Mapping[Any, Any], records: list[Any], key: tuple[str, ...]
) -> None:
    if not records:
        return
    key_of = attrgetter(*key)
    ordered = sorted(records, key=key_of)
    rows.add(new, [record for record in ordered if known.get(key_of(record)) is None])
    rows.add(changed, [record for record in ordered if known.get(key_of(record)) is not None])


def _add_jobs(rows: Rows, changes: Changes) -> None:
    jobs = job_rows(changes.jobs)
    payloads, results = changes.payloads, changes.results
    rows.add(p.BORN, jobs.born, [payloads[job.id] for job in jobs.born], [results.get(job.id) for job in jobs.born])
    rows.add(p.ENDED, jobs.ended, [results.get(job.id) for job in jobs.ended])
    rows.add(p.RELISTED, jobs.relisted)
    places = jobs.places
    rows.add(p.READY_GONE, [(job_id,) for job_id in places.ready_gone])
    rows.add(p.READY_NEW, places.ready_new)
    rows.add(p.READY_CHANGED, places.ready_changed)
    rows.add(p.PARKED_GONE, [(job_id,) for job_id in places.parked_gone])
    rows.add(p.PARKED_NEW, places.parked_new)
    rows.add(p.PARKED_CHANGED, places.parked_changed)
    rows.add(p.LEASES_GONE, [(job_id,) for job_id in places.leases_gone])
    rows.add(p.LEASES_NEW, places.leases_new)
    rows.add(p.LEASES_CHANGED, places.leases_changed)
    rows.add(p.CHECKPOINTS, jobs.checkpoints)
