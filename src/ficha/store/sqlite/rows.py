"""How a record lies in its row, in both directions, by position.

A table's columns are the fields of its record, in their order; what does not lie flat (a job's place and checkpoint,
an event's data, a content's result) is put together here. Everything that knows the layout of a row belongs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import json
from msgspec.structs import astuple, replace

from ...core.records import AuditLine, Awaiting, Checkpoint, Content, Event, Job, Leased, Parked, Pool, Ready, Worker
from ...core.snapshot import JOB_PATHS
from ...core.snapshot import job_of as flat_job
from ..base import JobRow

Row = tuple[Any, ...]

_POOLS = Worker.__struct_fields__.index("pools")

JOB_COLUMNS = (*JOB_PATHS, "payload", "result")
HOT_COLUMNS = ("epoch", "attempts", "recoveries", "started_at", "events", "first_worker", "first_run_at")
"""What changes while a job is active: its narrow row has it."""
END_COLUMNS = (
    *("status", *HOT_COLUMNS, "finished_at", "error", "charged", "refunded", "delivered", "dead_at", "result"),
)
READY_COLUMNS = ("job_id", "account_id", "pool", "rank", "ages_at", "wait_until_at", *HOT_COLUMNS)
PARKED_COLUMNS = tuple("due_at" if name == "ages_at" else name for name in READY_COLUMNS)
LEASE_COLUMNS = (
    *("job_id", "account_id", "pool", "status", "worker", "ref", "leased_at", "heartbeat_at", "expires_at"),
    *("deadline_at", *HOT_COLUMNS),
)
CHECKPOINT_COLUMNS = ("job_id", *Checkpoint.__struct_fields__)
EVENT_COLUMNS = Event.__struct_fields__
AUDIT_COLUMNS = AuditLine.__struct_fields__

# What a statement reads to make a job, from `jobs` as j with the narrow tables as r, p and l and checkpoints as c.
_READ = {
    "status": "coalesce(l.status, j.status)",
    **{name: f"coalesce(l.{name}, r.{name}, p.{name}, j.{name})" for name in HOT_COLUMNS},
}
_PLACE_READ = (
    "r.rank, r.ages_at, p.rank, p.due_at, l.worker, l.ref, l.leased_at, l.heartbeat_at, l.expires_at, l.deadline_at"
)
_CHECKPOINT_READ = "c.name, c.progress, c.data, c.saved_at, c.partial"
_FLAT = len(JOB_COLUMNS) - 2
_WIDTH = _FLAT + 15

JOB_READ = ", ".join([_READ.get(name, f"j.{name}") for name in JOB_COLUMNS[:-2]] + [_PLACE_READ, _CHECKPOINT_READ])
JOB_JOINS = (
    "LEFT JOIN leases l ON l.job_id = j.id LEFT JOIN ready r ON r.job_id = j.id "
    "LEFT JOIN parked p ON p.job_id = j.id LEFT JOIN checkpoints c ON c.job_id = j.id"
)
# The same for a job that is known to be ready, so that the other narrow tables need not be asked.
READY_JOB_READ = ", ".join(
    [f"r.{name}" if name in HOT_COLUMNS else f"j.{name}" for name in JOB_COLUMNS[:-2]]
    + ["r.rank, r.ages_at", *["NULL"] * 8, _CHECKPOINT_READ]
)


def job_of(row: Row) -> Job:
    """The job in the first columns of a row, as `JOB_READ` names them."""
    checkpoint = None if row[_FLAT + 10] is None else Checkpoint(*row[_FLAT + 10 : _WIDTH])
    return flat_job(row, _place_of(row), checkpoint)


def _place_of(row: Row) -> Ready | Parked | Leased | Awaiting | None:
    rank, ages_at, parked_rank, due_at, worker, ref, leased_at, heartbeat_at, expires_at, deadline_at = row[
        _FLAT : _FLAT + 10
    ]
    if rank is not None:
        return Ready(rank, ages_at)
    if worker is not None:
        return Leased(worker, leased_at, heartbeat_at, expires_at, deadline_at)
    if parked_rank is not None:
        return Parked(parked_rank, due_at)
    if ref is not None:
        return Awaiting(ref, leased_at, deadline_at)
    return None


def payload_of(row: Row) -> str:
    """The payload that follows the job in a row."""
    text: str = row[_WIDTH]
    return text


def job_row_of(row: Row) -> JobRow:
    """A job with the payload and result that follow it in a row."""
    return JobRow(job_of(row), row[_WIDTH], row[_WIDTH + 1])


def job_values(job: Job, payload: str, result: str | None) -> Row:
    """The wide row at a job's birth. What changes while it is active is left to the narrow row."""
    if job.place is None:
        return (*_wide(job), payload, result)
    return (*_wide(replace(job, status="queued", **_UNBORN)), payload, result)


