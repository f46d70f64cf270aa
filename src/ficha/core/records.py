"""The values that the rules read and write: one class per word of the glossary.

Records are frozen. A record never holds what can be derived from another one, with one exception: an account
carries counters over its jobs and reservations, so that a submit or a finish reads one row (`invariants.py` proves
that they agree).
Payloads and results are JSON text that no rule reads; they are passed beside the records, not inside them.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import Struct

Status = Literal["queued", "starting", "running", "completed", "failed", "cancelled"]
EntryKind = Literal["grant", "adjust", "charge", "refund"]
ReservationState = Literal["active", "consumed", "expired", "released"]
KeyScope = Literal["submit", "grant"]
KeyName = tuple[str, KeyScope, str]
"""An account, a scope and the caller's key."""
ContentName = tuple[str, str]
"""A tool and a content hash."""
TallyKind = Literal["claimed", "completed", "failed", "cancelled", "retried", "recovered", "returned", "accepted"]
"""`claimed` counts runs that began, the others the ways in which runs end: each run ends at most once."""
ApiKeyScope = Literal["user", "service", "admin"]


class Record(Struct, frozen=True, gc=False):
    """The base of all records: immutable, compared by value. They hold no cycles and need no garbage collector."""


class Account(Record, frozen=True):
    """Who pays. `balance` is always the sum of the account's entries."""

    id: str
    plan: str
    opened_at: int
    balance: int = 0
    active: int = 0
    """Jobs that have not ended."""
    admitted: int = 0
    """Active jobs that are ready, leased or with a provider: what the plan's `max_running` limits."""
    parked: int = 0
    """Active jobs that wait only for the account's own concurrency."""
    reserved: int = 0
    """Reservations whose state is active, including expired ones that were not swept yet."""
    submitted: int = 0
    """Jobs ever submitted; zero means that the next one is the first."""
    latest_job: str | None = None
    """The job submitted last, while it is active."""
    hour_at: int = 0
    hour_submits: int = 0
    day_at: int = 0
    day_spent: int = 0
    month_at: int = 0
    month_spent: int = 0
    entries: int = 0
    """Ledger entries so far; the next one gets this number plus one."""


class Ready(Record, frozen=True, tag=True):
    """Queued, and any worker of the pool may claim it."""

    rank: int
    ages_at: int | None = None
    """When waiting next improves the rank; None if the plan has no ageing."""


class Parked(Record, frozen=True, tag=True):
    """Queued, and not claimable: before `due_at`, or (if that is None) while its account is at its `max_running`, or
    (`behind`) while an equal job is run."""

    rank: int
    due_at: int | None = None
    behind: str | None = None
    """The job whose result would answer this one. This one goes on counting as admitted, and waits until the other is
    no longer held, or at most until `due_at`."""


class Leased(Record, frozen=True, tag=True):
    """Held by a worker until `expires_at`, and at most until `deadline_at`."""

    worker: str
    leased_at: int
    heartbeat_at: int
    expires_at: int
    deadline_at: int


class Awaiting(Record, frozen=True, tag=True):
    """With an external provider under the reference `ref`: holds a slot of the pool, but no worker."""

    ref: str
    since_at: int
    deadline_at: int
    poll_at: int | None = None
    """When somebody asks the provider next; while somebody does so, when they are taken for dead. None: nobody asks."""


Place = Ready | Parked | Leased | Awaiting
WAITING = (Ready, Parked)
HELD = (Leased, Awaiting)
"""The places of waiting jobs, and of jobs that hold a slot. (isinstance is faster with tuples than with unions.)"""


class Checkpoint(Record, frozen=True):
    """Where a job resumes from after an interruption, and its progress. The name is empty while none was saved."""

    name: str
    progress: int
    data: str
    saved_at: int
    partial: str | None = None
    """The partial result (JSON text)."""


class JobSpec(Record, frozen=True):
    """What a job is, as its tool, its payload and its submit made it. It never changes; a requeued job has the same."""

    tool: str
    pool: str
    cost: int
    units: int = 1
    timeout_ms: int = 600_000
    max_attempts: int = 1
    backoff_ms: int = 1_000
    backoff_max_ms: int = 300_000
    content_hash: str | None = None
    session: str | None = None
    correlation_id: str | None = None


