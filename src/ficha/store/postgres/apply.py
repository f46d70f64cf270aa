"""Writes what a batch changed: one statement, put together from the parts that the batch has rows for.

Each part is a data-modifying CTE over `unnest`, so a batch of one and a batch of two hundred are the same statement.
All parts see the rows as they were before it, which is why no part may touch a row that another one writes: `job_rows`
sorts hot rows so. Nothing here looks at what a value means.

Under a guard, the same statement first locks the rows that the batch was decided on, waiting for none of them, and
writes only if each is there in the very version that was looked at: all parts, or none.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec import Struct, field

from ...core.snapshot import Changes, Snapshot, job_rows
from . import columns as t
from .columns import Column, Row, Table, instant, literal, written

CLOCK_SLACK_US: Final = 500_000
"""How far this process's idea of the database's clock may be off."""


class Executor(Protocol):
    """What is needed of a connection; a caller's own may be a pool's proxy."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


class Part(Struct, frozen=True):
    """One table's share of the statement; `{source}` in the text stands for the rows, `{guard}` for a condition."""

    name: str
    columns: tuple[Column, ...]
    row: Row
    text: str

    def source(self, first: int) -> str:
        """The rows as a set, their parameters numbered from `first`."""
        parameters = ", ".join(f"${n}::text::{column.parameter}" for n, column in enumerate(self.columns, first))
        return f"unnest({parameters}) AS v ({', '.join(column.name for column in self.columns)})"


def _insert(name: str, table: Table, tail: str = "") -> Part:
    names = ", ".join(column.name for column in table.columns)
    values = ", ".join(written(f"v.{column.name}", column.kind) for column in table.columns)
    return Part(
        name,
        table.columns,
        table.row,
        f"INSERT INTO {table.name} ({names}) SELECT {values} FROM {{source}} WHERE {{guard}}{tail}",
    )


def _upsert(name: str, table: Table) -> Part:
    changed = ", ".join(f"{c.name} = excluded.{c.name}" for c in table.columns if c.name not in table.key)
    return _insert(name, table, f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}")


def _update(name: str, table: Table, tail: str = "") -> Part:
    changed = ", ".join(
        f"{c.name} = {written(f'v.{c.name}', c.kind)}" for c in table.columns if c.name not in table.key
    )
    text = f"UPDATE {table.name} AS t SET {changed} FROM {{source}} WHERE {_same(table)}{tail}"
    return Part(name, table.columns, table.row, text)


def _delete(name: str, table: Table) -> Part:
    """The rows with these keys."""
    key = tuple(c for c in table.columns if c.name in table.key)
    return Part(name, key, tuple, f"DELETE FROM {table.name} AS t USING {{source}} WHERE {_same(table)}")


def _same(table: Table) -> str:
    return " AND ".join(f"t.{name} = v.{name}" for name in table.key) + " AND {guard}"


ACCOUNTS_NEW: Final = _insert("accounts_new", t.ACCOUNTS, " RETURNING id, ctid")
ACCOUNTS_CHANGED: Final = _update("accounts_changed", t.ACCOUNTS, " RETURNING t.id, t.ctid")
# Found by where they lie and not by their key: an account is written so often that, while a long transaction elsewhere
# keeps its old versions alive, a search by key would walk over all of them.
ACCOUNTS_SEATED: Final = _update(
    "accounts_seated",
    Table("accounts", ("ctid",), (*t.ACCOUNTS.columns, Column("ctid", "seat")), t.ACCOUNTS.row),
    " RETURNING t.id, t.ctid",
)
BORN: Final = _insert("born", t.JOBS)
ENDED: Final = _update("ended", t.JOB_ENDS)
RELISTED: Final = _update("relisted", t.DEAD_MARKS)
READY_GONE: Final = _delete("ready_gone", t.READY)
READY_NEW: Final = _insert("ready_new", t.READY)
READY_CHANGED: Final = _update("ready_changed", t.READY)
PARKED_GONE: Final = _delete("parked_gone", t.PARKED)
PARKED_NEW: Final = _insert("parked_new", t.PARKED)
PARKED_CHANGED: Final = _update("parked_changed", t.PARKED)
LEASES_GONE: Final = _delete("leases_gone", t.LEASES)
LEASES_NEW: Final = _insert("leases_new", t.LEASES)
LEASES_CHANGED: Final = _update("leases_changed", t.LEASES)
CHECKPOINTS: Final = _upsert("checkpoints_saved", t.CHECKPOINTS)
STEPS: Final = _insert("steps_saved", t.STEPS, " ON CONFLICT (job_id, name) DO NOTHING")
KEYS_NEW: Final = _insert("keys_new", t.KEYS)
KEYS_CHANGED: Final = _update("keys_changed", t.KEYS)
KEYS_FORGOTTEN: Final = _delete("keys_forgotten", t.KEYS)
RESERVATIONS_NEW: Final = _insert("reservations_new", t.RESERVATIONS)
RESERVATIONS_CHANGED: Final = _update("reservations_changed", t.RESERVATIONS)
BATCHES: Final = _insert("batches_new", t.BATCHES, " ON CONFLICT (id) DO NOTHING")
POOLS_NEW: Final = _insert("pools_new", t.POOLS)
POOLS_CHANGED: Final = _update("pools_changed", t.POOLS)
CONTENTS: Final = _upsert("contents_known", t.CONTENTS)
LEADERS_NEW: Final = _insert("leaders_new", t.LEADERS)
LEADERS_CHANGED: Final = _update("leaders_changed", t.LEADERS)
ENTRIES: Final = _insert("entries_new", t.ENTRIES)
EVENTS: Final = _insert("events_new", t.EVENTS)
# A row for each batch, and not one that all of them write: its old versions would be in the way while a long
# transaction elsewhere keeps them alive.
MARKER: Final = _insert("marker", t.LANES)
MARKERS_PASSED: Final = Part(
    "markers_passed",
    t.LANES.columns[:2],
    tuple,
    "DELETE FROM lanes AS t USING {source} WHERE t.lane = v.lane AND t.batch < v.batch AND {guard}",
)
MARKERS_KEPT: Final = 64
"""Every so many batches a lane clears away what it left behind; only its last batch can ever be in doubt."""

