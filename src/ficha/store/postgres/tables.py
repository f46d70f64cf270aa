"""The tables as data: which columns each has, of which kind, and how a record becomes their values.

How a value of a kind travels is in `values.py`; what a statement does with the columns is for `load.py`, `parts.py` and
`reads.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import astuple, fields, replace

from ...core.records import (
    Account,
    ApiKey,
    ApiKeyUse,
    AuditLine,
    Awaiting,
    Batch,
    Checkpoint,
    Entry,
    Event,
    Job,
    JobSpec,
    Key,
    Leader,
    Leased,
    Pool,
    Reservation,
    Step,
    Tally,
    Worker,
)
from ...core.snapshot import JOB_PATHS
from .sql_types import Column, Kind, read

Row = Callable[[Any], tuple[Any, ...]]


class Table(Struct, frozen=True):
    """Columns, and how a record becomes their values, in the same order.

    Where values are missing at the end, they travel beside the record.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    row: Row

    def selected(self, alias: str) -> str:
        """All columns in the order of the record's fields."""
        return ", ".join(read(f"{alias}.{column.name}", column.kind) for column in self.columns)


def _columns(kinds: Mapping[str, Kind]) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


def _table(name: str, record: type[Struct], key: tuple[str, ...], kinds: Mapping[str, Kind]) -> Table:
    """A table that holds a record field by field."""
    assert tuple(kinds) == record.__struct_fields__, f"{name}: {record.__struct_fields__}"
    return Table(name, key, _columns(kinds), astuple)


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
        "reserved": "number",
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
ACCOUNT_IDS: Final = Table("account_ids", ("id",), _columns({"id": "text"}), lambda account: (account.id,))
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


_WORKER_KINDS: Final[dict[str, Kind]] = {
    "name": "text",
    "host": "text",
    "pid": "number",
    "pools": "json",
    "concurrency": "number",
    "version": "text",
    "heartbeat_ms": "number",
    "started_at": "instant",
    "seen_at": "instant",
    "stopped_at": "instant",
}
_POOLS: Final = Worker.__struct_fields__.index("pools")


def _worker_row(worker: Worker) -> tuple[Any, ...]:
    values = astuple(worker)
    return *values[:_POOLS], msgspec.json.encode(worker.pools).decode(), *values[_POOLS + 1 :]


WORKERS: Final = replace(_table("workers", Worker, ("name",), _WORKER_KINDS), row=_worker_row)
TALLIES: Final = _table(
    "worker_counts",
    Tally,
    ("worker", "kind"),
    {"worker": "text", "kind": "text", "runs": "number", "busy_us": "number"},
)


def _event_row(event: Event) -> tuple[Any, ...]:
    data = None if event.data is None else msgspec.json.encode(event.data).decode()
    return event.job_id, event.account_id, event.number, event.kind, event.at, data


EVENTS: Final = Table(
    "events",
    ("job_id", "number"),
    _columns(
        {"job_id": "uuid", "account_id": "text", "number": "number", "kind": "text", "at": "instant", "data": "json"}
    ),
    _event_row,
)
assert Event.__struct_fields__ == tuple(column.name for column in EVENTS.columns)
API_KEYS: Final = _table(
    "api_keys",
    ApiKey,
    ("id",),
    {
        "id": "uuid",
        "name": "text",
        "hint": "text",
        "digest": "text",
        "scope": "text",
        "account_id": "text",
        "created_at": "instant",
        "expires_at": "instant",
        "revoked_at": "instant",
    },
)
API_KEY_USES: Final = _table("api_key_uses", ApiKeyUse, ("key_id",), {"key_id": "uuid", "at": "instant"})


def _audit_row(line: AuditLine) -> tuple[Any, ...]:
    return line.at, line.actor, line.act, line.target, msgspec.json.encode(line.details).decode()


AUDIT: Final = Table(
    "audit",
    ("number",),
    _columns({"at": "instant", "actor": "text", "act": "text", "target": "text", "details": "json"}),
    _audit_row,
)
assert AuditLine.__struct_fields__ == tuple(column.name for column in AUDIT.columns)
CONTENTS: Final = Table(
    "contents",
    ("tool", "content_hash"),
    _columns({"tool": "text", "content_hash": "text", "job_id": "uuid"}),
    attrgetter("tool", "content_hash", "job_id"),
)
COMMITS: Final = Table(
    "commits",
    ("number",),
    _columns({"committer": "uuid", "sequence": "number", "at": "instant", "size": "number", "events": "text"}),
    tuple,
)