class Job(Record, frozen=True):
    """One unit of paid work. `place` says where an active job is; a job that ended has none."""

    id: str
    account_id: str
    spec: JobSpec
    priority: int
    created_at: int
    status: Status
    place: Place | None
    wait_until_at: int | None = None
    """When the job is cancelled and refunded, if it has not started by then."""
    batch_id: str | None = None
    requeue_of: str | None = None
    epoch: int = 0
    """Rises with every claim and never falls; it fences a worker that lost its lease."""
    attempts: int = 0
    """Failed runs. A run that a crash interrupted counts as a recovery instead."""
    recoveries: int = 0
    started_at: int | None = None
    """When it was first claimed."""
    events: int = 0
    """How many events its history has; the next event gets this number plus one."""
    first_worker: str | None = None
    """Who claimed it first."""
    first_run_at: int | None = None
    """When the run of that first claim was reported as started; None if it never was."""
    checkpoint: Checkpoint | None = None
    finished_at: int | None = None
    error: str | None = None
    """Why it failed or was cancelled, in full. `user_error` is what its owner may read of it (see `visibility.py`)."""
    user_error: str | None = None
    charged: int = 0
    refunded: int = 0
    delivered: int | None = None
    dead_at: int | None = None
    """Set while the job is in the dead-letter list."""
    plan: str = ""
    """The account's plan at the submit."""
    number: int = 0
    """Counts the account's jobs from one."""
    late_finishes: int = 0
    """Finishes that came too late and changed nothing. The first of them is kept as an event."""
    callbacks: int = 0
    """Call-backs of its provider, whether they were believed or not. The first ones are kept as events."""
    removed_at: int | None = None
    """When its owner removed the work: what it was made from and what came of it. The row and the ledger stay."""
    provider_cost: int | None = None
    """What its runs cost at an external provider, in millionths of the operator's currency; None if nobody said."""


class Step(Record, frozen=True):
    """A finished part of a job. Its result (JSON text) is stored, so that it is not paid or done again."""

    job_id: str
    name: str
    result: str
    saved_at: int


class Entry(Record, frozen=True):
    """One immutable ledger line. `number` counts the account's entries from one."""

    account_id: str
    number: int
    kind: EntryKind
    amount: int
    balance_after: int
    at: int
    job_id: str | None = None
    reason: str | None = None


class Event(Record, frozen=True):
    """One event of a job's history. `number` counts the job's events from one."""

    job_id: str
    account_id: str
    number: int
    kind: str
    at: int
    data: dict[str, Any] | None = None


class Key(Record, frozen=True):
    """An idempotency key: the caller's own name for a submit or a grant, and its outcome."""

    account_id: str
    scope: KeyScope
    key: str
    fingerprint: str
    created_at: int
    expires_at: int | None
    job_id: str | None = None
    """The (first) job of the submit."""
    batch_id: str | None = None
    jobs: int = 1
    cost: int = 0
    """How many jobs the submit created, and what they cost together."""
    entry: int | None = None
    """The number of the ledger entry that a grant wrote."""


class Reservation(Record, frozen=True):
    """A quota slot held before the job exists. It does not count after `expires_at`, even if its state is active."""

    id: str
    account_id: str
    state: ReservationState
    created_at: int
    expires_at: int
    job_id: str | None = None


class Batch(Record, frozen=True):
    """Many jobs submitted together."""

    id: str
    account_id: str
    total: int
    created_at: int


class Pool(Record, frozen=True):
    """Slots shared by tools, across all machines. `slots` comes from the application, `resized` from an operator."""

    name: str
    slots: int | None = None
    resized: int | None = None
    paused: bool = False

    @property
    def limit(self) -> int | None:
        """How many jobs of the pool may be started or running at once; None for no limit."""
        return self.slots if self.resized is None else self.resized


class Content(Record, frozen=True):
    """The one job that computes a content of a tool, while it is held; and then, if it completed whole, the job whose
    result answers every other of the same content."""

    tool: str
    content_hash: str
    job_id: str
    result: str | None
    """None while the job is held."""


class PendingHook(Record, frozen=True):
    """A hook that is still to be run for a job that ended. The row goes when it has been run."""

    name: str
    job_id: str
    due_at: int
    """When it may be run next; while somebody runs it, when they are taken for dead."""
    attempts: int = 0
    error: str | None = None
    """Why the last attempt failed."""


HookName = tuple[str, str]
"""A hook's name and a job."""


class Keyed(Record, frozen=True):
    """The base of records of rare kinds. Each is found by its first field, which is text; stores load, lock, write and
    delete all of these kinds alike.

    belongs_to: the field that holds the id of the account that it belongs to; None if it is shared by all.
    """

    belongs_to: ClassVar[str | None] = None

    @property
    def name_in_state(self) -> KeyedName:
        return type(self).__name__, getattr(self, self.__struct_fields__[0])


KeyedName = tuple[str, str]
"""The name of a kind of keyed record, and its key."""


class Leader(Keyed, frozen=True, tag=True):
    """Which of many processes has a shared duty, and until when."""

    name: str
    owner: str
    expires_at: int


class ProviderState(Keyed, frozen=True, tag=True):
    """What all processes share of an external provider: when the next request may go out, and which are out now."""

    name: str
    next_at: int = 0
    """When the next request may go out, if requests are spaced evenly (see `turns.py`)."""
    turns: tuple[tuple[str, int], ...] = ()
    """The requests that are out, where their number is limited: the id of each, and when its caller is taken for
    dead."""
    failures: int = 0
    """Requests in a row that failed, while the circuit breaker is closed."""


