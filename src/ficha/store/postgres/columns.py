"""The tables as data: which columns each has, of which kind, and how a value of that kind travels.

Values cross the connection only as text, whole numbers and truth values, and SQL turns them into the native types of
the columns. So any asyncpg connection will do, also one that belongs to the caller and has its own codecs. What a
statement does with the columns is for `load.py`, `apply.py` and `reads.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from ...core.records import (
    Account,
    Batch,
    Checkpoint,
    Entry,
    Event,
    Job,
    Key,
    Leader,
    Pool,
    Reservation,
    Step,
)
from ..base import StoreError

Kind = Literal["text", "uuid", "number", "flag", "json", "instant"]

_PARAMETERS: Final[dict[Kind, str]] = {
    "text": "text[]",
    "uuid": "uuid[]",
    "number": "bigint[]",
    "flag": "boolean[]",
    "json": "text[]",
    "instant": "bigint[]",
}


def written(name: str, kind: Kind) -> str:
    """The expression that turns a parameter's value into the column's. Instants are exact until the year 2255."""
    match kind:
        case "json":
            return f"{name}::jsonb"
        case "instant":
            return f"'epoch'::timestamptz + {name} * interval '1 microsecond'"
        case _:
            return name


def literal(kind: Kind, values: list[Any]) -> str:
    """A column of values as the text of an array.

    The driver looks at each element of an array by itself, which costs more than all else in a batch; one text for the
    whole column is put together in a few steps, whatever its length. `unnest` fills a shorter array up with nulls, so
    a column of nothing else costs nothing.
    """
    nones = values.count(None)
    if nones == len(values):
        return "{}"
    if kind in ("text", "json"):
        return _quoted(values) if nones else _all_quoted(values)
    words = ["NULL" if value is None else str(value) for value in values] if nones else map(str, values)
    return "{" + ",".join(words) + "}"


def _all_quoted(values: list[str]) -> str:
    """Joined by a character that no text here may hold, so that all are escaped in one step."""
    joined = "\x00".join(values)
    if joined.count("\x00") != len(values) - 1:
        raise StoreError("a text holds a NUL character, which PostgreSQL cannot store; leave it out")
    return '{"' + joined.replace("\\", "\\\\").replace('"', '\\"').replace("\x00", '","') + '"}'


def _quoted(values: list[str | None]) -> str:
    words = [
        "NULL" if value is None else '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values
    ]
    return "{" + ",".join(words) + "}"


def read(name: str, kind: Kind) -> str:
    """The expression that turns a column's value into one that any connection can decode."""
    match kind:
        case "uuid" | "json":
            return f"{name}::text"
        case "instant":
            return f"(extract(epoch FROM {name}) * 1000000)::bigint"
        case _:
            return name


def instant(name: str) -> str:
    return read(name, "instant")


def at(name: str) -> str:
    return written(name, "instant")


def nulls(count: int) -> str:
    return ", ".join(["NULL"] * count)


class Column(Struct, frozen=True):
    """A column, and where its value is in the record that is written; None where it travels beside the record."""

    name: str
    kind: Kind
    get: Callable[[Any], Any] | None

    @property
    def parameter(self) -> str:
        return _PARAMETERS[self.kind]


class Table(Struct, frozen=True):
    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]

    def selected(self, alias: str) -> str:
        """All columns in the order of the record's fields."""
        return ", ".join(read(f"{alias}.{column.name}", column.kind) for column in self.columns)


def _table(name: str, record: type[Struct], key: tuple[str, ...], kinds: Mapping[str, Kind]) -> Table:
    """A table that holds a record field by field."""
    assert tuple(kinds) == record.__struct_fields__, f"{name}: {record.__struct_fields__}"
    columns = tuple(Column(field, kind, attrgetter(field)) for field, kind in kinds.items())
    return Table(name, key, columns)


ACCOUNTS: Final = _table(
    "accounts",
    Account,
    ("id",),
    {
        "id": "text",
        "plan": "text",
        "opened_at": "instant",
        "balance": "number",
        "active": "number",
        "admitted": "number",
        "parked": "number",
        "submitted": "number",
        "latest_job": "uuid",
        "hour_at": "instant",
        "hour_submits": "number",
        "day_at": "instant",
        "day_spent": "number",
        "month_at": "instant",
        "month_spent": "number",
        "entries": "number",
    },
)
ENTRIES: Final = _table(
    "entries",
    Entry,
    ("account_id", "number"),
    {
        "account_id": "text",
        "number": "number",
        "kind": "text",
        "amount": "number",
        "balance_after": "number",
        "at": "instant",
        "job_id": "uuid",
        "reason": "text",
    },
)
KEYS: Final = _table(
    "keys",
    Key,
    ("account_id", "scope", "key"),
    {
        "account_id": "text",
        "scope": "text",
        "key": "text",
        "fingerprint": "text",
        "created_at": "instant",
        "expires_at": "instant",
        "job_id": "uuid",
        "batch_id": "uuid",
        "jobs": "number",
        "cost": "number",
        "entry": "number",
    },
)
RESERVATIONS: Final = _table(
    "reservations",
    Reservation,
    ("id",),
    {
        "id": "uuid",
        "account_id": "text",
        "state": "text",
        "created_at": "instant",
        "expires_at": "instant",
        "job_id": "uuid",
    },
)
BATCHES: Final = _table(
    "batches", Batch, ("id",), {"id": "uuid", "account_id": "text", "total": "number", "created_at": "instant"}
)
POOLS: Final = _table(
    "pools", Pool, ("name",), {"name": "text", "slots": "number", "resized": "number", "paused": "flag"}
)
LEADERS: Final = _table("leaders", Leader, ("name",), {"name": "text", "owner": "text", "expires_at": "instant"})
STEPS: Final = _table(
    "steps", Step, ("job_id", "name"), {"job_id": "uuid", "name": "text", "result": "json", "saved_at": "instant"}
)
EVENTS: Final = Table(
    "events",
    ("number",),
    (
        Column("job_id", "uuid", attrgetter("job_id")),
        Column("account_id", "text", attrgetter("account_id")),
        Column("kind", "text", attrgetter("kind")),
        Column("at", "instant", attrgetter("at")),
        Column("data", "json", lambda event: None if event.data is None else msgspec.json.encode(event.data).decode()),
    ),
)
assert Event.__struct_fields__ == tuple(column.name for column in EVENTS.columns)
CONTENTS: Final = Table(
    "contents",
    ("tool", "content_hash"),
    (
        Column("tool", "text", attrgetter("tool")),
        Column("content_hash", "text", attrgetter("content_hash")),
        Column("job_id", "uuid", attrgetter("job_id")),
    ),
)
LANES: Final = Table(
    "lanes",
    ("lane",),
    (Column("lane", "uuid", None), Column("batch", "number", None), Column("at", "instant", None)),
)

