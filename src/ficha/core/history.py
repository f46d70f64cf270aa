"""A job's history: which events follow from the job's row, and which need a row of their own.

Nearly every job is submitted, claimed, started and completed, once each. The job's row says when that was and who did
it, so these events are derived and cost no row. All others are stored. Each event has a number in the job's history:
stored events keep theirs, and derived events fill the gaps, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec.structs import replace

from .records import Event, Job

QUOTING: Final = ("callback", "late", "log")
"""The events that quote what a job was given or made. They lose their data when the job's work is removed."""


def is_ordinary(event: Event) -> bool:
    """Whether the event follows from the job's row: submit, first claim, start of that run, complete result."""
    match event.kind:
        case "submitted":
            return True
        case "claimed" | "started":
            return event.data is not None and event.data["epoch"] == 1
        case "completed" | "reused":
            return event.data is None
        case _:
            return False


def without_quotes(event: Event) -> Event:
    """The event of a job whose work was removed."""
    return replace(event, data=None) if event.kind in QUOTING else event


def history(job: Job, rows: Sequence[Event]) -> list[Event]:
    """All events of a job in order; `rows` are the stored ones, in order."""
    return history_page(job, rows, 0, 0, job.events)


def history_page(job: Job, rows: Sequence[Event], rows_before: int, after: int, limit: int) -> list[Event]:
    """The events numbered above `after`, at most `limit`.

    rows: at least the first `limit` stored events above `after`, in order.
    rows_before: how many stored events are numbered up to `after`.
    """
    first, last = after + 1, min(job.events, after + limit)
    if last < first:
        return []
    told = list(told_by_row(job))[after - rows_before :]
    kept = {row.number: row for row in rows if row.number <= last}
    missing = last - after - len(kept)
    # A completion with a partial delivery is a stored event; then the derived completion is one too many.
    left = len(told) - missing
    is_whole = left >= 0 and (last < job.events or left <= (job.status == "completed"))
    assert is_whole, f"job {job.id} counts {job.events} events, its history has others"
    rest = iter(told)
    return [kept.get(number) or _numbered(job, number, next(rest)) for number in range(first, last + 1)]


_Told = tuple[str, int | None, dict[str, Any] | None]


def told_by_row(job: Job) -> Iterator[_Told]:
    """The events that follow from the job's row: kind, time and data of each, in order."""
    yield "submitted", job.created_at, None if job.requeue_of is None else {"requeue_of": job.requeue_of}
    if job.first_worker is not None:
        yield "claimed", job.started_at, {"worker": job.first_worker, "epoch": 1}
    if job.first_run_at is not None:
        yield "started", job.first_run_at, {"epoch": 1}
    if job.status == "completed":
        yield "completed" if job.started_at is not None else "reused", job.finished_at, None


def _numbered(job: Job, number: int, told: _Told) -> Event:
    kind, at, data = told
    assert at is not None, f"job {job.id} does not say when it was {kind}"
    return Event(job.id, job.account_id, number, kind, at, data)
