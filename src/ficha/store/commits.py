"""The events of each commit as one text, for followers, and each event's position in the log of all commits; and the
figures of each commit, for whoever adds them up.

A row of `commits` also marks the commit as done, under its committer's id and number. Every commit writes one, so the
text is compact: JSON, with one array for consecutive events of the same job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ..core.records import Event, Figures
from ..core.snapshot import Changes
from .base import Commit, NumberedEvent

EVENTS_PER_COMMIT: Final = 16_384
"""Events in one row, at most; a commit with more has further rows, without a marker."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[list[Any]]).decode
decoded_figures: Final = msgspec.json.Decoder(Figures).decode
"""The figures in the text of a commit."""


def commit_texts(events: Sequence[Event]) -> list[tuple[int, str]]:
    """The rows for these events, each as its number of events and its text. There is at least one, possibly empty."""
    parts = range(0, len(events), EVENTS_PER_COMMIT) or (0,)
    return [(len(part), encoded(part)) for n in parts for part in (events[n : n + EVENTS_PER_COMMIT],)]


def commit_rows(marker: tuple[str, int] | None, now: int, changes: Changes) -> list[tuple[Any, ...]]:
    """The rows of `commits` for a commit; the first one has the marker, if there is one, and the figures."""
    (size, text), *more = commit_texts(changes.events)
    figures = None if changes.figures is None else _encode(changes.figures).decode()
    first = (*(marker or (None, None)), now, size, text, figures)
    return [first, *((None, None, now, size, text, None) for size, text in more)]


def encoded(events: Sequence[Event]) -> str:
    """The events as text, consecutive ones of a job as `[job, account, first number, kind, data, kind, data, …]`."""
    runs: list[list[Any]] = []
    job_id, number = "", 0
    for event in events:
        if event.job_id == job_id and event.number == number + 1:
            runs[-1] += (event.kind, event.data)
        else:
            runs.append([event.job_id, event.account_id, event.number, event.kind, event.data])
        job_id, number = event.job_id, event.number
    return _encode(runs).decode()


def decoded(text: str, at: int) -> list[Event]:
    """The events in the text of a commit that was made at this time."""
    return [
        Event(job_id, account_id, number + n, told[2 * n], at, told[2 * n + 1])
        for job_id, account_id, number, *told in _decode(text)
        for n in range(len(told) // 2)
    ]


def account_mark(account_id: str) -> str:
    """A text that every commit with events of this account contains; other commits may contain it too."""
    return _encode(account_id).decode()


def placed(commit: Commit) -> Iterator[NumberedEvent]:
    """The events of a commit, each with its position in the log of all commits."""
    first = commit.number * EVENTS_PER_COMMIT
    return (NumberedEvent(first + index, event) for index, event in enumerate(commit.events))


def commit_of(place: int) -> int:
    """The number of the commit that has the event at this position."""
    return place // EVENTS_PER_COMMIT
