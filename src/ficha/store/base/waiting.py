"""Questions over all jobs that are active: which wait, what is due, how many there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from ...core.needs import KeyName
from ...core.records import Status
from ..waiting_columns import CHUNK, Lines
from .query import Query


class Waiting(Struct, frozen=True):
    """The waiting jobs: the ready jobs of each pool, and the jobs of each account parked at its concurrency limit."""

    ready: Lines
    parked: Lines


class GetWaiting(Query[Waiting], frozen=True):
    """One scan of all waiting jobs; every position is answered from it until the next scan.

    page: how many jobs are read at once. Copying that many takes a millisecond or two, so it does not hold up the event
        loop; larger pages are no faster.
    """

    page: int = CHUNK


class Due(Struct, frozen=True):
    now: int
    jobs: list[str]
    reservations: list[str]
    keys: list[KeyName]
    next: dict[str, int]
    """By pool, when the first of its parked jobs that are not due yet falls due."""
    sessions: list[str] = []
    """Accounts with a session that is to end."""


class GetDue(Query[Due], frozen=True):
    """What may be due by the database's clock. The rule checks each again when it is recovered.

    Jobs: leases past expiry or deadline, or whose heartbeat is older than `stuck_ms`, or first started longer than
    `max_age_ms` ago; provider waits past their deadline; parked jobs whose time has come, or that wait behind a job
    that nobody holds; ready or parked jobs past `wait_until_at`; ready jobs past `ages_at`. Reservations still active
    and keys, past their expiry; reservations that ended, `reservations_kept_ms` past theirs; sessions whose time is
    over. At most `limit` for each cause; a job may be named only once. What falls due next is looked for among the next
    `limit` jobs.
    """

    stuck_ms: int
    max_age_ms: int
    limit: int = 500
    reservations_kept_ms: int = 86_400_000


COMMITS_AVERAGED = 500


class Stats(Struct, frozen=True):
    """Figures over the active jobs. `avg_run_s` is the mean time from first start to completion of the jobs completed
    in the newest `COMMITS_AVERAGED` commits that have events; None if there is none."""

    by_status: dict[Status, int]
    by_checkpoint: dict[str, int]
    """Held jobs by the checkpoint they saved last; those that saved none count under ''."""
    stuck: int
    dead: int
    avg_run_s: float | None

    @classmethod
    def counted(cls, held: Iterable[Sequence[Any]], queued: int, dead: int, avg_run_s: float | None) -> Stats:
        """From rows of held jobs: status, checkpoint, how many, how many of them are stuck."""
        by_status: Counter[Status] = Counter()
        by_checkpoint: Counter[str] = Counter()
        stuck = 0
        for status, checkpoint, jobs, silent in held:
            by_status[status] += jobs
            by_checkpoint[checkpoint] += jobs
            stuck += silent
        if queued:
            by_status["queued"] = queued
        return cls(dict(by_status), dict(by_checkpoint), stuck, dead, avg_run_s)


class GetStats(Query[Stats], frozen=True):
    stuck_ms: int
