"""How a job is stored in its rows, and read from them.

`jobs` is wide and written twice: at birth and at the end. In between a job has one narrow, hot row: in `ready`, in
`parked` or in `leases`. Its last checkpoint has a row of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import astuple, replace

from ...core.records import Awaiting, Checkpoint, Job, JobSpec, Leased, Parked, Place, Ready
from ...core.snapshot import JobChange
from ..base import LEFT_OUT
from .dialect import Dialect
from .tables import JOB_EVENTS, JOB_STEPS, Column, Row, Table, Values, columns, kinds

_SPEC: Final = JobSpec.__struct_fields__
_FLAT_KINDS: Final = kinds(Job, uuids="id batch_id requeue_of submitted_by")
_KINDS: Final = {name: _FLAT_KINDS.pop(name) for name in ("id", "account_id")} | kinds(JobSpec, uuids="part_of")
_KINDS.update({name: kind for name, kind in _FLAT_KINDS.items() if name not in ("spec", "place", "checkpoint")})
"""The columns of `jobs`: a job's fields, with those of its spec in the spec's place. Place and checkpoint have rows of
their own."""
HOT: Final = (
    *("epoch", "attempts", "recoveries", "started_at", "events", "late_finishes", "callbacks", "first_worker"),
    "first_run_at",
)
"""Fields that are in the hot row while the job is active, and in the wide row after its end."""
_END_ONLY: Final = (
    *("finished_at", "error", "user_error", "charged", "refunded", "delivered", "dead_at", "provider_cost"),
)
_END: Final = ("id", "status", *_END_ONLY, *HOT)
_AMENDED: Final = ("id", "refunded", "dead_at", "events", "late_finishes", "callbacks", "provider_cost")
_REMOVED: Final = (*_END, "removed_at", "payload_removed_at")
_EMPTIED: Final = (*_AMENDED, "payload_removed_at")
_WAITING: Final = ("account_id", "pool", "wait_until_at", *HOT)
_HELD: Final = ("account_id", "pool", "status", *HOT)
_ID: Final = Column("job_id", "uuid")
_RESULT: Final = Column("result", "json")


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, _KINDS[name]) for name in names)


def _fields(*names: str) -> Callable[[Job], Values]:
    """Reads these columns from a job, also those of its spec."""
    return attrgetter(*(f"spec.{name}" if name in _SPEC else name for name in names))


def _birth(born: tuple[Job, str, str | None]) -> Values:
    """While a job is active, the status in its wide row is 'queued', whatever its hot row says."""
    job, payload, result = born
    stored = job if job.place is None or job.status == "queued" else replace(job, status="queued")
    return *_wide(stored), payload, result


def _end(ended: tuple[Job, str | None]) -> Values:
    job, result = ended
    return *_ending(job), result


def _removal(removed: tuple[Job, str, str]) -> Values:
    job, *texts = removed
    return *_removing(job), *texts


def _emptying(emptied: tuple[Job, str]) -> Values:
    job, payload = emptied
    return *_fields(*_EMPTIED)(job), payload


def _lease(job: Job) -> Values:
    """A worker's lease, or a wait for a provider, which has a reference instead of a worker and never expires."""
    at = job.place
    if type(at) is Leased:  # (Every claim runs this; `match` takes three times as long.)
        return *_held(job), at.worker, None, at.leased_at, at.heartbeat_at, at.expires_at, at.deadline_at, None
    assert type(at) is Awaiting, f"job {job.id} is not held"
    return *_held(job), None, at.ref, at.since_at, None, None, at.deadline_at, at.poll_at


def _waiting(name: str, *more: Column) -> Table:
    own = ("place.rank", *(f"place.{column.name}" for column in more))
    found = (_ID, *_columns(*_WAITING), Column("rank", "number"), *more)
    return Table(name, ("job_id",), found, _fields("id", *_WAITING, *own))