_SEATED: Final = (ACCOUNTS_NEW, ACCOUNTS_CHANGED, ACCOUNTS_SEATED)
PARTS: Final = tuple(part for part in list(globals().values()) if isinstance(part, Part))
"""Every part there is, in the order in which they are put together."""


class Condition(Struct, frozen=True):
    """Something that a guard asks of rows; `{0}`, `{1}`, … in the texts stand for its parameters."""

    width: int
    holds: str
    cte: str = ""


# Rows that are as they were get locked; one that is missing here is somebody else's just now, or was written since.
ACCOUNTS_UNCHANGED: Final = Condition(
    3,
    "(SELECT count(*) FROM same_accounts) = cardinality({0}::text::text[])",
    """same_accounts AS MATERIALIZED (
        SELECT FROM unnest({0}::text::text[], {1}::text::xid[], {2}::text::tid[]) AS w (id, version, seat)
        JOIN accounts t ON t.ctid = w.seat WHERE t.id = w.id AND t.xmin = w.version FOR NO KEY UPDATE OF t SKIP LOCKED
    )""",
)
LEASES_UNCHANGED: Final = Condition(
    2,
    "(SELECT count(*) FROM same_leases) = cardinality({0}::text::uuid[])",
    """same_leases AS MATERIALIZED (
        SELECT FROM unnest({0}::text::uuid[], {1}::text::xid[]) AS w (job_id, version)
        JOIN leases t ON t.job_id = w.job_id WHERE t.xmin = w.version FOR NO KEY UPDATE OF t SKIP LOCKED
    )""",
)
KEYS_UNUSED: Final = Condition(
    3,
    """NOT EXISTS (
        SELECT FROM unnest({0}::text::text[], {1}::text::text[], {2}::text::text[]) AS w (account_id, scope, key)
        JOIN keys k ON k.account_id = w.account_id AND k.scope = w.scope AND k.key = w.key
    )""",
)
CLOCK_RIGHT: Final = Condition(1, f"abs({instant('clock_timestamp()')} - {{0}}::text::bigint) < {CLOCK_SLACK_US}")


@lru_cache(maxsize=1024)
def statement(parts: tuple[Part, ...], conditions: tuple[Condition, ...] = ()) -> str:
    """The text for these parts, under these conditions. It answers, if it writes, with what `Written` holds.

    The same parts give the same text, which a connection then has prepared.
    """
    ctes, holds = [], []
    first = 1
    for condition in conditions:
        parameters = [f"${n}" for n in range(first, first + condition.width)]
        first += condition.width
        holds.append(condition.holds.format(*parameters))
        if condition.cte:
            ctes.append(condition.cte.format(*parameters))
    guard = "true"
    if conditions:
        ctes.append(f"guard AS MATERIALIZED (SELECT {' AND '.join(holds)} AS holds)")
        guard = "(SELECT holds FROM guard)"
    for part in parts:
        ctes.append(f"{part.name} AS ({part.text.format(source=part.source(first), guard=guard)})")
        first += len(part.columns)
    seats = " UNION ALL ".join(f"SELECT id, ctid::text FROM {part.name}" for part in parts if part in _SEATED)
    ctes.append(f"seats (id, seat) AS ({seats or 'SELECT NULL, NULL WHERE false'})")
    return (
        f"WITH {', '.join(ctes)} SELECT pg_current_xact_id()::xid::text, "
        f"(SELECT array_agg(id) FROM seats), (SELECT array_agg(seat) FROM seats) WHERE {guard}"
    )


