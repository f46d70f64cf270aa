"""Writes what a batch changed: one statement, put together from the parts that the batch has rows for (`parts.py`).

All parts see the rows as they were before it, which is why no part may touch a row that another one writes: `job_rows`
sorts hot rows so. Nothing here looks at what a value means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import astuple

from ...core.records import Event
from ...core.snapshot import Changes, PlaceRows, Snapshot, job_rows
from ..commits import commit_texts
from . import tables as t
from . import write_ctes as p
from .sql_types import literal
from .write_ctes import Condition, WritePart, statement


class Executor(Protocol):
    """What is needed of a connection; a caller's own may be a pool's proxy."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


Filled = tuple[WritePart, Sequence[tuple[Any, ...]], tuple[Sequence[Any], ...]]
"""A part, its rows, and the columns whose values are not in the records."""


class Rows:
    """The parts of one batch with their rows."""

    def __init__(self) -> None:
        self.filled: list[Filled] = []
        self.is_single = True
        """Whether each part has one row. A job may have several lines in its history, and a commit several rows."""

    def add(self, part: WritePart, records: Sequence[Any], *beside: Sequence[Any]) -> None:
        """`beside` are the last columns, where their values are not in the records."""
        self.filled.append((part, [*map(part.row, records)], beside))
        if len(records) != 1 and part is not p.EVENTS and part is not p.COMMITS:
            self.is_single = False

    def singles(self) -> tuple[list[WritePart], list[Any]]:
        """The parts as they are written, and their values: of one row each, and so row by row."""
        parts: list[WritePart] = []
        values: list[Any] = []
        travelling: Sequence[Any]
        for part, rows, beside in self.filled:
            if len(rows) == 1:
                row = (*rows[0], *[column[0] for column in beside]) if beside else rows[0]
                written, travelling = part.filled_one(row)
            else:
                written, travelling = _columned(part, rows, beside)
                written = p.several(written)
            parts.append(written)
            values += travelling
        return parts, values

    def many(self) -> tuple[list[WritePart], list[Any]]:
        """The parts as they are written, and their values, column by column."""
        parts: list[WritePart] = []
        values: list[Any] = []
        for part, rows, beside in self.filled:
            written, travelling = _columned(part, rows, beside)
            parts.append(written)
            values += travelling
        return parts, values


def _columned(
    part: WritePart, rows: Sequence[tuple[Any, ...]], beside: tuple[Sequence[Any], ...]
) -> tuple[WritePart, list[Any]]:
    written, columns = part.filled((*zip(*rows, strict=True), *beside))
    # What all rows share comes last, and once.
    values: list[Any] = [literal(column.kind, given) for column, given in zip(written.columns, columns, strict=False)]
    values += [given[0] for given in columns[len(written.columns) :]]
    if written.is_counted:
        values.append(len(rows))
    return written, values


class Written(Struct, frozen=True):
    """The version that all rows written by a batch have, and the seats of the accounts among them."""

    version: str
    seats: dict[str, str]


class Guard:
    """What must still be so for a batch to be written, and where the accounts lie that it was decided on."""

    def __init__(self, seats: Mapping[str, str]) -> None:
        self.seats = seats
        self.conditions: list[Condition] = []
        self.is_single = True
        """Whether each condition is asked of one row."""
        self._rows: list[Sequence[tuple[Any, ...]]] = []

    def ask(self, condition: Condition, rows: Sequence[tuple[Any, ...]]) -> None:
        self.conditions.append(condition)
        self._rows.append(rows)
        if len(rows) != 1:
            self.is_single = False

    def values(self, *, is_single: bool) -> list[Any]:
        """The first parameters of the statement."""
        found: list[Any] = []
        for condition, rows in zip(self.conditions, self._rows, strict=True):
            if is_single:
                found += rows[0]
                continue
            columns = zip(*rows, strict=True)
            found += [literal(column.kind, given) for column, given in zip(condition.columns, columns, strict=True)]
            if condition.is_counted:
                found.append(len(rows))
        return found


_ID: Final = attrgetter("id")
_NAME: Final = attrgetter("name")
_KEY: Final = attrgetter(*t.KEYS.key)
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
    if marker is not None or changes.events:
        rows.add(p.COMMITS, _commit_rows(marker, snapshot.now, changes.events))
    if not rows.filled:
        return None
    is_single = rows.is_single and guard.is_single
    parts, values = rows.singles() if is_single else rows.many()
    text = statement(tuple(parts), tuple(guard.conditions), is_single=is_single, is_told=bool(hints))
    beside = (hints,) if hints else ()
    found = await connection.fetch(text, *guard.values(is_single=is_single), *values, *beside)
    if not found:
        return None
    version, seats, *_ = found[0]
    return Written(version, dict(seats))


