"""What a job's events tell of its runs: when each began, how it ended, and how long each step took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from .history import told_by_row
from .records import HELD, Event, Job

RunEnd = Literal["completed", "failed", "cancelled", "retried", "recovered", "returned"]
"""How a run ended; `recovered`: it was lost with its worker, `returned`: its worker stopped."""
_ENDS: Final = frozenset(("completed", "failed", "cancelled", "retried", "recovered", "returned"))
_TIMED: Final = frozenset(("claimed", "started", "checkpoint", "step"))
TELL_OF_RUNS: Final = tuple(sorted(_ENDS | _TIMED))
"""The kinds of events that this module reads."""


class Attempt(Struct, frozen=True):
    """One run of a job. `ended_at` and `end` are None while it runs; `error` is why it ended, if there is a reason."""

    number: int
    worker: str | None
    began_at: int
    ended_at: int | None = None
    end: RunEnd | None = None
    error: str | None = None


def attempts(job: Job, kept: Sequence[Event]) -> list[Attempt]:
    """The runs of a job, oldest first; `kept` are its stored events of the kinds `TELL_OF_RUNS`, in order."""
    found: list[Attempt] = []
    for kind, at, data in _told(job, kept):
        if kind == "claimed":
            found.append(Attempt(len(found) + 1, data.get("worker"), at))
        elif kind in _ENDS and found and found[-1].ended_at is None:
            error = data.get("error", data.get("reason"))
            found[-1] = replace(found[-1], ended_at=at, end=kind, error=error)
    if found and found[-1].ended_at is None and not isinstance(job.place, HELD):
        # A query reads a limited number of events, so the event of the run's end may be missing.
        found[-1] = replace(found[-1], ended_at=job.finished_at)
    return found


def step_times(job: Job, kept: Sequence[Event]) -> dict[str, int]:
    """Returns how many microseconds each step took, by name: since the step, the checkpoint or the start before it."""
    found: dict[str, int] = {}
    since_at: int | None = None
    for kind, at, data in _told(job, kept):
        if kind == "step" and since_at is not None:
            found[data["name"]] = max(0, at - since_at)
        if kind in _TIMED:
            since_at = at
    return found


def last_traceback(kept: Iterable[Event]) -> str | None:
    """The traceback of the last run that failed, if its worker sent one."""
    texts = [event.data["traceback"] for event in kept if event.data is not None and "traceback" in event.data]
    return texts[-1] if texts else None


def _told(job: Job, kept: Sequence[Event]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Kind, time and data of each event. The events that follow from the row are those of the first run, which come
    before all that is stored, and the end."""
    by_row = [(kind, at, data or {}) for kind, at, data in told_by_row(job) if at is not None]
    yield from (told for told in by_row if told[0] not in _ENDS)
    yield from ((event.kind, event.at, event.data or {}) for event in kept)
    yield from (told for told in by_row if told[0] in _ENDS)
