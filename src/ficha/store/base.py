"""What a store must do, and nothing about how: the protocol, its errors, and the read side's questions.

A store is opened, runs transactions, answers questions and closes. All three stores pass the one conformance suite of
`ficha.testing`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

from ..core.dataset import State
from ..core.needs import KeyName, Needs
from ..core.outcomes import Outcome
from ..core.records import (
    Account,
    ApiKey,
    AuditLine,
    Batch,
    Entry,
    Event,
    Job,
    Key,
    Pool,
    Reservation,
    Status,
    Step,
    Tally,
    Worker,
)
from ..core.snapshot import Changes, Snapshot
from .waiting_columns import CHUNK, Lines

T = TypeVar("T")
Clock = Callable[[], int]
"""Whole microseconds since 1970."""
Decision = tuple[Changes, list[Outcome]]
Decide = Callable[[Snapshot], Decision]
"""What the commands of a group lead to, on the rows that were loaded for them."""
Hints = Callable[[Changes], Collection[str]]
"""Names, as `notify` takes them, that are to go out with the commit itself."""


ASKED_MS: Final = 1_800_000
COMMITS_KEPT_MS_MIN: Final = 2 * ASKED_MS
"""For so long, at least, commits are kept: twice as long as anybody asks whether one took place."""
COMMITS_PRUNED: Final = 20_000
"""Commits that are cleared away at once, at most."""


def no_hints(changes: Changes) -> Collection[str]:
    return ()


class Committed(Struct, frozen=True):
    """What a transaction kept: the changes, the outcome of each command, and the hints that went out with it.

    Where there was nothing to change, the changes are empty.
    """

    changes: Changes
    outcomes: list[Outcome]
    hints: Collection[str] = ()


def wall_clock() -> int:
    """The time of this machine."""
    return time.time_ns() // 1_000


class StoreError(Exception):
    """The database refused or cannot be used as it is; the message says what to do. Nothing was kept."""


class Transient(StoreError):
    """The transaction was rolled back by a conflict (deadlock, serialization, lock time-out): run it again."""


class Unavailable(StoreError):
    """The database cannot be reached or written now (gone, read-only, full). Nothing was kept."""


class CommitUnknown(StoreError):
    """The connection was lost while committing. Ask `committed` before doing anything else.

    attempt: what was kept, if it was committed; None where nobody can know.
    """

    def __init__(self, message: str, attempt: Committed | None = None) -> None:
        super().__init__(message)
        self.attempt = attempt


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this release works with."""


class Store(Protocol):
    """Where the rows are.

    committers: how many transactions may run side by side; 1 where the database has a single writer.
    """

    committers: int

    async def open(self) -> None:
        """Connects. Raises SchemaMismatch unless the schema is the one this release works with."""

    async def close(self) -> None:
        """Ends every connection. A second call does nothing."""

    async def transact(
        self, committer: str, number: int, needs: Needs, decide: Decide, hints: Hints = no_hints
    ) -> Committed:
        """One transaction: load what `needs` names, call `decide` with it, write the changes and the marker, commit.

        `committer` is a UUID that only one caller at a time uses, `number` rises with each of its transactions:
        together they mark the transaction in the database, in the row of `commits` that holds its events. `decide` may
        run on another thread and may run again when the store has to load anew. A transaction that changes nothing need
        not be marked, nor one that only renews a lead, a worker's word or a key's last use, which may be run again.
        Raises Transient, Unavailable or CommitUnknown; whatever `decide` raises goes through, and then nothing was
        written.
        `hints` is asked, on the caller's thread, by a store that can send hints together with the commit, which is
        sooner than after it; each time before it writes, and the last answer counts.
        """

    async def committed(self, committer: str, number: int) -> bool:
        """Whether that transaction was committed. Waits for a commit that is still under way.

        Raises CommitUnknown if it was begun longer than `ASKED_MS` ago: its row may have been cleared away.
        """

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide) -> Committed:
        """The same inside a transaction that the caller owns; only where the database is shared with the caller."""

    async def read(self, query: Query[T]) -> T:
        """Answers a question from committed rows, in one consistent view."""

    async def tidy(self, commits_kept_ms: int) -> bool:
        """Clears away what transactions leave behind: commits older than `commits_kept_ms`, at most `COMMITS_PRUNED` of
        them and never the newest one. Returns whether it stopped at that limit, so that more may be left.

        Called now and then, by one process as a rule; several at once do no harm.
        """

    async def notify(self, names: Iterable[str]) -> None:
        """Hints to other processes that these pools have ready jobs. What begins with a control character is no pool,
        and makes nobody look for jobs. May be lost."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Calls `heard(name)` for each hint from another process, until the store is closed or this is cancelled. A
        hint that does not know what happened is the empty text. May do nothing."""


