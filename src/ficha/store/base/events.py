"""Questions about what happened: the history of a job, and the commits that followers read."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import Event
from .query import Query


class NumberedEvent(Struct, frozen=True):
    """An event in a stream, with the number after which the stream resumes: in a job's stream the event's own, in an
    account's its place in the tail of all commits (`commits.py`)."""

    number: int
    event: Event


class GetHistory(Query[list[Event]], frozen=True):
    """The history of one job, oldest first, after the event number `after`; empty if there is no such job."""

    job_id: str
    after: int = 0
    limit: int = 100


class ListAccepted(Query[list[Event]], frozen=True):
    """The events of a provider accepting a job under this reference, newest first."""

    ref: str


class ListJobEvents(Query[list[Event]], frozen=True):
    """The stored events of one kind in a job's history, oldest first."""

    job_id: str
    kind: str


class ListRunEvents(Query[list[Event]], frozen=True):
    """The stored events of a job that tell of its runs (`core/runs.py`), oldest first."""

    job_id: str
    limit: int = 10_000


class Commit(Struct, frozen=True):
    """The events of one commit, or a part of them if there are very many."""

    number: int
    events: list[Event]


class ListCommits(Query[list[Commit]], frozen=True):
    """The commits that are kept, oldest first, after the number `after`. Some have no events.

    telling_of: all commits with events of this account, possibly among others.
    """

    after: int = 0
    limit: int = 100
    telling_of: str | None = None


EVENTS_SEARCHED = 100_000
"""About how many of the newest events are searched for those of an account. There is no index by account: every step of
every job would have to write to it, at a different page for each account."""


class GetFirstSearched(Query[int], frozen=True):
    """The number of the oldest commit that is searched for an account's events; 0 if there is none. The search covers
    the newest commits: up to `EVENTS_SEARCHED` events in all, and up to that many commits."""


class Horizon(Struct, frozen=True):
    """The highest number of a commit, and the transactions that may still fill a gap below it.

    A number is taken before the commit, so a commit may become visible after one with a higher number.

    last: the highest visible number; 0 if there is none.
    writers: running transactions that may have taken a number already. Once they have ended, no new commit appears up
        to `last`; all other transactions take numbers above `last`. Always empty where the database has a single
        writer.
    """

    last: int
    writers: frozenset[str] = frozenset()


class GetHorizon(Query[Horizon], frozen=True):
    """To be read before the commits: a transaction that is no longer among the writers is visible when they are."""