class Rows:
    """The parts of one batch and the values for them."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.values: list[str] = []

    def add(self, part: Part, records: Sequence[Any], *beside: Sequence[Any]) -> None:
        """Adds a part if it has rows. `beside` are the last columns, where their values are not in the records."""
        if not records:
            return
        self.parts.append(part)
        columns = (*zip(*map(part.row, records), strict=True), *beside)
        self.values += [literal(column.kind, values) for column, values in zip(part.columns, columns, strict=True)]


class Written(Struct, frozen=True):
    """The version that all rows written by a batch have, and the seats of the accounts among them."""

    version: str
    seats: dict[str, str]


class Guard(Struct):
    """What must still be so for a batch to be written, and the values that say so.

    seats: where the accounts lie that the batch was decided on.
    """

    conditions: list[Condition] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    seats: dict[str, str] = field(default_factory=dict)

    def add(self, condition: Condition, *values: str) -> None:
        self.conditions.append(condition)
        self.values += values


_NO_GUARD: Final = Guard()


async def apply(
    connection: Executor,
    snapshot: Snapshot,
    changes: Changes,
    marker: tuple[str, int] | None = None,
    guard: Guard = _NO_GUARD,
) -> Written | None:
    """Writes the changes, with the batch's marker where there is one, if the guard lets it.

    Answers None if nothing was written.
    """
    rows = sorted_rows(snapshot, changes, guard.seats)
    if marker is not None:
        rows.add(MARKER, [(*marker, snapshot.now)])
        if marker[1] % MARKERS_KEPT == 0:
            rows.add(MARKERS_PASSED, [marker])
    if not rows.parts:
        return None
    text = statement(tuple(rows.parts), tuple(guard.conditions))
    found = await connection.fetch(text, *guard.values, *rows.values)
    if not found:
        return None
    version, names, seats = found[0]
    return Written(version, dict(zip(names or (), seats or (), strict=True)))


def sorted_rows(snapshot: Snapshot, changes: Changes, seats: Mapping[str, str]) -> Rows:
    """Changes by table; accounts by their seats, where these are known.

    A record that the snapshot did not have is inserted and never overwrites: should another batch have made it since,
    the statement fails and the batch is decided again. Rows that no lock orders are written in key order.
    """
    rows = Rows()
    if seats:
        accounts = sorted(changes.accounts, key=attrgetter("id"))
        rows.add(ACCOUNTS_SEATED, accounts, [seats[account.id] for account in accounts])
    else:
        _add_split(rows, ACCOUNTS_NEW, ACCOUNTS_CHANGED, snapshot.accounts, changes.accounts, t.ACCOUNTS.key)
    _add_jobs(rows, changes)
    rows.add(STEPS, changes.steps)
    _add_split(rows, KEYS_NEW, KEYS_CHANGED, snapshot.keys, changes.keys, t.KEYS.key)
    rows.add(KEYS_FORGOTTEN, changes.forgotten_keys)
    _add_split(
        rows, RESERVATIONS_NEW, RESERVATIONS_CHANGED, snapshot.reservations, changes.reservations, t.RESERVATIONS.key
    )
    rows.add(BATCHES, sorted(changes.batches, key=lambda batch: batch.id))
    _add_split(rows, POOLS_NEW, POOLS_CHANGED, snapshot.pools, changes.pools, t.POOLS.key)
    # The last one of a content stands; a statement may write a row only once.
    contents = {(content.tool, content.content_hash): content for content in changes.contents}
    rows.add(CONTENTS, [contents[key] for key in sorted(contents)])
    _add_split(rows, LEADERS_NEW, LEADERS_CHANGED, snapshot.leaders, changes.leaders, t.LEADERS.key)
    rows.add(ENTRIES, changes.entries)
    rows.add(EVENTS, changes.events)
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
    rows.add(BORN, jobs.born, [payloads[job.id] for job in jobs.born], [results.get(job.id) for job in jobs.born])
    rows.add(ENDED, jobs.ended, [results.get(job.id) for job in jobs.ended])
    rows.add(RELISTED, jobs.relisted)
    places = jobs.places
    rows.add(READY_GONE, [(job_id,) for job_id in places.ready_gone])
    rows.add(READY_NEW, places.ready_new)
    rows.add(READY_CHANGED, places.ready_changed)
    rows.add(PARKED_GONE, [(job_id,) for job_id in places.parked_gone])
    rows.add(PARKED_NEW, places.parked_new)
    rows.add(PARKED_CHANGED, places.parked_changed)
    rows.add(LEASES_GONE, [(job_id,) for job_id in places.leases_gone])
    rows.add(LEASES_NEW, places.leases_new)
    rows.add(LEASES_CHANGED, places.leases_changed)
    rows.add(CHECKPOINTS, jobs.checkpoints)