_wide: Final = _fields(*_KINDS)
_ending: Final = _fields(*_END)
_removing: Final = _fields(*_REMOVED)
_held: Final = _fields("id", *_HELD)
_hot: Final = _fields(*HOT)

JOBS: Final = Table("jobs", ("id",), (*columns(_KINDS), Column("payload", "json"), _RESULT), _birth)
JOB_ENDS: Final = Table("jobs", ("id",), (*_columns(*_END), _RESULT), _end)
JOB_REMOVALS: Final = Table("jobs", ("id",), (*_columns(*_REMOVED), *JOBS.columns[-2:]), _removal)
JOB_PAYLOADS: Final = Table("jobs", ("id",), (*_columns(*_EMPTIED), JOBS.columns[-2]), _emptying)
JOB_AMENDS: Final = Table("jobs", ("id",), _columns(*_AMENDED), _fields(*_AMENDED))
CHECKPOINTS: Final = Table(
    "checkpoints",
    ("job_id",),
    (_ID, *columns(kinds(Checkpoint, texts_of_json="data partial"))),
    lambda job: (job.id, *astuple(job.checkpoint)),
)
READY: Final = _waiting("ready", Column("ages_at", "instant"))
PARKED: Final = _waiting("parked", Column("due_at", "instant"), Column("behind", "uuid"))
_INSTANTS: Final = ("leased_at", "heartbeat_at", "expires_at", "deadline_at", "poll_at")
_TIMES: Final = tuple(Column(name, "instant") for name in _INSTANTS)
_LEASE: Final = (Column("worker", "text"), Column("ref", "text"), *_TIMES)
LEASES: Final = Table("leases", ("job_id",), (_ID, *_columns(*_HELD), *_LEASE), _lease)

JOB_TABLES: Final = (JOBS, CHECKPOINTS, JOB_STEPS, JOB_EVENTS)
"""All that is deleted with a job that has ended, by the job's id."""

HOT_ROWS: Final = (
    "LEFT JOIN ficha.leases l ON l.job_id = j.id LEFT JOIN ficha.ready r ON r.job_id = j.id "
    "LEFT JOIN ficha.parked p ON p.job_id = j.id LEFT JOIN ficha.checkpoints c ON c.job_id = j.id"
)
"""The joins that `job_columns` reads from, besides `jobs j`."""
_PLACES: Final = {"r": READY.columns[-2:], "p": PARKED.columns[-3:], "l": LEASES.columns[-7:]}
"""The columns of the hot rows that make up the place, by the alias of the table."""
_FLAT: Final = len(_KINDS)
_CHECKPOINT_AT: Final = _FLAT + sum(map(len, _PLACES.values()))
JOB_WIDTH: Final = _CHECKPOINT_AT + len(Checkpoint.__struct_fields__)
"""How many columns `job_columns` has."""


def job_columns(sql: Dialect, hot: str = "lrp", *, texts: bool = True) -> str:
    """All columns of a job, from `jobs j`, `checkpoints c` and the hot tables with these aliases (see `HOT_ROWS`).

    texts: whether to read the checkpoint's texts, or to leave them out as lists do."""
    found = {name: f"j.{name}" for name in _KINDS}
    if "l" in hot:
        found["status"] = "coalesce(l.status, j.status)"
    for name in HOT:
        sources = [f"{alias}.{name}" for alias in hot] or [f"j.{name}"]
        found[name] = sources[0] if len(sources) == 1 else f"coalesce({', '.join(sources)}, j.{name})"
    flat = [sql.read(expression, _KINDS[name]) for name, expression in found.items()]
    place = [
        sql.read(f"{alias}.{column.name}", column.kind) if alias in hot else sql.null(column.kind)
        for alias, found_there in _PLACES.items()
        for column in found_there
    ]
    checkpoint = [
        sql.read(f"c.{column.name}", column.kind) if texts or column.kind != "json" else f"'{LEFT_OUT}'"
        for column in CHECKPOINTS.columns[1:]
    ]
    return ", ".join([*flat, *place, *checkpoint])