_TYPES: Final = {field.name: field.type for record in (Job, JobSpec) for field in fields(record)}


def _job_kind(name: str) -> Kind:
    if name in ("id", "batch_id", "requeue_of"):
        return "uuid"
    if int not in (get_args(_TYPES[name]) or (_TYPES[name],)):
        return "text"
    return "instant" if name.endswith("_at") else "number"


JOB_KINDS: Final[dict[str, Kind]] = {name: _job_kind(name) for name in JOB_PATHS}
"""The columns of `jobs`; a job's place and its checkpoint have tables of their own."""


HOT: Final = ("epoch", "attempts", "recoveries", "started_at", "events", "first_worker", "first_run_at")
"""What changes while a job is active: its narrow row has it."""
_ID: Final = Column("job_id", "uuid")


def _job_columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, JOB_KINDS[name]) for name in names)


def _paths(*names: str) -> tuple[str, ...]:
    return tuple(JOB_PATHS[name] for name in names)


_job: Final = attrgetter(*JOB_PATHS.values())


def _job_row(job: Job) -> tuple[Any, ...]:
    """While a job is active its wide row says 'queued', whatever its hot row says."""
    is_queued = job.place is None or job.status == "queued"
    return _job(job if is_queued else replace(job, status="queued"))


JOBS: Final = Table(
    "jobs",
    ("id",),
    (*_job_columns(*JOB_KINDS), Column("payload", "json"), Column("result", "json")),
    _job_row,
)
_END = ("id", "status", "finished_at", "error", "charged", "refunded", "delivered", "dead_at", *HOT)
JOB_ENDS: Final = Table("jobs", ("id",), (*_job_columns(*_END), Column("result", "json")), attrgetter(*_END))
_AMENDED = ("id", "dead_at", "events")
JOB_AMENDS: Final = Table("jobs", ("id",), _job_columns(*_AMENDED), attrgetter(*_AMENDED))
CHECKPOINTS: Final = Table(
    "checkpoints",
    ("job_id",),
    (_ID, *_columns({"name": "text", "progress": "number", "data": "json", "saved_at": "instant", "partial": "json"})),
    lambda job: (job.id, *astuple(job.checkpoint)),
)
assert Checkpoint.__struct_fields__ == tuple(column.name for column in CHECKPOINTS.columns[1:])

_WAITING = ("account_id", "pool", "wait_until_at", *HOT)
READY: Final = Table(
    "ready",
    ("job_id",),
    (_ID, *_job_columns(*_WAITING), Column("rank", "number"), Column("ages_at", "instant")),
    attrgetter("id", *_paths(*_WAITING), "place.rank", "place.ages_at"),
)
PARKED: Final = Table(
    "parked",
    ("job_id",),
    (_ID, *_job_columns(*_WAITING), Column("rank", "number"), Column("due_at", "instant")),
    attrgetter("id", *_paths(*_WAITING), "place.rank", "place.due_at"),
)

_HELD = ("account_id", "pool", "status", *HOT)
_held: Final = attrgetter("id", *_paths(*_HELD))


def _lease_row(job: Job) -> tuple[Any, ...]:
    """A worker's lease, or a wait for a provider, which has a reference instead of a worker and never expires."""
    place = job.place
    if type(place) is Leased:
        return (
            *_held(job),
            place.worker,
            None,
            place.leased_at,
            place.heartbeat_at,
            place.expires_at,
            place.deadline_at,
        )
    assert type(place) is Awaiting
    return (*_held(job), None, place.ref, place.since_at, None, None, place.deadline_at)


LEASES: Final = Table(
    "leases",
    ("job_id",),
    (
        _ID,
        *_job_columns(*_HELD),
        *_columns({"worker": "text", "ref": "text"}),
        *_columns(dict.fromkeys(("leased_at", "heartbeat_at", "expires_at", "deadline_at"), "instant")),
    ),
    _lease_row,
)