@runtime_checkable
class ClaimsWithSubmits(Protocol):
    """A store that is asked before a claim joins the transaction of a submit. Any other store takes all that come."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a group that brings work to these pools may as well claim it, and be answered no later for that."""


class Query(Struct, Generic[T], frozen=True):
    """A question of the read side; `T` is the type of its answer."""


class JobRow(Struct, frozen=True):
    """A job with the texts that no rule looks into."""

    job: Job
    payload: str
    result: str | None


class GetJobs(Query[list[JobRow]], frozen=True):
    """The jobs with these ids that exist, in no particular order."""

    ids: tuple[str, ...]


class ListJobs(Query[list[JobRow]], frozen=True):
    """Newest first (by id, descending), all conditions together; `before` is the id after which the page starts."""

    account_id: str | None = None
    statuses: tuple[Status, ...] = ()
    tool: str | None = None
    pool: str | None = None
    batch_id: str | None = None
    session: str | None = None
    dead: bool = False
    """Only those in the dead-letter list."""
    stuck_before_at: int | None = None
    """Only leased ones whose last heartbeat is older than this."""
    before: str | None = None
    limit: int = 50


class GetAccount(Query[Account | None], frozen=True):
    account_id: str


class ListAccounts(Query[list[Account]], frozen=True):
    """By id, ascending, after `after`."""

    after: str | None = None
    limit: int = 50


class ListEntries(Query[list[Entry]], frozen=True):
    """Newest first; `before_number` is the number before which the page starts."""

    account_id: str
    before_number: int | None = None
    limit: int = 50


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


class Commit(Struct, frozen=True):
    """What one commit told, or a part of it where it told very much."""

    number: int
    events: list[Event]


class ListCommits(Query[list[Commit]], frozen=True):
    """The commits that are kept, oldest first, after the number `after`. They need not have events.

    telling_of: only commits with events of this account; there may be others, and events of others in them.
    """

    after: int = 0
    limit: int = 100
    telling_of: str | None = None


EVENTS_SEARCHED = 100_000
"""How many of the newest events, about, are searched for those of an account. No index has them by account: it would be
written to, in a place of its own for each account, with every step of every job."""


class GetFirstSearched(Query[int], frozen=True):
    """The number of the first commit that is searched for an account's events: of those that are kept, the newest with
    `EVENTS_SEARCHED` events in all, and no more commits than that. 0 if there is none."""


class Horizon(Struct, frozen=True):
    """How far the numbers of commits go, and who may still fill a gap.

    Numbers are given out before the commit, so a commit may show up after one with a higher number.

    last: the highest number to be seen; 0 if there is none.
    writers: the transactions under way that may have taken numbers already. Once they are gone, nothing new appears up
        to `last`. One that is not among them takes only numbers above `last`. Always empty where the database has a
        single writer.
    """

    last: int
    writers: frozenset[str] = frozenset()


class GetHorizon(Query[Horizon], frozen=True):
    """Asked for before the commits themselves: whoever is no longer among the writers is to be seen by then."""


class ListSteps(Query[list[Step]], frozen=True):
    """All stored steps of a job, in the order they were stored."""

    job_id: str


class ListReservations(Query[list[Reservation]], frozen=True):
    """Newest first (by id, descending). The state is as stored: an active one may have expired."""

    account_id: str | None = None
    before: str | None = None
    limit: int = 50


class ListKeys(Query[list[Key]], frozen=True):
    """By account, key and scope, ascending, after those three."""

    account_id: str | None = None
    after: tuple[str, str, str] | None = None
    limit: int = 50


class BatchCounts(Struct, frozen=True):
    """A batch and its jobs by status; `total` of the batch counts those first submitted."""

    batch: Batch
    by_status: dict[Status, int]


class GetBatch(Query[BatchCounts | None], frozen=True):
    batch_id: str


class PoolCounts(Struct, frozen=True):
    pool: Pool
    occupied: int
    ready: int


