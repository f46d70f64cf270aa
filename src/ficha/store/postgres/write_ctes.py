"""The parts of the statement that writes a batch, and how it is put together from them.

Each part is a data-modifying CTE over `unnest`, so a batch of one and a batch of two hundred are the same statement.

Under a guard, the same statement first locks the rows that the batch was decided on, waiting for none of them, and
writes only if each is there in the very version that was looked at: all parts, or none.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from . import tables as t
from .listener import CHANNEL
from .sql_types import Column, constant, instant, one_of, source, written
from .tables import Row, Table

CLOCK_SLACK_US: Final = 500_000
"""How far this process's idea of the database's clock may be off."""


class WritePart(Struct, frozen=True, eq=False):
    """One table's share of the statement.

    In the text, `{source}` stands for the rows, `{keys}` for the values of a single column, `{guard}` for a condition.
    """

    name: str
    columns: tuple[Column, ...]
    row: Row
    text: str
    is_counted: bool = False
    """Whether the statement fails unless the part has written as many rows as it was given."""
    shared: tuple[Column, ...] = ()
    """Columns that have the same value in all rows; it travels once."""
    fixed: tuple[str, ...] = ()
    """Columns whose value is known beforehand; it does not travel at all."""
    is_several: bool = False
    """Whether it has several rows though all others have one."""
    usual: Usual | None = None

    def filled(self, columns: Sequence[Sequence[Any]]) -> tuple[WritePart, Sequence[Sequence[Any]]]:
        """The part with the columns that travel: of rows that are as usual, the fewer ones."""
        usual = self.usual
        if usual is None:
            return self, columns
        rows = len(columns[0])
        for n, value in zip(usual.fixed, usual.values, strict=True):
            if columns[n].count(value) != rows:
                return self, columns
        for n in usual.shared:
            if columns[n].count(columns[n][0]) != rows:
                return self, columns
        return usual.part.filled([columns[n] for n in usual.kept])

    def filled_one(self, row: tuple[Any, ...]) -> tuple[WritePart, tuple[Any, ...]]:
        """The same for a single row, which shares nothing."""
        usual = self.usual
        if usual is None or usual.fixed_of(row) != usual.values:
            return self, row
        return usual.part, usual.kept_of(row)


class Usual(Struct, frozen=True, eq=False):
    """The part for rows that are as nearly all are, by the numbers of the columns: most of a new job's are empty."""

    part: WritePart
    kept: tuple[int, ...]
    shared: tuple[int, ...]
    fixed: tuple[int, ...]
    values: tuple[Any, ...]
    kept_of: Row
    fixed_of: Row


def _usually(part: WritePart, shared: str, **fixed: int | str | None) -> WritePart:
    """The same part, with a shorter way for rows that share some values and have others fixed."""
    if part.usual is not None:
        return replace(part, usual=replace(part.usual, part=_usually(part.usual.part, shared, **fixed)))
    numbers = {column.name: number for number, column in enumerate(part.columns)}
    once = tuple(numbers.pop(name) for name in shared.split())
    known = tuple(numbers.pop(name) for name in fixed)
    short = replace(
        part,
        columns=tuple(part.columns[n] for n in numbers.values()),
        shared=(*part.shared, *(part.columns[n] for n in once)),
        fixed=(*part.fixed, *(constant(part.columns[n], fixed[part.columns[n].name]) for n in known)),
    )
    before = range(len(part.columns), len(part.columns) + len(part.shared))
    kept = *numbers.values(), *before, *once
    usual = Usual(short, kept, once, known, tuple(fixed.values()), _picked(kept), _picked(known))
    return replace(part, usual=usual)


