"""What goes over the wire and is not a view already: the bodies that routes take, and the answers made of views."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Raw, Struct

from ..core.policy import MAX_PROVIDER_COST
from ..core.records import ApiKeyScope, BulkVerb, ReservationState, Status
from ..core.webhooks import WebhookEvent
from ..engine.views import AccountView, JobView, PoolView, Receipt
from ..job_search import JOB_SEARCH_LENGTH
from ..requests import Body, Name, Seconds
from ..store.base import Stats

Count = Annotated[int, Meta(ge=1)]
Credits = Annotated[int, Meta(ge=-(10**12), le=10**12)]
Epoch = Annotated[int, Meta(ge=0, lt=2**31)]
Percent = Annotated[int, Meta(ge=0, le=100)]


class SubmitAnswer(Receipt, frozen=True, kw_only=True):
    """What a submit led to. `job` is there when the caller asked to wait (`Prefer: wait=…`)."""

    success: bool = True
    job: JobView | None = None


class ReasonBody(Body, frozen=True):
    reason: str | None = None


class ReservationCounts(Struct, frozen=True, kw_only=True):
    """Reservations by their state now."""

    by_state: dict[ReservationState, int]
    total: int


class RunScheduleBody(Body, frozen=True, kw_only=True):
    """key: the caller's own name for this run; a repeat gets the first job."""

    key: str | None = None


class RefundBody(Body, frozen=True, kw_only=True):
    """`amount` or `share`: refunds only a part of the charge."""

    reason: Annotated[str, Meta(min_length=1)]
    amount: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None


class CloseBody(Body, frozen=True):
    """`reason` is a sentence for those who submit."""

    reason: Annotated[str, Meta(min_length=1)]


class BulkActBody(Body, frozen=True, kw_only=True):
    """`amount` or `share`: refunds only a part of each job's charge."""

    act: BulkVerb
    search: Annotated[str, Meta(max_length=JOB_SEARCH_LENGTH)]
    reason: Annotated[str, Meta(min_length=1)]
    amount: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(gt=0, le=1)] | None = None


class PruneBody(Body, frozen=True):
    """`max_seconds`: how long it may take."""

    dry_run: bool = False
    max_seconds: Annotated[float, Meta(gt=0, le=60)] = 10.0


class TokenBody(Body, frozen=True):
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = 900.0


class ActiveAnswer(Struct, frozen=True, kw_only=True):
    """The account's active job; the one submitted last if there are several."""

    active: bool
    job_id: str | None
    status: Status | None
    tool: str | None
    job: JobView | None


class ReserveBody(Body, frozen=True):
    account: Name | None = None
    ttl_s: Seconds | None = None


class UploadBody(Body, frozen=True, kw_only=True):
    """An upload that goes straight to the storage: `size` bytes exactly, sent with this `media_type`."""

    account: Name | None = None
    name: Name
    size: Annotated[int, Meta(ge=0, lt=2**53)]
    media_type: Annotated[str, Meta(max_length=100, pattern=r"^[A-Za-z0-9.+-]+/[A-Za-z0-9.+-]+$")] | None = None
    reservation: str | None = None


class PlanLimits(Struct, frozen=True, kw_only=True):
    """What the account's plan allows; null is no limit."""

    max_running: int | None
    max_active: int | None
    per_hour: int | None
    daily_limit: int | None
    monthly_limit: int | None
    file_bytes: int | None
    max_files: int | None
    storage_bytes: int | None


class AccountAnswer(AccountView, frozen=True, kw_only=True):
    """An account, with what its plan allows; `limits` is null where the application no longer declares the plan.
    `files` and `storage_bytes` are how many files it has, and their bytes together."""

    files: int
    storage_bytes: int
    limits: PlanLimits | None


UNLIMITED: Final = 2**31 - 1
"""How many slots are free where there is no limit. A number, because programs compare it: null is not above 0."""


class CheckAnswer(Struct, frozen=True, kw_only=True):
    """Whether a job would start at once: if `slots_available` is above 0.

    slots, slots_available: of all pools in `pools` that have a limit and that some tool uses. If none has a limit,
    `slots` is null, and `slots_available` is 2147483647, or 0 if all are paused.
    busy, queue_length: of all pools in `pools`.
    """

    slots: int | None
    slots_available: int
    busy: int
    queue_length: int
    pools: list[PoolView]


class QueueFinishBody(Body, frozen=True):
    """How a job ended. `epoch` is the one that the claim gave; without it the job's current run is meant. The job's
    owner may read `error` only if it is written `for_user`."""

    job_id: str
    status: Literal["completed", "failed", "cancelled"]
    result: Any = None
    error: str | None = None
    for_user: bool = False
    epoch: Epoch | None = None
    delivered: Annotated[int, Meta(ge=0)] | None = None
    of: Count | None = None


class NextBody(Body, frozen=True):
    worker: Name
    pool: Name | None = None
    pools: Annotated[list[Name], Meta(min_length=1, max_length=1_000)] | None = None
    limit: Count = 1


class ClaimBody(Body, frozen=True):
    """`wait_s`: how long to wait for work if there is none."""

    worker: Name
    pools: Annotated[list[Name], Meta(min_length=1, max_length=1_000)]
    limit: Count = 1
    wait_s: Seconds = 0.0


