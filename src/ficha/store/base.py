"""What a store must do, and nothing about how: the protocol, its errors, and the queries of the read side.

A store is opened, runs transactions, answers queries and is closed. All three stores pass the one conformance suite of
`ficha.testing`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import Any, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from ..core.dataset import State
from ..core.needs import KeyName, Needs
from ..core.outcomes import Outcome
from ..core.records import (
    Account,
    ApiKey,
    AuditLine,
    Batch,
    Delivery,
    DeliveryState,
    Entry,
    Event,
    File,
    FileRole,
    FileUsage,
    Job,
    Key,
    PendingHook,
    Pool,
    ProviderOutage,
    ProviderState,
    Reservation,
    Status,
    Step,
    Tally,
    WebhookEndpoints,
    Worker,
)
from ..core.snapshot import Changes, Snapshot
from .waiting_columns import CHUNK, Lines

T = TypeVar("T")
Clock = Callable[[], int]
"""Whole microseconds since 1970."""
Decision = tuple[Changes, list[Outcome]]
Decide = Callable[[Snapshot], Decision]
"""Decides the commands of a commit group on the rows that were loaded for them."""
Hints = Callable[[Changes], Collection[str]]
"""Returns the names, as `notify` takes them, to send together with the commit."""


ASKED_MS: Final = 1_800_000
COMMITS_KEPT_MS_MIN: Final = 2 * ASKED_MS
"""The shortest time for which commits may be kept: twice as long as `committed` may be asked about one."""
COMMITS_PRUNED: Final = 20_000
"""How many commits one call of `tidy` deletes, at most."""


NOT_SHARED: Final = (
    "a call takes part in your own transaction (connection=…) only on PostgreSQL; in tests, "
    "ficha.testing.FakeTransaction stands for one"
)


def no_hints(changes: Changes) -> Collection[str]:
    return ()


class Committed(Struct, frozen=True):
    """What a transaction wrote: the changes, the outcome of each command, and the hints sent with the commit.

    If there was nothing to change, the changes are empty.
    """

    changes: Changes
    outcomes: list[Outcome]
    hints: Collection[str] = ()


def wall_clock() -> int:
    """The time of this machine."""
    return time.time_ns() // 1_000


class StoreError(Exception):
    """The database refused or cannot be used as it is; the message says what to do. Nothing was written."""


class Transient(StoreError):
    """The transaction was rolled back by a conflict (deadlock, serialization, lock time-out): run it again."""


class Unavailable(StoreError):
    """The database cannot be reached or written now (gone, read-only, full). Nothing was written."""


class CommitUnknown(StoreError):
    """The connection was lost while committing. Ask `committed` before doing anything else.

    attempt: what was written, if it was committed; None if that is not known.
    """

    def __init__(self, message: str, attempt: Committed | None = None) -> None:
        super().__init__(message)
        self.attempt = attempt


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this release works with."""


class Reader(Protocol):
    """Answers queries."""

    async def read(self, query: Query[T]) -> T:
        """Answers a query from committed rows, in one consistent view."""


class Store(Reader, Protocol):
    """Loads and writes rows.

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

        `committer` is a UUID that only one caller at a time uses; `number` rises with each of its transactions.
        Together they mark the transaction, in the row of `commits` that holds its events. `decide` may run on another
        thread, and runs again if the store has to load again. A transaction needs no marker if it changes nothing or
        only renews a leader, a worker's registration or a key's last use: it may simply be run again.
        Raises Transient, Unavailable or CommitUnknown. An exception of `decide` passes through; then nothing was
        written.
        A store that can send hints together with the commit, which is sooner than after it, calls `hints` on the
        caller's thread before each write; the last answer counts.
        """

    async def committed(self, committer: str, number: int) -> bool:
        """Whether that transaction was committed. Waits for a commit that is still under way.

        Raises CommitUnknown if it began longer than `ASKED_MS` ago: its row may have been deleted.
        """

    async def transact_within(self, connection: Any, needs: Needs, decide: Decide, hints: Hints) -> Committed:
        """The same inside a transaction that the caller owns; only where the database is shared with the caller.

        The hints go out when the caller commits, and are heard by this process as well.
        """

    async def tidy(self, commits_kept_ms: int) -> bool:
        """Deletes commits older than `commits_kept_ms`: at most `COMMITS_PRUNED` of them, and never the newest. Returns
        whether it stopped at that limit, so that more may be left.

        Usually one process calls it, now and then; several may do so at once.
        """

    async def notify(self, names: Iterable[str]) -> None:
        """Hints to other processes that these pools have ready jobs. A name that begins with a control character is no
        pool and starts no claim. Hints may be lost."""

    async def listen(self, heard: Callable[[str], None]) -> None:
        """Calls `heard(name)` for each hint from another process, until the store is closed or this is cancelled. The
        name is empty if the store does not know what changed. May do nothing."""