def _picked(numbers: tuple[int, ...]) -> Row:
    """The values of a row that have these numbers, as a tuple however few they are."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    first, beyond = numbers[0] if numbers else 0, len(numbers)
    return lambda row: row[first : first + beyond]


def _insert(name: str, table: Table, tail: str = "") -> WritePart:
    names = ", ".join(column.name for column in table.columns)
    values = ", ".join(written(f"v.{column.name}", column.kind) for column in table.columns)
    return WritePart(
        name,
        table.columns,
        table.row,
        f"INSERT INTO {table.name} ({names}) SELECT {values} FROM {{source}} WHERE {{guard}}{tail}",
    )


def _upsert(name: str, table: Table) -> WritePart:
    changed = ", ".join(f"{c.name} = excluded.{c.name}" for c in table.columns if c.name not in table.key)
    return _insert(name, table, f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}")


def _update(name: str, table: Table, tail: str = "", *, is_counted: bool = False) -> WritePart:
    rows = f"FROM {_found(table)} WHERE t.ctid = v.seat AND {{guard}}"
    text = f"UPDATE {table.name} AS t SET {_changed(table)} {rows}{tail}"
    return WritePart(name, table.columns, table.row, text, is_counted)


def _delete(name: str, table: Table) -> WritePart:
    """The rows with these keys."""
    key = tuple(c for c in table.columns if c.name in table.key)
    if len(key) == 1:
        text = f"DELETE FROM {table.name} AS t WHERE t.{key[0].name} = {{keys}} AND {{guard}}"
        return WritePart(name, key, lambda value: (value,), text)
    text = f"DELETE FROM {table.name} AS t USING {_found(table)} WHERE t.ctid = v.seat AND {{guard}}"
    return WritePart(name, key, tuple, text)


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
ACCOUNTS_SEATED: Final = WritePart(
    "accounts_seated",
    (*t.ACCOUNTS.columns, Column("seat", "seat")),
    t.ACCOUNTS.row,
    f"UPDATE accounts AS t SET {_changed(t.ACCOUNTS)} FROM {{source}} WHERE t.ctid = v.seat AND {{guard}} "
    "RETURNING t.id, t.ctid",
)
# Where rows share more than usual, as those of one tool do, there is a still shorter way.
_BORN: Final = _usually(
    _insert("born", t.JOBS),
    "created_at wait_until_at session batch_id correlation_id",
    status="queued",
    content_hash=None,
    requeue_of=None,
    epoch=0,
    attempts=0,
    recoveries=0,
    started_at=None,
    events=1,
    first_worker=None,
    first_run_at=None,
    finished_at=None,
    error=None,
    refunded=0,
    delivered=None,
    dead_at=None,
    result=None,
)
BORN: Final = _usually(_BORN, "tool pool priority cost units timeout_ms max_attempts backoff_ms backoff_max_ms charged")
# Nothing locks the wide row: whoever may end a job holds its narrow one. Should somebody edit it by hand just then, the
# end must not get lost.
_ENDED: Final = _update("ended", t.JOB_ENDS, " RETURNING 1", is_counted=True)
ENDED: Final = _usually(
    _usually(_ENDED, "status finished_at", error=None, refunded=0, dead_at=None),
    "charged delivered epoch attempts recoveries events first_worker",
)
AMENDED: Final = _update("amended", t.JOB_AMENDS)
READY_GONE: Final = _delete("ready_gone", t.READY)
READY_NEW: Final = _usually(
    _usually(
        _insert("ready_new", t.READY),
        "wait_until_at ages_at",
        started_at=None,
        epoch=0,
        attempts=0,
        recoveries=0,
        events=1,
        first_worker=None,
        first_run_at=None,
    ),
    "pool",
)
READY_CHANGED: Final = _update("ready_changed", t.READY)
PARKED_GONE: Final = _delete("parked_gone", t.PARKED)
PARKED_NEW: Final = _insert("parked_new", t.PARKED)
PARKED_CHANGED: Final = _update("parked_changed", t.PARKED)
LEASES_GONE: Final = _delete("leases_gone", t.LEASES)
LEASES_NEW: Final = _usually(
    _usually(_insert("leases_new", t.LEASES), "status leased_at heartbeat_at expires_at", ref=None),
    "pool epoch attempts recoveries started_at events first_worker first_run_at worker deadline_at",
)
LEASES_CHANGED: Final = _update("leases_changed", t.LEASES)
CHECKPOINTS: Final = _upsert("checkpoints_saved", t.CHECKPOINTS)
STEPS: Final = _insert("steps_saved", t.STEPS, " ON CONFLICT (job_id, name) DO NOTHING")
KEYS_NEW: Final = _usually(
    _usually(_insert("keys_new", t.KEYS), "scope created_at expires_at batch_id", entry=None), "jobs cost"
)
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
WORKERS: Final = _upsert("workers_seen", t.WORKERS)
TALLIES: Final = _insert("tallies", t.TALLIES)
ENTRIES: Final = _usually(_usually(_insert("entries_new", t.ENTRIES), "kind at", reason=None), "amount")
EVENTS: Final = _usually(_usually(_insert("events_new", t.EVENTS), "at"), "kind data")
API_KEYS_NEW: Final = _insert("api_keys_new", t.API_KEYS)
API_KEYS_CHANGED: Final = _update("api_keys_changed", t.API_KEYS)
API_KEY_USES: Final = _upsert("api_key_uses", t.API_KEY_USES)
AUDIT: Final = _insert("audit_new", t.AUDIT)
COMMITS: Final = _insert("commits_new", t.COMMITS)

_TELL: Final = f"(SELECT count(pg_notify('{CHANNEL}', hint)) FROM unnest({{}}::text[]) AS w (hint))"
_SEATED: Final = (ACCOUNTS_NEW, ACCOUNTS_CHANGED, ACCOUNTS_SEATED)
PARTS: Final = tuple(part for name, part in list(globals().items()) if isinstance(part, WritePart) and name[0] != "_")
"""Every part there is, in the order in which they are put together."""


class Condition(Struct, frozen=True, eq=False):
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
READY_UNCHANGED: Final = Condition(
    (Column("job_id", "uuid"), Column("version", "version")),
    "SELECT FROM {source} CROSS JOIN LATERAL "
    "(SELECT FROM ready t WHERE t.job_id = v.job_id AND t.xmin = v.version FOR UPDATE SKIP LOCKED) AS found",
)
# Not locked: claims from a pool without a limit must not be in each other's way.
POOLS_UNCHANGED: Final = Condition(
    (Column("name", "text"), Column("version", "version")),
    "SELECT FROM {source} CROSS JOIN LATERAL "
    "(SELECT FROM pools t WHERE t.name = v.name AND t.xmin = v.version OFFSET 0) AS found",
)
NONE_READY: Final = Condition(
    (Column("pool", "text"), Column("first", "number"), Column("beyond", "number")),
    "SELECT FROM {source} CROSS JOIN LATERAL "
    "(SELECT FROM ready t WHERE t.pool = v.pool AND rank >= v.first AND rank < v.beyond LIMIT 1) AS found",
    is_counted=False,
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


@lru_cache(maxsize=16)
def several(part: WritePart) -> WritePart:
    """The same part, for several rows beside parts with one."""
    return replace(part, is_several=True)


@lru_cache(maxsize=1024)
def statement(
    parts: tuple[WritePart, ...],
    conditions: tuple[Condition, ...] = (),
    *,
    is_single: bool = False,
    is_told: bool = False,
) -> str:
    """The text for these parts, under these conditions; `is_single`: for one row of each; `is_told`: with hints, the
    last parameter, that go out when it is committed.

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
        ctes.append(f"guard AS MATERIALIZED (SELECT WHERE {' AND '.join(holds)})")
        guard = "EXISTS (SELECT FROM guard)"
    # A single row is one that the guard hands on, or does not.
    under = "FROM guard" if conditions and is_single else ""
    for part in parts:
        is_one = is_single and not part.is_several
        rows = source(part.columns, first, is_single=is_one, shared=part.shared, fixed=part.fixed, under=under)
        keys = one_of(part.columns[0].kind, first, is_single=is_one)
        is_guarded = is_one and under and "{source}" in part.text
        text = part.text.format(source=rows, keys=keys, guard="true" if is_guarded else guard)
        ctes.append(f"{part.name} AS ({text})")
        first += len(part.columns) + len(part.shared)
        if part.is_counted:
            # A statement has no other way to fail than by an error: this one divides by zero.
            count = "1" if is_one else f"${first}::bigint"
            ends.append(f"(SELECT (count(*) = {count})::int FROM {part.name})")
            first += not is_one
    seated = " UNION ALL ".join(f"SELECT ARRAY[id, ctid::text] FROM {part.name}" for part in parts if part in _SEATED)
    seats = f"ARRAY({seated})" if seated else "'{}'::text[]"
    told = (_TELL.format(f"${first}"),) if is_told else ()
    answer = ", ".join(("pg_current_xact_id()::xid::text", seats, " / ".join(ends), *told))
    return f"WITH {', '.join(ctes)} SELECT {answer} {under or f'WHERE {guard}'}"
