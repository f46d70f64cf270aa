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
from typing import Any, Final, Generic, Protocol, TypeVar

from msgspec import Struct

from ...core.snapshot import Changes, Snapshot, job_rows
from . import columns as t
from .columns import Row, Table
from .values import Column, instant, literal, one_of, source, written

CLOCK_SLACK_US: Final = 500_000
"""How far this process's idea of the database's clock may be off."""


class Executor(Protocol):
    """What is needed of a connection; a caller's own may be a pool's proxy."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


class Part(Struct, frozen=True):
    """One table's share of the statement.

    In the text, `{source}` stands for the rows, `{keys}` for the values of a single column, `{guard}` for a condition.
    """

    name: str
    columns: tuple[Column, ...]
    row: Row
    text: str
    is_counted: bool = False
    """Whether the statement fails unless the part has written as many rows as it was given."""


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


def _update(name: str, table: Table, tail: str = "", *, is_counted: bool = False) -> Part:
    rows = f"FROM {_found(table)} WHERE t.ctid = v.seat AND {{guard}}"
    text = f"UPDATE {table.name} AS t SET {_changed(table)} {rows}{tail}"
    return Part(name, table.columns, table.row, text, is_counted)


def _delete(name: str, table: Table) -> Part:
    """The rows with these keys."""
    key = tuple(c for c in table.columns if c.name in table.key)
    if len(key) == 1:
        text = f"DELETE FROM {table.name} AS t WHERE t.{key[0].name} = {{keys}} AND {{guard}}"
    else:
        text = f"DELETE FROM {table.name} AS t USING {_found(table)} WHERE t.ctid = v.seat AND {{guard}}"
    return Part(name, key, tuple, text)


def _changed(table: Table) -> str:
    columns = (column for column in table.columns if column.name not in table.key)
    return ", ".join(f"{column.name} = {written(f'v.{column.name}', column.kind)}" for column in columns)


def _found(table: Table) -> str:
    """The rows, each with the seat of the row of the table that has its key.

    Looked up one by one, and never as a join: where the planner was told that the table is empty, as it may have been
    when its figures were taken, it would read all of the table first. Whoever writes a row holds it, so it stays put.
    """
    same = " AND ".join(f"k.{name} = v.{name}" for name in table.key)
    seat = f"SELECT k.ctid AS seat FROM {table.name} k WHERE {same} OFFSET 0"
    return f"(SELECT v.*, found.seat FROM {{source}} CROSS JOIN LATERAL ({seat}) AS found) AS v"


ACCOUNT_IDS: Final = _insert("account_ids_new", t.ACCOUNT_IDS)
ACCOUNTS_NEW: Final = _insert("accounts_new", t.ACCOUNTS, " RETURNING id, ctid")
ACCOUNTS_CHANGED: Final = _update("accounts_changed", t.ACCOUNTS, " RETURNING t.id, t.ctid")
# Found by where they lie and not by their key: an account is written so often that, while a long transaction elsewhere
# keeps its old versions alive, a search by key would walk over all of them.
ACCOUNTS_SEATED: Final = Part(
    "accounts_seated",
    (*t.ACCOUNTS.columns, Column("seat", "seat")),
    t.ACCOUNTS.row,
    f"UPDATE accounts AS t SET {_changed(t.ACCOUNTS)} FROM {{source}} WHERE t.ctid = v.seat AND {{guard}} "
    "RETURNING t.id, t.ctid",
)
BORN: Final = _insert("born", t.JOBS)
# Nothing locks the wide row: whoever may end a job holds its narrow one. Should somebody edit it by hand just then, the
# end must not get lost.
ENDED: Final = _update("ended", t.JOB_ENDS, " RETURNING 1", is_counted=True)
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
    """Something that a guard asks of rows: that the text finds each of them, or (`is_counted` is False) none."""

    columns: tuple[Column, ...]
    text: str
    is_counted: bool = True


# Rows that are as they were get locked; one that is missing here is somebody else's just now, or was written since.
ACCOUNTS_UNCHANGED: Final = Condition(
    (Column("id", "text"), Column("version", "version"), Column("seat", "seat")),
    "SELECT FROM {source} JOIN accounts t ON t.ctid = v.seat WHERE t.id = v.id AND t.xmin = v.version "
    "FOR NO KEY UPDATE OF t SKIP LOCKED",
)
LEASES_UNCHANGED: Final = Condition(
    (Column("job_id", "uuid"), Column("version", "version")),
    "SELECT FROM {source} CROSS JOIN LATERAL "
    "(SELECT FROM leases t WHERE t.job_id = v.job_id AND t.xmin = v.version FOR NO KEY UPDATE SKIP LOCKED) AS found",
)
KEYS_UNUSED: Final = Condition(
    t.KEYS.columns[:3],
    "SELECT FROM {source} CROSS JOIN LATERAL "
    "(SELECT FROM keys k WHERE k.account_id = v.account_id AND k.scope = v.scope AND k.key = v.key OFFSET 0) AS found",
    is_counted=False,
)
CLOCK_RIGHT: Final = Condition(
    (Column("at", "instant"),),
    f"SELECT FROM {{source}} WHERE abs({instant('clock_timestamp()')} - v.at) < {CLOCK_SLACK_US}",
)


@lru_cache(maxsize=1024)
def statement(parts: tuple[Part, ...], conditions: tuple[Condition, ...] = (), *, is_single: bool = False) -> str:
    """The text for these parts, under these conditions; `is_single`: for one row of each.

    It answers, if it writes, with what `Written` holds. The same parts give the same text, which a connection then has
    prepared.
    """
    ctes, holds, ends = [], [], ["1"]
    first = 1
    for asked in conditions:
        found = asked.text.format(source=source(asked.columns, first, is_single=is_single))
        first += len(asked.columns)
        if is_single or not asked.is_counted:
            holds.append(f"{'' if asked.is_counted else 'NOT '}EXISTS ({found})")
        else:
            holds.append(f"(SELECT count(*) FROM ({found}) AS found) = ${first}::bigint")
            first += 1
    guard = "true"
    if conditions:
        ctes.append(f"guard AS MATERIALIZED (SELECT {' AND '.join(holds)} AS holds)")
        guard = "(SELECT holds FROM guard)"
    for part in parts:
        rows = source(part.columns, first, is_single=is_single)
        keys = one_of(part.columns[0].kind, first, is_single=is_single)
        ctes.append(f"{part.name} AS ({part.text.format(source=rows, keys=keys, guard=guard)})")
        first += len(part.columns)
        if part.is_counted:
            # A statement has no other way to fail than by an error: this one divides by zero.
            count = "1" if is_single else f"${first}::bigint"
            ends.append(f"(SELECT (count(*) = {count})::int FROM {part.name})")
            first += not is_single
    seated = [part.name for part in parts if part in _SEATED]
    seats = (_gathered(column, seated) for column in ("id", "ctid::text"))
    answer = ", ".join(("pg_current_xact_id()::xid::text", *seats, " / ".join(ends)))
    return f"WITH {', '.join(ctes)} SELECT {answer} WHERE {guard}"


def _gathered(column: str, parts: list[str]) -> str:
    return f"ARRAY({' UNION ALL '.join(f'SELECT {column} FROM {part}' for part in parts)})" if parts else "NULL::text[]"


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
            found += [literal(column.kind, values) for column, values in zip(what.columns, columns, strict=True)]
            if what.is_counted:
                found.append(len(columns[0]))
        return found


class Rows(Filled[Part]):
    """The parts of one batch with their rows."""

    def add(self, part: Part, records: Sequence[Any], *beside: Sequence[Any]) -> None:
        """Adds a part if it has rows. `beside` are the last columns, where their values are not in the records."""
        if records:
            self.fill(part, (*zip(*map(part.row, records), strict=True), *beside))


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
) -> Written | None:
    """Writes the changes, with the batch's marker where there is one, if the guard lets it.

    Answers None if nothing was written.
    """
    rows = sorted_rows(snapshot, changes, guard.seats)
    if marker is not None:
        rows.add(MARKER, [(*marker, snapshot.now)])
        if marker[1] % MARKERS_KEPT == 0:
            rows.add(MARKERS_PASSED, [marker])
    if not rows.whats:
        return None
    is_single = rows.is_single and guard.is_single
    text = statement(tuple(rows.whats), tuple(guard.whats), is_single=is_single)
    found = await connection.fetch(text, *guard.values(is_single=is_single), *rows.values(is_single=is_single))
    if not found:
        return None
    version, names, seats, _ = found[0]
    return Written(version, dict(zip(names or (), seats or (), strict=True)))


def sorted_rows(snapshot: Snapshot, changes: Changes, seats: Mapping[str, str]) -> Rows:
    """Changes by table; accounts by their seats, where these are known.

    A record that the snapshot did not have is inserted and never overwrites: should another batch have made it since,
    the statement fails and the batch is decided again. Rows that no lock orders are written in key order.
    """
    rows = Rows()
    accounts = sorted(changes.accounts, key=attrgetter("id"))
    seated = [account for account in accounts if account.id in seats]
    rows.add(ACCOUNTS_SEATED, seated, [seats[account.id] for account in seated])
    rows.add(ACCOUNT_IDS, [account for account in accounts if snapshot.accounts.get(account.id) is None])
    others = [account for account in accounts if account.id not in seats]
    _add_split(rows, ACCOUNTS_NEW, ACCOUNTS_CHANGED, snapshot.accounts, others, t.ACCOUNTS.key)
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