class ProviderOutage(Keyed, frozen=True, tag=True):
    """A provider's circuit breaker while it is not closed; the row goes when it closes. A submit reads this row and no
    other, so that submits wait neither for requests nor for each other while the provider works."""

    provider: str
    since_at: int
    until_at: int
    """Until then no request goes out but the probe."""
    trips: int = 1
    """How often in a row it has opened; 0 if an operator opened it."""
    probe: str | None = None
    """The one request that is out to find out whether the provider works again."""
    error: str | None = None
    """What the last request that counted said."""


class Endpoint(Struct, frozen=True, gc=False):
    """An address that is told of events. Of several secrets each has signed since it was made, and until it expires."""

    id: str
    url: str
    events: tuple[str, ...]
    secrets: tuple[tuple[str, int | None], ...]
    created_at: int
    description: str = ""
    failing_since_at: int | None = None
    """Since when nothing could be delivered."""
    disabled_at: int | None = None
    disabled_reason: str | None = None
    tested_at: int | None = None


class WebhookEndpoints(Keyed, frozen=True, tag=True):
    """The endpoints of an account, or (owner "") the operator's own, which are told of every account."""

    belongs_to: ClassVar[str | None] = "owner"

    owner: str
    endpoints: tuple[Endpoint, ...] = ()


DeliveryState = Literal["pending", "delivered", "failed"]


class Delivery(Keyed, frozen=True, tag=True):
    """One event on its way to one endpoint. `body` is the JSON text that is signed and sent."""

    belongs_to: ClassVar[str | None] = "account_id"

    id: str
    owner: str
    endpoint_id: str
    event: str
    account_id: str
    job_id: str | None
    body: str
    created_at: int
    due_at: int
    """When it may be sent next; while somebody sends it, when they are taken for dead."""
    state: DeliveryState = "pending"
    attempts: int = 0
    answered: int | None = None
    """The HTTP status of the last answer."""
    error: str | None = None
    ended_at: int | None = None
    earlier_attempts: int = 0
    """Of the attempts, those before it was sent again."""


FileState = Literal["uploading", "stored", "removed"]
FileRole = Literal["input", "result"]


class File(Keyed, frozen=True, tag=True):
    """A file of an account. Its bytes lie in the file storage, under its id."""

    belongs_to: ClassVar[str | None] = "account_id"

    id: str
    account_id: str
    name: str
    """What its owner calls it; never a path."""
    state: FileState
    role: FileRole
    created_at: int
    expires_at: int | None = None
    """When it is removed, if no job has taken it by then."""
    media_type: str = ""
    size: int = 0
    """Bytes; while it is uploaded, the most that it may have."""
    digest: str = ""
    job_id: str | None = None
    """The job that made it, or the first that took it."""
    uses: int = 0
    """How many jobs have taken it as an input."""
    reservation_id: str | None = None


class FileUsage(Keyed, frozen=True, tag=True):
    """How many files an account has that are not removed, and their bytes together."""

    belongs_to: ClassVar[str | None] = "account_id"

    account_id: str
    files: int = 0
    size: int = 0


AnyKeyed = Leader | ProviderState | ProviderOutage | WebhookEndpoints | Delivery | File | FileUsage


class Tally(Record, frozen=True):
    """How many runs of a worker began, or ended in one way, and how long they took together."""

    worker: str
    kind: TallyKind
    runs: int
    busy_us: int = 0


class Worker(Record, frozen=True):
    """A worker's registration, as the worker itself reports it. A caller that only claims need not register."""

    name: str
    host: str
    pid: int
    pools: tuple[str, ...]
    concurrency: int
    version: str
    heartbeat_ms: int
    """How often it intends to send a heartbeat."""
    started_at: int
    seen_at: int
    stopped_at: int | None = None
    problem: str | None = None
    """What keeps it from its work, such as a tool that could not be set up."""


class ApiKey(Record, frozen=True):
    """A credential for HTTP. Of the key's text only the beginning and a digest are ever stored."""

    id: str
    name: str
    hint: str
    """The beginning of the text, so that people can tell their keys apart."""
    digest: str
    scope: ApiKeyScope
    account_id: str | None
    """The account that a user's key acts for; keys of other scopes belong to no account."""
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


class ApiKeyUse(Record, frozen=True):
    """When a key was last used. Stored apart from the key, because it changes often."""

    key_id: str
    at: int


class AuditLine(Record, frozen=True):
    """One immutable line: who did what to what, with which outcome. The store numbers the lines."""

    at: int
    actor: str
    act: str
    target: str
    details: dict[str, Any]