@runtime_checkable
class ClaimsWithSubmits(Protocol):
    """A store that can refuse that a claim joins the transaction of a submit. Any other store allows it always."""

    def may_claim_with_submit(self, pools: Set[str]) -> bool:
        """Whether a group that submits jobs to these pools can also claim them without taking longer."""


class Query(Struct, Generic[T], frozen=True):
    """A query of the read side; `T` is the type of its answer."""


class JobRow(Struct, frozen=True):
    """A job with its payload and result, which no rule reads."""

    job: Job
    payload: str
    result: str | None


class GetJobs(Query[list[JobRow]], frozen=True):
    """The jobs with these ids that exist, in no particular order."""

    ids: tuple[str, ...]


LEFT_OUT: Final = "null"


def without_texts(job: Job) -> Job:
    """The job as a list has it: `LEFT_OUT` stands for the data and the partial result of its checkpoint."""
    point = job.checkpoint
    return job if point is None else replace(job, checkpoint=replace(point, data=LEFT_OUT, partial=LEFT_OUT))


class ListJobs(Query[list[Job]], frozen=True):
    """Newest first (by id, descending), all conditions together; `before` is the id after which the page starts.

    Without the texts, which may be large: payloads and results, and what checkpoints hold (see `without_texts`).
    """

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


CLOCKS_APART: Final = 3_600_000_000
"""How far apart, in microseconds, the clocks of the machines that submit and of the database may be for a search by
date to find everything."""


class LibraryPart(Struct, frozen=True):
    """What was found, and the id and the time of the job where the search stopped; None if it came to the end."""

    jobs: list[Job]
    stopped: tuple[str, int] | None = None


class ListLibrary(Query[LibraryPart], frozen=True):
    """Completed work that was not removed, in the order of `ListJobs` and without the texts, all conditions together.

    since_at, until_at: only what was submitted at or after the one and before the other.
    search: only what has this in the text of its payload; the case of the letters A to Z does not matter.
    searched: how many of the account's jobs are looked at, at most.
    """

    account_id: str
    tool: str | None = None
    since_at: int | None = None
    until_at: int | None = None
    search: str | None = None
    before: str | None = None
    limit: int = 50
    searched: int = 1_000


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


class ListAccepted(Query[list[Event]], frozen=True):
    """The events that tell of a provider who took over a job under this reference, newest first."""

    ref: str


class ListJobEvents(Query[list[Event]], frozen=True):
    """The stored events of one kind in a job's history, oldest first."""

    job_id: str
    kind: str


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
    """The number of the oldest commit that is searched for an account's events. Searched are the newest commits, up to
    `EVENTS_SEARCHED` events in all and up to that many commits. 0 if there is none."""


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
    parked: int


class ListPools(Query[list[PoolCounts]], frozen=True):
    """All pools, by name."""

    count_waiting: bool = True
    """Whether to count ready and parked jobs, which takes longer the more there are. If False, both are 0."""


class WorkerCounts(Struct, frozen=True):
    """A worker that has registered itself or claimed a job.

    worker: its registration; None if it never registered.
    tallies: its runs, counted by how they ended.
    running, stuck: how many jobs it holds now, and how many of them had no heartbeat for `stuck_ms`.
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


class GetDue(Query[Due], frozen=True):
    """What may be due by the database's clock. The rule checks each again when it is recovered.

    Jobs: leases past expiry or deadline, or whose heartbeat is older than `stuck_ms`, or first started longer than
    `max_age_ms` ago; provider waits past their deadline; parked jobs whose time has come, or that wait behind a job
    that nobody holds; ready or parked jobs past `wait_until_at`; ready jobs past `ages_at`. Reservations still active
    and keys, past their expiry; reservations that ended, `reservations_kept_ms` past theirs. At most `limit` for each
    cause; a job may be named only once. What falls due next is looked for among the next `limit` jobs.
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


class ApiKeyRow(Struct, frozen=True):
    key: ApiKey
    last_used_at: int | None


class ApiKeyList(Struct, frozen=True):
    """API keys, with the time by which to judge whether they have expired."""

    now: int
    keys: list[ApiKeyRow]


class GetApiKey(Query[ApiKeyList], frozen=True):
    """The key whose text has this digest, if there is one."""

    digest: str


class ListApiKeys(Query[ApiKeyList], frozen=True):
    """Newest first (by id, descending), in whatever state; `before` is the id after which the page starts."""

    before: str | None = None
    limit: int = 50


class GetRevokedApiKeys(Query[list[str]], frozen=True):
    """Those of these API keys that are revoked, in no particular order."""

    ids: tuple[str, ...]


