"""What a store hands to `decide`, and what `decide` hands back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import astuple

from .records import (
    Account,
    ApiKey,
    ApiKeyUse,
    AuditLine,
    Awaiting,
    Batch,
    Checkpoint,
    Content,
    Entry,
    Event,
    Job,
    JobSpec,
    Key,
    KeyName,
    Leader,
    Leased,
    Parked,
    Place,
    Pool,
    Ready,
    Reservation,
    Step,
    Tally,
    Worker,
)


class Snapshot(Struct):
    """The rows that a commit group needs, as they stand under its locks. What was asked for and does not exist is None.

    parked and ready list job ids in claim order (rank, then id); those jobs are in `jobs` too.
    """

    now: int
    accounts: dict[str, Account | None] = field(default_factory=dict)
    jobs: dict[str, Job | None] = field(default_factory=dict)
    payloads: dict[str, str] = field(default_factory=dict)
    steps: dict[tuple[str, str], str | None] = field(default_factory=dict)
    keys: dict[KeyName, Key | None] = field(default_factory=dict)
    reservations: dict[str, Reservation | None] = field(default_factory=dict)
    reservations_of: dict[str, list[Reservation]] = field(default_factory=dict)
    parked: dict[str, list[str]] = field(default_factory=dict)
    pools: dict[str, Pool | None] = field(default_factory=dict)
    occupied: dict[str, int] = field(default_factory=dict)
    ready: dict[str, list[str]] = field(default_factory=dict)
    contents: dict[tuple[str, str], Content | None] = field(default_factory=dict)
    leaders: dict[str, Leader | None] = field(default_factory=dict)
    batches: dict[str, Batch | None] = field(default_factory=dict)
    api_keys: dict[str, ApiKey | None] = field(default_factory=dict)
    api_keys_of: dict[str, list[ApiKey]] = field(default_factory=dict)


class JobChange(Struct, frozen=True, gc=False):
    """A job as it was (None: it is new) and as it is now."""

    before: Job | None
    after: Job


class Changes(Struct):
    """The rows to write: the new value of each record that changed, and the lines to append.

    results holds the result text of jobs that ended in this group, payloads that of jobs that are new.
    tallies are added to what is counted already. events is all that happened, for followers; history holds those of
    them that a job's row does not tell, which are kept as rows.
    """

    accounts: list[Account] = field(default_factory=list)
    jobs: list[JobChange] = field(default_factory=list)
    payloads: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    forgotten_keys: list[KeyName] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    pools: list[Pool] = field(default_factory=list)
    contents: list[Content] = field(default_factory=list)
    leaders: list[Leader] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    history: list[Event] = field(default_factory=list)
    api_keys: list[ApiKey] = field(default_factory=list)
    api_key_uses: list[ApiKeyUse] = field(default_factory=list)
    audit: list[AuditLine] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(astuple(self))


JOB_PATHS: Final = {
    **{name: name for name in ("id", "account_id")},
    **{name: f"spec.{name}" for name in JobSpec.__struct_fields__},
    **{name: name for name in Job.__struct_fields__[3:] if name not in ("place", "checkpoint")},
}
"""The columns of a job's wide row, each with where the job has it. Place and checkpoint have rows of their own."""
_SPEC_END: Final = 2 + len(JobSpec.__struct_fields__)
_PLACE: Final = _SPEC_END + Job.__struct_fields__.index("place") - 3
_CHECKPOINT: Final = _SPEC_END + Job.__struct_fields__.index("checkpoint") - 4


def job_of(row: Sequence[Any], place: Place | None, checkpoint: Checkpoint | None) -> Job:
    """A job from what stands in the columns `JOB_PATHS`, further ones may follow; and its place and checkpoint."""
    fields = [
        *row[:2],
        JobSpec(*row[2:_SPEC_END]),
        *row[_SPEC_END:_PLACE],
        place,
        *row[_PLACE:_CHECKPOINT],
        checkpoint,
        *row[_CHECKPOINT : len(JOB_PATHS)],
    ]
    return Job(*fields)


class PlaceRows(Struct):
    """How the hot rows move: what each of the three narrow tables drops, gains and rewrites."""

    ready_gone: list[str] = field(default_factory=list)
    ready_new: list[Job] = field(default_factory=list)
    ready_changed: list[Job] = field(default_factory=list)
    parked_gone: list[str] = field(default_factory=list)
    parked_new: list[Job] = field(default_factory=list)
    parked_changed: list[Job] = field(default_factory=list)
    leases_gone: list[str] = field(default_factory=list)
    leases_new: list[Job] = field(default_factory=list)
    leases_changed: list[Job] = field(default_factory=list)


class JobRows(Struct):
    """Job changes as row operations, the same for every store.

    born: new rows of the wide table. ended: rows of the wide table whose end is written. amended: rows of jobs that
    had ended before, whose dead-letter mark or count of events changed. checkpoints: jobs whose checkpoint changed.
    """

    born: list[Job] = field(default_factory=list)
    ended: list[Job] = field(default_factory=list)
    amended: list[Job] = field(default_factory=list)
    checkpoints: list[Job] = field(default_factory=list)
    places: PlaceRows = field(default_factory=PlaceRows)


_TABLES = {Ready: "ready", Parked: "parked", Leased: "leases", Awaiting: "leases", type(None): None}


def job_rows(changes: list[JobChange]) -> JobRows:
    """Sorts job changes into row operations."""
    rows = JobRows()
    for change in changes:
        before, after = change.before, change.after
        if before is None:
            rows.born.append(after)
        elif before.place is not None and after.place is None:
            rows.ended.append(after)
        elif before.place is None:
            rows.amended.append(after)
        if after.checkpoint is not None and (before is None or before.checkpoint != after.checkpoint):
            rows.checkpoints.append(after)
        _sort_place(rows.places, before, after)
    return rows


def _sort_place(places: PlaceRows, before: Job | None, after: Job) -> None:
    source = _TABLES[type(before.place)] if before is not None else None
    target = _TABLES[type(after.place)]
    if source == target:
        if target is not None and before is not None and hot(before) != hot(after):
            getattr(places, f"{target}_changed").append(after)
        return
    if source is not None:
        getattr(places, f"{source}_gone").append(after.id)
    if target is not None:
        getattr(places, f"{target}_new").append(after)


def hot(job: Job) -> tuple[object, ...]:
    """The part of a job that lives in its narrow row while it is active."""
    return (
        *(job.status, job.place, job.epoch, job.attempts, job.recoveries, job.started_at),
        *(job.events, job.first_worker, job.first_run_at),
    )