JOB_KINDS: Final[dict[str, Kind]] = {
    "id": "uuid",
    "account_id": "text",
    "tool": "text",
    "pool": "text",
    "status": "text",
    "priority": "number",
    "cost": "number",
    "units": "number",
    "created_at": "instant",
    "timeout_ms": "number",
    "max_attempts": "number",
    "backoff_ms": "number",
    "backoff_max_ms": "number",
    "wait_until_at": "instant",
    "session": "text",
    "batch_id": "uuid",
    "correlation_id": "text",
    "content_hash": "text",
    "requeue_of": "uuid",
    "epoch": "number",
    "attempts": "number",
    "recoveries": "number",
    "started_at": "instant",
    "finished_at": "instant",
    "error": "text",
    "charged": "number",
    "refunded": "number",
    "delivered": "number",
    "dead_at": "instant",
}
"""The fields of a job that are columns of `jobs`; its place and its checkpoint have tables of their own."""
assert (*JOB_KINDS, "place", "checkpoint") == tuple(
    sorted(Job.__struct_fields__, key=lambda field: field in ("place", "checkpoint"))
)


def _job_columns(names: Iterable[str], **elsewhere: Callable[[Job], Any]) -> tuple[Column, ...]:
    return tuple(Column(name, JOB_KINDS[name], elsewhere.get(name, attrgetter(name))) for name in names)


def _cold_status(job: Job) -> str:
    """While a job is active its wide row says 'queued', whatever its hot row says."""
    return "queued" if job.place is not None else job.status


_HOT = ("epoch", "attempts", "recoveries", "started_at")
_ID = Column("job_id", "uuid", attrgetter("id"))

JOBS: Final = Table(
    "jobs",
    ("id",),
    (
        *_job_columns(JOB_KINDS, status=_cold_status),
        Column("payload", "json", None),
        Column("result", "json", None),
    ),
)
JOB_ENDS: Final = Table(
    "jobs",
    ("id",),
    (
        *_job_columns(
            ("id", "status", "finished_at", "error", "charged", "refunded", "delivered", "dead_at", *_HOT),
        ),
        Column("result", "json", None),
    ),
)
DEAD_MARKS: Final = Table("jobs", ("id",), _job_columns(("id", "dead_at")))
CHECKPOINTS: Final = Table(
    "checkpoints",
    ("job_id",),
    (
        _ID,
        Column("name", "text", attrgetter("checkpoint.name")),
        Column("progress", "number", attrgetter("checkpoint.progress")),
        Column("data", "json", attrgetter("checkpoint.data")),
        Column("saved_at", "instant", attrgetter("checkpoint.saved_at")),
    ),
)
assert Checkpoint.__struct_fields__ == tuple(column.name for column in CHECKPOINTS.columns[1:])

READY: Final = Table(
    "ready",
    ("job_id",),
    (
        _ID,
        *_job_columns(("account_id", "pool", "wait_until_at", *_HOT)),
        Column("rank", "number", attrgetter("place.rank")),
        Column("ages_at", "instant", attrgetter("place.ages_at")),
    ),
)
PARKED: Final = Table(
    "parked",
    ("job_id",),
    (
        _ID,
        *_job_columns(("account_id", "pool", "wait_until_at", *_HOT)),
        Column("rank", "number", attrgetter("place.rank")),
        Column("due_at", "instant", attrgetter("place.due_at")),
    ),
)


def _of_place(field: str, otherwise: str | None = None) -> Callable[[Job], Any]:
    """A field of a lease; a wait for a provider has another one in its stead, or none."""

    def get(job: Job) -> Any:
        found = getattr(job.place, field, None)
        return getattr(job.place, otherwise, None) if found is None and otherwise is not None else found

    return get


LEASES: Final = Table(
    "leases",
    ("job_id",),
    (
        _ID,
        *_job_columns(("account_id", "pool", "status", *_HOT)),
        Column("worker", "text", _of_place("worker")),
        Column("ref", "text", _of_place("ref")),
        Column("leased_at", "instant", _of_place("leased_at", "since_at")),
        Column("heartbeat_at", "instant", _of_place("heartbeat_at")),
        Column("expires_at", "instant", _of_place("expires_at")),
        Column("deadline_at", "instant", attrgetter("place.deadline_at")),
    ),
)

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def uuids(ids: Iterable[str]) -> list[str]:
    """The ids that a uuid column can hold, sorted. Others name nothing that exists; they must not fail a statement."""
    return sorted(filter(_UUID.fullmatch, ids))