class ListPools(Query[list[PoolCounts]], frozen=True):
    """All pools, by name."""

    count_ready: bool = True
    """Whether ready jobs are counted, which takes the longer the more there are. If not, there are said to be none."""


class WorkerCounts(Struct, frozen=True):
    """A worker that ever said that it is there, or claimed a job.

    worker: its own word; None if it never said so.
    tallies: what became of its runs, by kind.
    running, stuck: the jobs that it holds now, and those of them whose last heartbeat is older than `stuck_ms`.
    """

    name: str
    worker: Worker | None
    tallies: tuple[Tally, ...]
    running: int
    stuck: int


class WorkerList(Struct, frozen=True):
    now: int
    workers: list[WorkerCounts]


class ListWorkers(Query[WorkerList], frozen=True):
    """By name, ascending, after `after`, with the time by the database's clock."""

    stuck_ms: int
    after: str | None = None
    limit: int = 50


class Waiting(Struct, frozen=True):
    """Who waits: per pool the ready jobs, per account the jobs parked for its own concurrency."""

    ready: Lines
    parked: Lines


class GetWaiting(Query[Waiting], frozen=True):
    """One scan that serves every position asked for until the next.

    page: jobs that a database hands over at once. Copying that many takes a millisecond or two, so that the event loop
        goes on meanwhile; larger pages are no faster.
    """

    page: int = CHUNK


class Due(Struct, frozen=True):
    now: int
    jobs: list[str]
    reservations: list[str]
    keys: list[KeyName]


class GetDue(Query[Due], frozen=True):
    """What may be due by the database's clock; each is judged again when it is recovered.

    Jobs: leases past expiry or deadline, or whose heartbeat is older than `stuck_ms`, or first started longer than
    `max_age_ms` ago; provider waits past their deadline; parked jobs whose time has come; ready or parked jobs past
    `wait_until_at`; ready jobs past `ages_at`. Reservations still active and keys, past their expiry. At most `limit`
    of each kind of cause; a job may be named once only.
    """

    stuck_ms: int
    max_age_ms: int
    limit: int = 500


COMMITS_AVERAGED = 500


class Stats(Struct, frozen=True):
    """Figures over the active jobs. `avg_run_s` is the mean time from first start to completion over the jobs whose
    completion is told by one of the newest `COMMITS_AVERAGED` commits that have events; None if there is none."""

    by_status: dict[Status, int]
    by_checkpoint: dict[str, int]
    """Held jobs by the checkpoint they saved last; those that saved none count under ''."""
    stuck: int
    dead: int
    avg_run_s: float | None

    @classmethod
    def counted(cls, held: Iterable[Sequence[Any]], queued: int, dead: int, avg_run_s: float | None) -> Stats:
        """From held jobs as (status, checkpoint, jobs, silent ones among them)."""
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


class ApiKeyRow(Struct, frozen=True):
    key: ApiKey
    last_used_at: int | None


class ApiKeyList(Struct, frozen=True):
    """API keys, with the time by which to judge whether they live."""

    now: int
    keys: list[ApiKeyRow]


class GetApiKey(Query[ApiKeyList], frozen=True):
    """The key whose text has this digest, if there is one."""

    digest: str


class ListApiKeys(Query[ApiKeyList], frozen=True):
    """Newest first (by id, descending), in whatever state; `before` is the id after which the page starts."""

    before: str | None = None
    limit: int = 50


class NumberedLine(Struct, frozen=True):
    number: int
    line: AuditLine


class ListAudit(Query[list[NumberedLine]], frozen=True):
    """Newest first; `before_number` is the number before which the page starts."""

    before_number: int | None = None
    limit: int = 50


class GetSnapshot(Query[Snapshot], frozen=True):
    """What a group with these needs would be decided on just now. Nothing is locked, so it may be old at once."""

    needs: Needs


class GetState(Query[State], frozen=True):
    """The accounts after `after` (by id, at most `limit`) with all that is theirs: jobs, steps, keys, reservations,
    batches, entries, API keys, and the contents their jobs answer; and all pools, leaders, workers, tallies and API
    keys of no account, whoever uses them. Payloads, results, steps and events are left out unless `texts`; audit lines,
    which are nobody's, always."""

    after: str | None = None
    limit: int = 1_000_000
    texts: bool = False
