"""The outcomes of commands. An expected refusal is an outcome like any other, never an exception."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .codes import CODES, Code
from .records import (
    Account,
    ApiKey,
    Brake,
    BulkAct,
    DeclaredHook,
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
"""What is removed by its age: a job with all that belongs to it; its result, with its payload; its payload alone."""


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
    """The number of the ledger line that was written, now or when the key was first used."""


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
    """How many jobs a submit with `as_far_as_credits` did not create."""
    refusal: Refusal | None = None
    """Why not all jobs could be created, for such a submit."""


class SubmitPreview(Struct, frozen=True, gc=False):
    """What a submit would lead to; nothing was changed.

    first: the first job as it would be created; None for a repeat, or if no job was described.
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
    """Jobs that were parked and not leased, because an equal one is being run or has its result."""
    answered: tuple[str, ...] = ()
    """Those of `behind` for which there is a result: `Recover` completes them."""
    held_back: tuple[tuple[str, str], ...] = ()
    """Those of `behind` whose tool is paused, each with its pool: `HoldBack` sees to them."""


class Held(Struct, frozen=True, gc=False):
    """The lease is still valid. `is_kept`: whether a line was kept in the job's history."""

    job_id: str
    status: Status
    expires_at: int
    deadline_at: int
    is_kept: bool = True


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


class BrakeChanged(Struct, frozen=True, gc=False):
    brake: Brake | None
    """None if nothing is stopped any more."""
    changed: bool = True


class HeldBack(Struct, frozen=True, gc=False):
    """Whether the job was held back, or let go."""

    changed: bool


class Seen(Struct, frozen=True, gc=False):
    worker: Worker


class ApiKeyChanged(Struct, frozen=True, gc=False):
    key: ApiKey
    changed: bool = True


class Used(Struct, frozen=True, gc=False):
    """The use of a key was recorded."""

    key_id: str


class HookDeclared(Struct, frozen=True, gc=False):
    """A hook as it is declared now."""

    hook: DeclaredHook


class ConfigurationNoted(Struct, frozen=True, gc=False):
    """The subjects whose change was told."""

    told: tuple[str, ...]


class HookForgotten(Struct, frozen=True, gc=False):
    """Whether the hook was declared before, and no longer is."""

    changed: bool


class HookHeld(Struct, frozen=True, gc=False):
    """The hook as it is held now; None if it is not due, or has been run."""

    hook: PendingHook | None


class HookEnded(Struct, frozen=True, gc=False):
    """Whether the end of a hook's run counted. It does not if a later run holds the hook, or the hook has ended."""

    changed: bool


class TurnTaken(Struct, frozen=True, gc=False):
    """The turn is reserved. The caller waits for `wait_ms`, then sends its request."""

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
    """The file as it is now. `changed` is False if it was stored, or removed, already."""

    file: File
    changed: bool = True


class CallbackNoted(Struct, frozen=True, gc=False):
    """Whether a call-back causes a poll of its provider. It does not if it is about another run or an ended job."""

    job_id: str
    asks: bool
    spec: JobSpec
    status: Status
    epoch: int
    """The job's, as are `spec` and `status`: for the log and the trace."""


class PollHeld(Struct, frozen=True, gc=False):
    """The job as it is held now; None if no poll of its provider is due, or another process holds it."""

    job: Job | None


class PollEnded(Struct, frozen=True, gc=False):
    """When the provider is polled next; None if the job no longer waits for it."""

    poll_at: int | None


class WorkRemoved(Struct, frozen=True, gc=False):
    """Whether the work was removed now (or had been before), and the files that went with it."""

    job_id: str
    changed: bool
    files: tuple[str, ...] = ()


class Pruned(Struct, frozen=True, gc=False):
    """What was removed of each job that was due, the files removed with it, and how many batches. Not `changed` if the
    account has submitted more since the query for its batches.

    kept: how many jobs are not due yet and have a time to be checked again.
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
    """How many rows were removed, counting the ledger lines that lost their reason."""

    rows: int
    changed: bool = True


class EndpointChanged(Struct, frozen=True, gc=False):
    """An endpoint as it is now, or (removed) as it was."""

    endpoint: Endpoint
    changed: bool = True


class DeliveryChanged(Struct, frozen=True, gc=False):
    """A message that is to be sent; not `changed` where it was to be sent already."""

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
    """Whether the end of an attempt counted, and whether it disabled the endpoint."""

    changed: bool = True
    disabled: bool = False


class BulkActChanged(Struct, frozen=True, gc=False):
    """A bulk act as it is now; not `changed` where it had ended before."""

    act: BulkAct
    changed: bool = True


class BulkActHeld(Struct, frozen=True, gc=False):
    """The bulk act as it is now; None if the caller no longer holds it, or could not hold it."""

    act: BulkAct | None


class SessionChanged(Struct, frozen=True, gc=False):
    """A session as it is now; not `changed` where the page had been left before."""

    account_id: str
    session: PageSession
    changed: bool = True


class SessionHeard(Struct, frozen=True, gc=False):
    """Whether the session is known: only one that reported `stay` or `leave` before is."""

    changed: bool


class SessionEnded(Struct, frozen=True, gc=False):
    """How many queued jobs were cancelled; not `changed` where the session's time is not over, or it has ended."""

    cancelled: int = 0
    changed: bool = True


class VerificationNoted(Struct, frozen=True, gc=False):
    violations: int


class Folded(Struct, frozen=True, gc=False):
    """How far figures are added up now; not `changed` where another process had added them meanwhile."""

    cursor: FigureCursor
    changed: bool = True


class Elected(Struct, frozen=True, gc=False):
    owner: str
    leads: bool
    expires_at: int
    left_ms: int
    """How long it is until `expires_at`."""


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
    | BrakeChanged
    | HeldBack
    | Seen
    | ApiKeyChanged
    | Used
    | HookDeclared
    | ConfigurationNoted
    | HookForgotten
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