_SPEC_END: Final = 2 + len(_SPEC)
_PLACE: Final = _SPEC_END + Job.__struct_fields__.index("place") - 3
_CHECKPOINT: Final = _SPEC_END + Job.__struct_fields__.index("checkpoint") - 4


def job_of(row: Row) -> Job:
    """A job from the columns of `job_columns`; further ones may follow."""
    checkpoint = None if row[_CHECKPOINT_AT] is None else Checkpoint(*row[_CHECKPOINT_AT:JOB_WIDTH])
    fields: list[Any] = [
        *(*row[:2], JobSpec(*row[2:_SPEC_END]), *row[_SPEC_END:_PLACE], _place(row)),
        *(*row[_PLACE:_CHECKPOINT], checkpoint, *row[_CHECKPOINT:_FLAT]),
    ]
    return Job(*fields)


def _place(row: Row) -> Place | None:
    rank, ages_at, parked_rank, due_at, behind, worker, ref, leased_at, *times = row[_FLAT:_CHECKPOINT_AT]
    if worker is not None:
        return Leased(worker, leased_at, *times[:3])
    if rank is not None:
        return Ready(rank, ages_at)
    if parked_rank is not None:
        return Parked(parked_rank, due_at, behind)
    return None if ref is None else Awaiting(ref, leased_at, *times[2:])


class JobRows(Struct):
    """Job changes as row operations, the same for every store.

    born: jobs to insert into the wide table. ended: jobs whose end is written there. amended: jobs that had ended
    before and whose refund, dead-letter mark or counts changed, and jobs whose provider charged for a run that did not
    end them. removed: jobs whose work is removed, including those that end now. emptied: ended jobs whose payload is
    removed. checkpoints: jobs whose checkpoint changed. places: changes of hot rows, under the table's name with
    `_gone` (ids), `_new` or `_changed` (jobs).
    """

    born: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    amended: list[Job] = field(default_factory=list)
    removed: list[Job] = field(default_factory=list)
    emptied: list[Job] = field(default_factory=list)
    checkpoints: list[Job] = field(default_factory=list)
    places: dict[str, list[Any]] = field(default_factory=dict)

    def move(self, place: str, row: Job | str) -> None:
        self.places.setdefault(place, []).append(row)


_TABLES: Final = {Ready: "ready", Parked: "parked", Leased: "leases", Awaiting: "leases", type(None): None}


def job_rows(changes: list[JobChange], forgotten: Collection[str] = ()) -> JobRows:
    """Sorts job changes into row operations. A `forgotten` job is deleted separately, so only its hot row changes."""
    rows = JobRows()
    for change in changes:
        before, after = change.before, change.after
        if after.id in forgotten:
            _sort_place(rows, before, after)
            continue
        if before is None:
            rows.born.append(after)
        elif before.removed_at != after.removed_at:
            rows.removed.append(after)
        elif before.payload_removed_at != after.payload_removed_at:
            rows.emptied.append(after)
        elif before.place is not None and after.place is None:
            rows.ended.append(after)
        elif before.place is None or before.provider_cost != after.provider_cost:
            rows.amended.append(after)
        if after.checkpoint is not None and (before is None or before.checkpoint != after.checkpoint):
            rows.checkpoints.append(after)
        _sort_place(rows, before, after)
    return rows


def _sort_place(rows: JobRows, before: Job | None, after: Job) -> None:
    source = _TABLES[type(before.place)] if before is not None else None
    target = _TABLES[type(after.place)]
    if source == target:
        if target is not None and before is not None and hot(before) != hot(after):
            rows.move(f"{target}_changed", after)
        return
    if source is not None:
        rows.move(f"{source}_gone", after.id)
    if target is not None:
        rows.move(f"{target}_new", after)


def hot(job: Job) -> Values:
    """The part of a job that is stored in its hot row while it is active."""
    return job.status, job.place, *_hot(job)
