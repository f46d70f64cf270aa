"""Questions about figures: those of single commits, those that are added up, and the counts that alerts need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from ...core.figures import Level
from ...core.policy import waiting_since
from ...core.records import FigureCursor, Figures, QueueCount, Rollup, Worker
from .query import Query


class CommitFigures(Struct, frozen=True):
    """The figures of one commit, and when it was made."""

    number: int
    at: int
    figures: Figures


class ListFigures(Query[list[CommitFigures]], frozen=True):
    """The figures of the commits that have some, oldest first, after the number `after` and up to `last`; or of those
    with the numbers `among`."""

    after: int = 0
    last: int = 2**62
    limit: int = 500
    among: tuple[int, ...] = ()


class FigurePoint(Struct, frozen=True):
    """The time, how far figures are added up (None: nothing is yet), and the lowest and the highest number of a visible
    commit (0 if there is none)."""

    now: int
    cursor: FigureCursor | None
    first: int
    last: int


class GetFigurePoint(Query[FigurePoint], frozen=True):
    """By the database's clock."""


class ListRollups(Query[list[Rollup]], frozen=True):
    """The rollups of the minutes or hours from this time on, oldest first; none for one in which nothing happened."""

    level: Level
    since_at: int


class GetTotal(Query[Rollup | None], frozen=True):
    """The figures of all time, as far as commits are added up; None if none are."""


class ListOldRollups(Query[list[str]], frozen=True):
    """The keys of rollups of a level that began before this time, oldest first."""

    level: Level
    before_at: int
    limit: int = 500


class QueueCounts(Struct, frozen=True):
    """The jobs that wait, counted one by one, and the figures of commits that are part of that count and were not added
    up yet."""

    counts: list[QueueCount]
    ahead: list[CommitFigures]


class GetQueueCounts(Query[QueueCounts], frozen=True):
    """Counts in one view; takes longer the more jobs wait. after, left_out: those of the cursor of figures."""

    after: int
    left_out: tuple[int, ...] = ()
    limit: int = 5_000


class AlertCounts(Struct, frozen=True):
    """stuck: held jobs whose lease or deadline is over, or that were silent for too long. dead: dead letters. messages,
    hooks: webhook messages and hooks that have been due for `late_ms`. The last three are counted up to a limit."""

    stuck: int
    dead: int
    messages: int
    hooks: int


class GetAlertCounts(Query[AlertCounts], frozen=True):
    stuck_ms: int
    late_ms: int
    limit: int


class Backlog(Struct, frozen=True):
    """What is overdue, and what is still to be sent, at this time by the database's clock.

    overdue: jobs whose lease or deadline is over, and that nobody has recovered yet. overdue_at: since when the first
        of them, or the first parked job whose time has come, is overdue; None if none is.
    messages, hooks: webhook messages and hooks that are still to be sent or run, counted up to a limit; message_at,
        hook_at: when the first of them is, or was, due.
    """

    now: int
    overdue: int
    overdue_at: int | None
    messages: int
    message_at: int | None
    hooks: int
    hook_at: int | None


class GetBacklog(Query[Backlog], frozen=True):
    limit: int


class PoolTimes(Struct, frozen=True):
    """When the longest-waiting job of a pool was ranked, of those that have never run; and when the last heartbeat of
    any job came that somebody holds there, whoever holds it. None if there is no such job."""

    pool: str
    waiting_since: int | None
    heard_at: int | None


def pool_times(rows: Iterable[Sequence[Any]]) -> list[PoolTimes]:
    """rows: a pool, with the rank of a job that waits there, or with the time of a heartbeat."""
    since: dict[str, int] = {}
    heard: dict[str, int] = {}
    for pool, rank, heard_at in rows:
        if rank is not None:
            since[pool] = min(since.get(pool, waiting_since(rank)), waiting_since(rank))
        if heard_at is not None:
            heard[pool] = max(heard.get(pool, heard_at), heard_at)
    return [PoolTimes(pool, since.get(pool), heard.get(pool)) for pool in sorted({*since, *heard})]


class ListPoolTimes(Query[list[PoolTimes]], frozen=True):
    """Of each pool that has jobs, by name."""


class ListWorkersSeen(Query[list[Worker]], frozen=True):
    """The workers that have not stopped and were seen since this time, by name."""

    since_at: int
    limit: int = 10_000