def _commit_rows(marker: tuple[str, int] | None, now: int, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """What the commit tells; the first row marks it."""
    (size, text), *more = commit_texts(events)
    first = (*(marker or (None, None)), now, size, text)
    return [first, *((None, None, now, size, text) for size, text in more)]


def sorted_rows(snapshot: Snapshot, changes: Changes, seats: Mapping[str, str]) -> Rows:
    """Changes by table; accounts by their seats, where these are known.

    A record that the snapshot did not have is inserted and never overwrites: should another batch have made it since,
    the statement fails and the batch is decided again. Rows that no lock orders are written in key order.
    """
    rows = Rows()
    if changes.accounts:
        _add_accounts(rows, snapshot, changes, seats)
    if changes.jobs:
        _add_jobs(rows, changes)
    if changes.steps:
        rows.add(p.STEPS, changes.steps)
    if changes.keys:
        _add_split(rows, p.KEYS_NEW, p.KEYS_CHANGED, snapshot.keys, changes.keys, _KEY)
    if changes.forgotten_keys:
        rows.add(p.KEYS_FORGOTTEN, changes.forgotten_keys)
    if changes.reservations:
        known = snapshot.reservations
        _add_split(rows, p.RESERVATIONS_NEW, p.RESERVATIONS_CHANGED, known, changes.reservations, _ID)
    if changes.batches:
        rows.add(p.BATCHES, sorted(changes.batches, key=_ID))
    if changes.pools:
        _add_split(rows, p.POOLS_NEW, p.POOLS_CHANGED, snapshot.pools, changes.pools, _NAME)
    if changes.contents:
        # The last one of a content stands; a statement may write a row only once.
        contents = {(content.tool, content.content_hash): content for content in changes.contents}
        rows.add(p.CONTENTS, [contents[key] for key in sorted(contents)])
    if changes.leaders:
        _add_split(rows, p.LEADERS_NEW, p.LEADERS_CHANGED, snapshot.leaders, changes.leaders, _NAME)
    if changes.workers:
        rows.add(p.WORKERS, sorted(changes.workers, key=_NAME))
    if changes.tallies:
        rows.add(p.TALLIES, changes.tallies)
    if changes.entries:
        rows.add(p.ENTRIES, changes.entries)
    if changes.history:
        rows.add(p.EVENTS, changes.history)
    if changes.api_keys:
        _add_split(rows, p.API_KEYS_NEW, p.API_KEYS_CHANGED, snapshot.api_keys, changes.api_keys, _ID)
    if changes.api_key_uses:
        rows.add(p.API_KEY_USES, sorted(changes.api_key_uses, key=attrgetter("key_id")))
    if changes.audit:
        rows.add(p.AUDIT, changes.audit)
    return rows


def _add_accounts(rows: Rows, snapshot: Snapshot, changes: Changes, seats: Mapping[str, str]) -> None:
    accounts = changes.accounts
    if len(accounts) > 1:
        accounts = sorted(accounts, key=_ID)
    if seated := [account for account in accounts if account.id in seats]:
        rows.add(p.ACCOUNTS_SEATED, seated, [seats[account.id] for account in seated])
    if len(seated) == len(accounts):
        return
    if opened := [account for account in accounts if snapshot.accounts.get(account.id) is None]:
        rows.add(p.ACCOUNT_IDS, opened)
    others = [account for account in accounts if account.id not in seats]
    _add_split(rows, p.ACCOUNTS_NEW, p.ACCOUNTS_CHANGED, snapshot.accounts, others, _ID)


def _add_split(
    rows: Rows,
    new: WritePart,
    changed: WritePart,
    known: Mapping[Any, Any],
    records: list[Any],
    key: Callable[[Any], Any],
) -> None:
    if len(records) > 1:
        records = sorted(records, key=key)
    if made := [record for record in records if known.get(key(record)) is None]:
        rows.add(new, made)
    if len(made) < len(records):
        rows.add(changed, [record for record in records if known.get(key(record)) is not None])


_PLACES: Final = tuple(getattr(p, name.upper()) for name in PlaceRows.__struct_fields__)


def _add_jobs(rows: Rows, changes: Changes) -> None:
    jobs = job_rows(changes.jobs)
    results = changes.results
    if born := jobs.born:
        payloads = changes.payloads
        texts = [results.get(job.id) for job in born] if results else [None] * len(born)
        rows.add(p.BORN, born, [payloads[job.id] for job in born], texts)
    if ended := jobs.ended:
        rows.add(p.ENDED, ended, [results.get(job.id) for job in ended])
    if jobs.amended:
        rows.add(p.AMENDED, jobs.amended)
    for part, moved in zip(_PLACES, astuple(jobs.places), strict=True):
        if moved:
            rows.add(part, moved)
    if jobs.checkpoints:
        rows.add(p.CHECKPOINTS, jobs.checkpoints)
