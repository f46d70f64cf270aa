"""The outcomes of commands. An expected refusal is an outcome like any other, never an exception."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .codes import CODES, Code
from .records import (
    Account,
    ApiKey,
    BulkAct,
    Delivery,
    Endpoint,
    FigureCursor,
    File,
    Job,
    JobSpec,
    PageSession,
    Parked,
    PendingHook,
    Pool,
    ProviderOutage,
    Reservation,
    RetentionCursor,
    Schedule,
    Status,
    Worker,
)

Removal = Literal["job", "result", "payload"]
"""What leaves by its age: the job with all that belongs to it; its result, with its payload; its payload alone."""


class Refusal(Struct, frozen=True, gc=False):
    """The command was refused and changed nothing."""

    code: Code
    message: str
    retry_after_s: float | None = None
    details: dict[str, Any] = {}

    @property
    def retryable(self) -> bool:
        facts = CODES.get(self.code)  # (A server of a later release may know further codes.)
        return facts is not None and facts.retryable


class AccountChanged(Struct, frozen=True, gc=False):
    account: Account
    repeated: bool = False
    """The key was used before, or the account was open already: nothing was changed now."""
    entry: int | None = None
    """The number of the ledger line that was written; for a key that was used before, then."""


class Recounted(Struct, frozen=True, gc=False):
    """What was added to the counters of an account, by name, and how many parked jobs became ready."""

    account_id: str
    corrected: dict[str, int]
    promoted: int = 0

    @property
    def changed(self) -> bool:
        return bool(self.corrected or self.promoted)


class Rate(Struct, frozen=True, gc=False):
    """The plan's jobs per hour, how many of them are left, and the seconds until the next hour."""

    limit: int
    left: int
    resets_s: int


class Submitted(Struct, frozen=True, gc=False):
    job_id: str
    status: Status
    pool: str
    priority: int
    rank: int | None
    """Its order in the queue; None for a job that does not wait."""
    cost: int
    new_balance: int
    jobs: int = 1
    batch_id: str | None = None
    idempotent_hit: bool = False
    quota_warnings: tuple[str, ...] = ()
    cost_limit_warning: str | None = None
    rate: Rate | None = None
    """None where the plan has no such limit."""
    left_out: int = 0
    """Jobs that were not created, of a submit that goes as far as the credits do."""
    refusal: Refusal | None = None
    """Why the first of them was not."""


class SubmitPreview(Struct, frozen=True, gc=False):
    """What a submit would lead to; nothing was changed.

    first: its first job, as it would be created; None where none was described.
    """

    first: Job | None
    jobs: int
    cost: int
    balance: int
    new_balance: int
    quota_warnings: tuple[str, ...] = ()
    cost_limit_warning: str | None = None


class ClaimedJob(Struct, frozen=True, gc=False):
    """A lease as a claim returns it. `job` is the job as claimed."""

    job: Job
    payload: str
    worker: str
    epoch: int
    expires_at: int
    deadline_at: int


class Claimed(Struct, frozen=True, gc=False):
    leases: tuple[ClaimedJob, ...]
    behind: tuple[str, ...] = ()
    """Jobs that were looked at and not leased, because an equal one is being run or has its result."""
    answered: tuple[str, ...] = ()
    """Those of them for which there is a result: `Recover` completes them."""


class Held(Struct, frozen=True, gc=False):
    """The lease is still valid."""

    job_id: str
    status: Status
    expires_at: int
    deadline_at: int


class StepSaved(Struct, frozen=True, gc=False):
    """The step's stored result: the one given, or the earlier one if the step was stored before."""

    job_id: str
    name: str
    result_json: str


class Finished(Struct, frozen=True, gc=False):
    """The job as it is now. `changed` is False when it had ended before and this call changed nothing."""

    job: Job
    changed: bool
    refunded: int
    new_balance: int

    @property
    def job_id(self) -> str:
        return self.job.id

    @property
    def status(self) -> Status:
        return self.job.status

    @property
    def due_at(self) -> int | None:
        """When a retried job becomes claimable again."""
        return self.job.place.due_at if isinstance(self.job.place, Parked) else None


class ReservationChanged(Struct, frozen=True, gc=False):
    reservation: Reservation
    changed: bool = True
    quota_warnings: tuple[str, ...] = ()


RecoveryAct = Literal["nothing", "requeued", "failed", "cancelled", "promoted", "parked", "aged", "reused"]


class Recovered(Struct, frozen=True, gc=False):
    job_id: str
    act: RecoveryAct
    refunded: int = 0


class Forgotten(Struct, frozen=True, gc=False):
    """Something that had expired was removed (or had not expired, and stayed)."""

    changed: bool


class Discarded(Struct, frozen=True, gc=False):
    job_id: str
    changed: bool


class PoolChanged(Struct, frozen=True, gc=False):
    pool: Pool


class Seen(Struct, frozen=True, gc=False):
    worker: Worker


class ApiKeyChanged(Struct, frozen=True, gc=False):
    key: ApiKey
    changed: bool = True


class Used(Struct, frozen=True, gc=False):
    """The use of a key was recorded."""

    key_id: str


class HookHeld(Struct, frozen=True, gc=False):
    """The hook as it is held now; None if it is not due, or has been run."""

    hook: PendingHook | None


class HookEnded(Struct, frozen=True, gc=False):
    """Whether the word about a hook's run counted: a later run, or nobody any more, may hold it."""

    changed: bool


class TurnTaken(Struct, frozen=True, gc=False):
    """The turn is reserved. The caller waits so long, then sends its request."""

    turn_id: str
    wait_ms: int
    is_probe: bool = False
    """Whether this request finds out if the provider works again."""


class TurnEnded(Struct, frozen=True, gc=False):
    """Whether the circuit breaker is open now."""

    is_open: bool