_UNBORN: dict[str, Any] = {
    **dict.fromkeys(("epoch", "attempts", "recoveries", "events"), 0),
    **dict.fromkeys(("started_at", "first_worker", "first_run_at")),
}
_wide = attrgetter(*JOB_PATHS.values())
_hot = attrgetter(*HOT_COLUMNS)


def end_values(job: Job, result: str | None) -> Row:
    """The key and the columns `END_COLUMNS` of a job that ended."""
    return (
        *(job.id, job.status, *_hot(job), job.finished_at, job.error),
        *(job.charged, job.refunded, job.delivered, job.dead_at, result),
    )


def ready_values(job: Job) -> Row:
    place = job.place
    assert type(place) is Ready
    return (
        *(job.id, job.account_id, job.spec.pool, place.rank, place.ages_at, job.wait_until_at),
        *_hot(job),
    )


def parked_values(job: Job) -> Row:
    place = job.place
    assert type(place) is Parked
    return (
        *(job.id, job.account_id, job.spec.pool, place.rank, place.due_at, job.wait_until_at),
        *_hot(job),
    )


def lease_values(job: Job) -> Row:
    match job.place:
        case Leased() as held:
            place: Row = (held.worker, None, held.leased_at, held.heartbeat_at, held.expires_at, held.deadline_at)
        case Awaiting() as outside:
            place = (None, outside.ref, outside.since_at, None, None, outside.deadline_at)
        case _:
            raise AssertionError(f"job {job.id} is not held")
    return (
        *(job.id, job.account_id, job.spec.pool, job.status, *place),
        *_hot(job),
    )


def checkpoint_values(job: Job) -> Row:
    assert job.checkpoint is not None
    return (job.id, *astuple(job.checkpoint))


def event_values(event: Event) -> Row:
    data = None if event.data is None else json.encode(event.data).decode()
    return (event.job_id, event.account_id, event.number, event.kind, event.at, data)


def event_of(row: Sequence[Any]) -> Event:
    job_id, account_id, number, kind, at, data = row
    return Event(job_id, account_id, number, kind, at, None if data is None else json.decode(data))


def audit_values(line: AuditLine) -> Row:
    return (line.at, line.actor, line.act, line.target, json.encode(line.details).decode())


def audit_of(row: Sequence[Any]) -> AuditLine:
    at, actor, act, target, details = row
    return AuditLine(at, actor, act, target, json.decode(details))


def content_values(content: Content) -> Row:
    return (content.tool, content.content_hash, content.job_id)


def pool_of(row: Row) -> Pool:
    name, slots, resized, paused = row
    return Pool(name, slots, resized, bool(paused))


def worker_values(worker: Worker) -> Row:
    values = astuple(worker)
    return (*values[:_POOLS], json.encode(worker.pools).decode(), *values[_POOLS + 1 :])


def worker_of(row: Row) -> Worker:
    name, host, pid, pools, *rest = row
    return Worker(name, host, pid, tuple(json.decode(pools)), *rest)


def listed(columns: Iterable[str], prefix: str = "") -> str:
    """Columns as a statement lists them."""
    return ", ".join(prefix + column for column in columns)


def insert(table: str, columns: Sequence[str], verb: str = "INSERT") -> str:
    marks = ", ".join("?" * len(columns))
    return f"{verb} INTO {table} ({listed(columns)}) VALUES ({marks})"


def upsert(table: str, columns: Sequence[str], key: Sequence[str]) -> str:
    changed = ", ".join(f"{column} = excluded.{column}" for column in columns if column not in key)
    return f"{insert(table, columns)} ON CONFLICT ({listed(key)}) DO UPDATE SET {changed}"


def update(table: str, columns: Sequence[str], changed: Sequence[str]) -> str:
    """An update by the first of `columns` that takes a whole row, like the insert, and writes what may have changed."""
    values = ", ".join(f"{column} = ?{number}" for number, column in enumerate(columns, 1) if column in changed)
    return f"UPDATE {table} SET {values} WHERE {columns[0]} = ?1"  # noqa: S608 (names from this package)
