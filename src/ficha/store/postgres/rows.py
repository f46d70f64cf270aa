"""Rows that were read, as records. The order of the columns is the order of the record's fields, by construction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...core.records import AuditLine, Awaiting, Checkpoint, Event, Job, Leased, Parked, Place, Ready, Worker
from ...core.snapshot import job_of
from .sql_types import instant, read
from .tables import HOT, JOB_KINDS

Row = Sequence[Any]

_WIDTH: Final = len(JOB_KINDS)


def job_columns(*, status: str, hot: str, place: str) -> str:
    """A job whole, from `jobs j` and `checkpoints c`.

    `status` is the expression of the status and `place` the eight columns of the place; `hot` is the pattern of what
    the hot row holds while the job is active.
    """
    found = {name: read(f"j.{name}", kind) for name, kind in JOB_KINDS.items()}
    found["status"] = status
    found.update({name: read(hot.format(name), JOB_KINDS[name]) for name in HOT})
    checkpoint = f"c.name, c.progress, c.data::text, {instant('c.saved_at')}, c.partial::text"
    return ", ".join([*found.values(), place, checkpoint])


_NO_LEASE: Final = "NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::bigint"

READY_JOB: Final = job_columns(
    status="'queued'",
    hot="r.{}",
    place=f"'ready', r.rank, {instant('r.ages_at')}, {_NO_LEASE}",
)
"""A job known to be ready, with `ready r`."""

PARKED_JOB: Final = job_columns(
    status="'queued'",
    hot="p.{}",
    place=f"'parked', p.rank, {instant('p.due_at')}, {_NO_LEASE}",
)
"""A job known to be parked, with `parked p`."""

ANY_JOB: Final = job_columns(
    status="coalesce(l.status, j.status)",
    hot="coalesce(l.{0}, r.{0}, p.{0}, j.{0})",
    place=(
        "CASE WHEN l.ref IS NOT NULL THEN 'awaiting' WHEN l.job_id IS NOT NULL THEN 'leased' "
        "WHEN r.job_id IS NOT NULL THEN 'ready' WHEN p.job_id IS NOT NULL THEN 'parked' END, "
        f"coalesce(r.rank, p.rank), {instant('coalesce(r.ages_at, p.due_at, l.deadline_at)')}, "
        f"l.worker, l.ref, {instant('l.leased_at')}, {instant('l.heartbeat_at')}, {instant('l.expires_at')}"
    ),
)
"""A job wherever it is, with `HOT_ROWS`."""


HOT_ROWS: Final = (
    "LEFT JOIN leases l ON l.job_id = j.id LEFT JOIN ready r ON r.job_id = j.id "
    "LEFT JOIN parked p ON p.job_id = j.id LEFT JOIN checkpoints c ON c.job_id = j.id"
)
"""For lists, which may start from any of them."""


def beside(table: str, alias: str, job_id: str) -> str:
    """A job's row of a table, if it has one: looked up, and never found by reading all of it (see `parts.py`)."""
    found = f"SELECT * FROM {table} k WHERE k.job_id = {job_id} OFFSET 0"  # noqa: S608 (names of our own)
    return f"LEFT JOIN LATERAL ({found}) AS {alias} ON true"


OWN_HOT_ROWS: Final = " ".join(
    beside(table, table[0], "j.id") for table in ("leases", "ready", "parked", "checkpoints")
)
"""For jobs that are known."""


def job(row: Row) -> Job:
    """A job from the columns of `job_columns`; further ones may follow."""
    name = row[_WIDTH + 8]
    checkpoint = None if name is None else Checkpoint(name, *row[_WIDTH + 9 : _WIDTH + 13])
    return job_of(row, _place(*row[_WIDTH : _WIDTH + 8]), checkpoint)


JOB_WIDTH: Final = _WIDTH + 13
"""How many columns `job_columns` has."""


def _place(
    place: str | None,
    rank: int,
    until_at: Any,
    worker: str,
    ref: str,
    leased_at: int,
    heartbeat_at: int,
    expires_at: int,
) -> Place | None:
    match place:
        case "ready":
            return Ready(rank, until_at)
        case "parked":
            return Parked(rank, until_at)
        case "leased":
            return Leased(worker, leased_at, heartbeat_at, expires_at, until_at)
        case "awaiting":
            return Awaiting(ref, leased_at, until_at)
        case _:
            return None


def event(job_id: str, account_id: str, number: int, kind: str, at: int, data: str | None) -> Event:
    return Event(job_id, account_id, number, kind, at, None if data is None else msgspec.json.decode(data))


def audit_line(at: int, actor: str, act: str, target: str, details: str) -> AuditLine:
    return AuditLine(at, actor, act, target, msgspec.json.decode(details))


def worker(name: str, host: str, pid: int, pools: str, *rest: Any) -> Worker:
    return Worker(name, host, pid, tuple(msgspec.json.decode(pools)), *rest)