class BreakerChanged(Struct, frozen=True, gc=False):
    """The outage as it is now; None while the circuit breaker is closed."""

    outage: ProviderOutage | None
    changed: bool = True


class FileChanged(Struct, frozen=True, gc=False):
    """The file as it is now. `changed` is False where it was so before: it is stored, or removed, already."""

    file: File
    changed: bool = True


class CallbackNoted(Struct, frozen=True, gc=False):
    """Whether a call-back leads to a question to its provider: it may be of another run, or of a job that ended."""

    job_id: str
    asks: bool
    spec: JobSpec
    status: Status
    epoch: int
    """The job's, for the log and the trace."""


class PollHeld(Struct, frozen=True, gc=False):
    """The job as it is held now; None if its provider need not be asked, or somebody else asks."""

    job: Job | None


class PollEnded(Struct, frozen=True, gc=False):
    """When the provider is asked again; None if nobody waits for it any more."""

    poll_at: int | None


class WorkRemoved(Struct, frozen=True, gc=False):
    """Whether the work was removed now (or had been before), and the files that went with it."""

    job_id: str
    changed: bool
    files: tuple[str, ...] = ()


class Pruned(Struct, frozen=True, gc=False):
    """What was removed of each job that was due, the files that went with it, and how many batches; not `changed` where
    the account has submitted more since it was looked for.

    kept: jobs that are not due yet, and are looked at again.
    """

    removals: dict[str, Removal]
    kept: int = 0
    files: tuple[str, ...] = ()
    batches: int = 0
    changed: bool = True


class RetentionMoved(Struct, frozen=True, gc=False):
    """How far the walk has come; not `changed` where somebody else has moved it meanwhile."""

    walk: RetentionCursor
    changed: bool = True


class ClosedAccount(Struct, frozen=True, gc=False):
    """Whether the account was closed now (or had been before), and what it has left."""

    account: Account
    changed: bool = True


class RowsErased(Struct, frozen=True, gc=False):
    """How many rows were removed, and ledger lines that lost their reason."""

    rows: int
    changed: bool = True


class EndpointChanged(Struct, frozen=True, gc=False):
    """An endpoint as it is now, or (removed) as it was."""

    endpoint: Endpoint
    changed: bool = True


class DeliveryChanged(Struct, frozen=True, gc=False):
    """A message that is to be sent; not `changed` where that was so already."""

    delivery: Delivery
    changed: bool = True


class DeliveriesMade(Struct, frozen=True, gc=False):
    """How many messages were made; not `changed` where this run of the hook does not count any more."""

    made: int
    changed: bool = True


class DeliveryHeld(Struct, frozen=True, gc=False):
    """The message as it is held now, and where it goes; None if it is not due, or its endpoint is gone."""

    delivery: Delivery | None = None
    endpoint: Endpoint | None = None


class DeliveryEnded(Struct, frozen=True, gc=False):
    """Whether the word about an attempt counted, and whether it disabled the endpoint."""

    changed: bool = True
    disabled: bool = False


class BulkActChanged(Struct, frozen=True, gc=False):
    """A bulk act as it is now; not `changed` where it had ended before."""

    act: BulkAct
    changed: bool = True


class BulkActHeld(Struct, frozen=True, gc=False):
    """The bulk act as it is after a step; None if it is not held any more, or was not to be had."""

    act: BulkAct | None


class SessionChanged(Struct, frozen=True, gc=False):
    """A session as it is now; not `changed` where the page had been left before."""

    account_id: str
    session: PageSession
    changed: bool = True


class SessionHeard(Struct, frozen=True, gc=False):
    """Whether the session is one that said something before: others are not known."""

    changed: bool


class SessionEnded(Struct, frozen=True, gc=False):
    """How many queued jobs were cancelled; not `changed` where the session's time is not over, or it has ended."""

    cancelled: int = 0
    changed: bool = True


class VerificationNoted(Struct, frozen=True, gc=False):
    violations: int


class Folded(Struct, frozen=True, gc=False):
    """How far figures are added up now; not `changed` where somebody else had added them meanwhile."""

    cursor: FigureCursor
    changed: bool = True


class Elected(Struct, frozen=True, gc=False):
    owner: str
    leads: bool
    expires_at: int
    left_ms: int
    """How long that is from now."""


class ScheduleChanged(Struct, frozen=True, gc=False):
    """A schedule as it is now; not `changed` where it was so before."""

    schedule: Schedule
    changed: bool = True


class ScheduleFired(Struct, frozen=True, gc=False):
    """A schedule as it is after a slot; not `changed` where somebody else had settled it.

    submitted: the job that it led to; None where there was none to submit, or it was refused.
    """

    schedule: Schedule | None
    submitted: Submitted | None = None
    changed: bool = True


Outcome = (
    Refusal
    | AccountChanged
    | Recounted
    | Submitted
    | Claimed
    | Held
    | StepSaved
    | Finished
    | ReservationChanged
    | Recovered
    | Forgotten
    | Discarded
    | PoolChanged
    | Seen
    | ApiKeyChanged
    | Used
    | HookHeld
    | HookEnded
    | TurnTaken
    | TurnEnded
    | BreakerChanged
    | FileChanged
    | CallbackNoted
    | PollHeld
    | PollEnded
    | WorkRemoved
    | EndpointChanged
    | DeliveryChanged
    | DeliveriesMade
    | DeliveryHeld
    | DeliveryEnded
    | BulkActChanged
    | BulkActHeld
    | SessionChanged
    | SessionHeard
    | SessionEnded
    | Folded
    | VerificationNoted
    | Pruned
    | RetentionMoved
    | ClosedAccount
    | RowsErased
    | Elected
    | ScheduleChanged
    | ScheduleFired
)
