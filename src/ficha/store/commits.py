"""What followers read: the events of each commit as one text, and where each event stands in the tail of them all.

A row of `commits` also marks the commit as done, under its committer's id and number. Every commit writes one, so the
text is compact: JSON, with an array for each run of events of one job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ..core.records import Event
from .base import Commit, NumberedEvent

EVENTS_PER_COMMIT: Final = 16_384
"""Events that one row holds at most; a commit with more has further rows, which mark nothing."""

_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(list[list[Any]]).decode


def commit_texts(events: Sequence[Event]) -> list[tuple[int, str]]:
    """The rows for these events: how many each holds, and its text. At least one row, which may hold none."""
    parts = range(0, len(events), EVENTS_PER_COMMIT) or (0,)
    return [(len(part), encoded(part)) for n in parts for part in (events[n : n + EVENTS_PER_COMMIT],)]


def commit_rows(marker: tuple[str, int] | None, now: int, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    """The rows of `commits` for a commit; the first one marks it, if there is a marker."""
    (size, text), *more = commit_texts(events)
    first = (*(marker or (None, None)), now, size, text)
    return [first, *((None, None, now, size, text) for size, text in more)]


def encoded(events: Sequence[Event]) -> str:
    """The events as a text: `[job, account, first number, kind, data, kind, data, …]` for each run of one job."""
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
    """The events of a commit that took place at this time."""
    return [
        Event(job_id, account_id, number + n, told[2 * n], at, told[2 * n + 1])
        for job_id, account_id, number, *told in _decode(text)
        for n in range(len(told) // 2)
    ]


def account_mark(account_id: str) -> str:
    """What the text of every commit contains that tells of this account; others may contain it too."""
    return _encode(account_id).decode()


def placed(commit: Commit) -> Iterator[NumberedEvent]:
    """The events of a commit, each with its place in the tail of all commits."""
    first = commit.number * EVENTS_PER_COMMIT
    return (NumberedEvent(first + index, event) for index, event in enumerate(commit.events))


def commit_of(place: int) -> int:
    """The number of the commit in which the event with this place is."""
    return place // EVENTS_PER_COMMIT