class NumberedLine(Struct, frozen=True):
    number: int
    line: AuditLine


class ListAudit(Query[list[NumberedLine]], frozen=True):
    """Newest first; `before_number` is the number before which the page starts."""

    before_number: int | None = None
    limit: int = 50


class ListHooks(Query[list[PendingHook]], frozen=True):
    """Hooks that are still to be run, the longest due first.

    names: only these; empty for all. is_due: only those that may be run by now, by the database's clock.
    """

    names: tuple[str, ...] = ()
    is_due: bool = False
    limit: int = 50


class GetFiles(Query[list[File]], frozen=True):
    """Those of these files that there are, in whatever state and no particular order."""

    ids: tuple[str, ...]


class ListFiles(Query[list[File]], frozen=True):
    """Files that are not removed, newest first (by id, descending); `before` is the id before which the page starts."""

    account_id: str | None = None
    role: FileRole | None = None
    before: str | None = None
    limit: int = 50


class ListLinkedFiles(Query[list[File]], frozen=True):
    """Files that are not removed, by id, of these jobs (that made them, or took them first) or reservations."""

    link: Literal["job", "reservation"]
    ids: tuple[str, ...]
    limit: int = 1_000


class ListDueFiles(Query[list[File]], frozen=True):
    """Files whose time is over by the database's clock, the longest first. The rule checks each again."""

    limit: int = 500


class GetFileUsage(Query[FileUsage], frozen=True):
    """How many files an account has, and their bytes; none for an account that does not exist."""

    account_id: str


class DuePoll(Struct, frozen=True):
    """A job whose provider is to be asked, and in how many milliseconds; 0 for now."""

    job_id: str
    wait_ms: int


class ListPolls(Query[list[DuePoll]], frozen=True):
    """Jobs of these tools whose providers are to be asked, the first due first, by the database's clock."""

    tools: tuple[str, ...]
    limit: int = 50


class ProviderRow(Struct, frozen=True):
    """What is stored of an external provider, and the time by the database's clock. Without an outage its circuit
    breaker is closed."""

    name: str
    now: int
    state: ProviderState | None
    outage: ProviderOutage | None


class ListProviders(Query[list[ProviderRow]], frozen=True):
    """Every provider of which something is stored, by name."""

    limit: int = 1_000


class MarginLine(Struct, frozen=True):
    """The jobs of a tool and a plan that were submitted on one day and of which it is known what a provider took.

    day_number: the UTC day, counted from 1970. credits: charged and not refunded. provider_cost: in millionths.
    """

    day_number: int
    tool: str
    plan: str
    jobs: int
    credits: int
    provider_cost: int


class GetMargins(Query[list[MarginLine]], frozen=True):
    """By day, tool and plan; of jobs that were submitted from `since_at` on and before `until_at`."""

    since_at: int
    until_at: int
    limit: int = 10_000


class GetWebhookEndpoints(Query[dict[str, WebhookEndpoints]], frozen=True):
    """The webhook endpoints of these owners, by owner; an owner without any is left out."""

    owners: tuple[str, ...]


class ListDeliveries(Query[list[Delivery]], frozen=True):
    """Messages to webhook endpoints, newest first (by id, descending); `before` is the id after which the page starts.
    What is None does not narrow the list."""

    owner: str | None = None
    id: str | None = None
    endpoint_id: str | None = None
    job_id: str | None = None
    state: DeliveryState | None = None
    before: str | None = None
    limit: int = 50


class ListDueDeliveries(Query[list[Delivery]], frozen=True):
    """Messages that may be sent by now, by the database's clock, the longest due first. Of those that tell one endpoint
    of the same job only the first made is listed: the others wait for its end.

    not_owners, not_endpoints: whose messages are left out.
    """

    not_owners: tuple[str, ...] = ()
    not_endpoints: tuple[str, ...] = ()
    limit: int = 50


class CountDeliveries(Query[int], frozen=True):
    """How many messages are still to be delivered, due or not."""


class ListOldDeliveries(Query[list[str]], frozen=True):
    """The ids of messages that ended at least so long ago, the oldest first."""

    kept_ms: int
    limit: int = 50


class GetSnapshot(Query[Snapshot], frozen=True):
    """The rows that a group with these needs would be decided on now. Nothing is locked, so they may change at once."""

    needs: Needs


class GetState(Query[State], frozen=True):
    """The accounts after `after` (by id, at most `limit`) with everything they own: jobs, steps, keys, reservations,
    batches, entries, API keys, and the contents that their jobs answer; also all pools, leaders, workers, tallies and
    API keys that belong to no account. Payloads, results, steps and events only with `texts`. Never audit lines, which
    belong to no account."""

    after: str | None = None
    limit: int = 1_000_000
    texts: bool = False