class LeaseAnswer(Struct, frozen=True, kw_only=True):
    """A job to work on. Every call about it carries `job_id` and `epoch`. Send heartbeats before `expires_at`; the
    first one after `deadline_at` ends the run as timed out. `steps` are the results stored by earlier runs, by name."""

    job_id: str
    epoch: int
    worker: str
    tool: str
    pool: str
    account: str
    payload: Raw
    attempts: int
    recoveries: int
    checkpoint: str | None
    progress: int
    resume_data: Raw
    steps: dict[str, Raw]
    correlation_id: str | None
    expires_at: datetime
    deadline_at: datetime


class LeasesAnswer(Struct, frozen=True):
    leases: list[LeaseAnswer]


class LeaseBody(Body, frozen=True):
    job_id: str
    epoch: Epoch


class HeartbeatBody(Body, frozen=True):
    leases: Annotated[list[LeaseBody], Meta(min_length=1, max_length=1_000)]


class BeatAnswer(Struct, frozen=True, kw_only=True):
    """A lease's state; with `code` and `detail`, it was lost and the work must stop."""

    job_id: str
    epoch: int
    expires_at: datetime | None
    code: str | None = None
    detail: str | None = None


class HeartbeatAnswer(Struct, frozen=True):
    leases: list[BeatAnswer]


class CheckpointBody(LeaseBody, frozen=True):
    name: Name
    progress: Percent = 0
    data: Any = None


class HeldAnswer(Struct, frozen=True):
    """The lease is held until `expires_at`."""

    job_id: str
    expires_at: datetime


class StepBody(LeaseBody, frozen=True):
    name: Name
    result: Any = None


class StepAnswer(Struct, frozen=True):
    """The step's stored result: the one given, or the earlier one if the step was stored before."""

    job_id: str
    name: str
    result: Raw


class ReportBody(LeaseBody, frozen=True):
    progress: Percent | None = None
    partial: Any = None


class LogBody(LeaseBody, frozen=True):
    text: str


class WorkerFinishBody(LeaseBody, frozen=True):
    """How a run ended. `completed` takes `result` (and `delivered` of `of`); `failed` takes `error`, `final`, and
    `for_user` if the job's owner may read `error`; `retry` takes `after_s` and `reason`; `cancelled` and `returned`
    take `reason`; `accepted` takes `ref`. `completed` and `failed` also take `provider_cost`: what an external provider
    charged for the run, in your currency."""

    outcome: Literal["completed", "failed", "retry", "cancelled", "accepted", "returned"]
    result: Any = None
    delivered: Annotated[int, Meta(ge=0)] | None = None
    of: Count | None = None
    error: str | None = None
    final: bool = False
    for_user: bool = False
    after_s: Seconds = 0.0
    reason: str | None = None
    ref: Name | None = None
    provider_cost: Annotated[float, Meta(ge=0, le=MAX_PROVIDER_COST)] | None = None


class HealthAnswer(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "away"]
    version: str
    database: str


class StatsAnswer(Stats, frozen=True, kw_only=True):
    """Figures over the active jobs. `avg_run_s`: from first start to completion, over the latest completions."""

    total: int


class OpenAccountBody(Body, frozen=True):
    """With `exist_ok`, an account that is open already is shown as it is, and nothing is granted."""

    account: Name
    plan: Name | None = None
    credits: Annotated[int, Meta(ge=0, le=10**12)] = 0
    exist_ok: bool = False


class CreditBody(Body, frozen=True):
    """A grant adds from 1 up; a correction may take away, and needs a `reason`. A repeat with the same `key` (or
    Idempotency-Key header) changes nothing."""

    amount: Credits
    reason: str | None = None
    key: str | None = None


class PlanBody(Body, frozen=True):
    plan: Name


class OpenBreakerBody(Body, frozen=True):
    seconds: Seconds = 3_600.0
    reason: str | None = None


class ResizeBody(Body, frozen=True):
    slots: Annotated[int, Meta(ge=0, lt=2**31)] | None


class ApiKeyBody(Body, frozen=True):
    """`account` is for user keys, which need one."""

    name: Name
    scope: ApiKeyScope = "user"
    account: Name | None = None
    ttl_s: Annotated[float, Meta(gt=0)] | None = None


class SignInBody(Body, frozen=True):
    """`token`: an API key or a JWT."""

    token: Annotated[str, Meta(min_length=1)]

    def __repr__(self) -> str:
        """Without the token."""
        return "SignInBody(…)"


class SignedIn(Struct, frozen=True, kw_only=True):
    """Who the caller is. `expires_at`: when the sign-in ends, or the credential that was sent. `environment`: the name
    of this installation, if it has one."""

    name: str
    scope: ApiKeyScope
    account: str | None
    expires_at: datetime | None
    environment: str | None


class SignedOut(Struct, frozen=True):
    """The cookie of the sign-in was removed."""

    signed_out: bool


class CallbackAnswer(Struct, frozen=True):
    """The call-back was received."""

    received: bool


class WebhookBody(Body, frozen=True):
    """`events`: which events are sent to the endpoint; empty for all. `account` is for service and admin keys."""

    url: Annotated[str, Meta(max_length=2_048)]
    account: Name | None = None
    events: tuple[WebhookEvent, ...] = ()
    description: Annotated[str, Meta(max_length=200)] = ""


class RotateBody(Body, frozen=True):
    """`overlap_s`: how long earlier secrets sign beside the new one."""

    overlap_s: Seconds | None = None


class ProbeAnswer(Struct, frozen=True, omit_defaults=True):
    """problem: why the process cannot serve."""

    status: Literal["ok", "away"]
    problem: str | None = None
