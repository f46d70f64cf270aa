"""What goes over the wire and is not a view already: the bodies that routes take, and the answers made of views."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ..core.records import Status
from ..engine.views import AccountView, ApiKeyView, EventView, JobView, PoolView

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Count = Annotated[int, Meta(ge=1)]
Credits = Annotated[int, Meta(ge=-(10**12), le=10**12)]
Seconds = Annotated[float, Meta(ge=0)]
Epoch = Annotated[int, Meta(ge=0, lt=2**31)]
Percent = Annotated[int, Meta(ge=0, le=100)]


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of all bodies: a field that nobody knows is a mistake that is told."""


class SubmitBody(Body, frozen=True):
    """One submit. `account` is for service and admin keys; a user's own account is known."""

    tool: Name
    payload: dict[str, Any] = {}
    account: Name | None = None
    idempotency_key: str | None = None
    key_ttl_hours: Seconds | None = None
    reservation: str | None = None
    session: Name | None = None
    batch: str | None = None
    run_at: datetime | None = None
    delay_s: Seconds = 0.0
    correlation_id: Name | None = None


class QuoteBody(Body, frozen=True):
    """A submit that is only asked about."""

    tool: Name
    payload: dict[str, Any] = {}
    account: Name | None = None
    reservation: str | None = None
    session: Name | None = None
    batch: str | None = None
    run_at: datetime | None = None
    delay_s: Seconds = 0.0


class SubmitAnswer(Struct, frozen=True, kw_only=True):
    """What a submit led to. `job` is there when the caller asked to wait (`Prefer: wait=…`)."""

    success: bool
    job_id: str
    status: Status
    idempotent_hit: bool
    position: int | None
    priority: int
    cost: int
    new_balance: int
    batch_id: str | None
    jobs: int
    quota_warnings: tuple[str, ...]
    cost_limit_warning: str | None
    job: JobView | None = None


class QuoteAnswer(Struct, frozen=True, kw_only=True):
    """What a submit would lead to. If it would not be admitted, `code` and `detail` say why."""

    admitted: bool
    cost: int
    jobs: int
    priority: int | None
    position: int | None
    estimated_wait_s: float | None
    balance: int
    new_balance: int | None
    quota_warnings: tuple[str, ...]
    cost_limit_warning: str | None
    code: str | None
    detail: str | None


class ReasonBody(Body, frozen=True):
    reason: str | None = None


class TokenBody(Body, frozen=True):
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = 900.0


class TokenAnswer(Struct, frozen=True, kw_only=True):
    """A token that lets a browser see, follow and cancel one job."""

    token: str
    expires_at: datetime


class FinishAnswer(Struct, frozen=True, kw_only=True):
    """What the job is now. `changed` is false when it had ended before and this call changed nothing."""

    job_id: str
    status: Status
    changed: bool
    refunded: int
    new_balance: int | None
    due_at: datetime | None


class ActiveAnswer(Struct, frozen=True, kw_only=True):
    """The account's active job; the one submitted last if there are several."""

    active: bool
    job_id: str | None
    status: Status | None
    tool: str | None
    job: JobView | None


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """A part of a history, oldest first; pass `next` as `after` to go on."""

    items: list[EventView]
    next: int | None


class ReserveBody(Body, frozen=True):
    account: Name | None = None
    ttl_s: Seconds | None = None


class BatchItem(Body, frozen=True):
    tool: Name
    payload: dict[str, Any] = {}


class BatchBody(Body, frozen=True):
    """Many jobs, all of them or none."""

    items: Annotated[list[BatchItem], Meta(min_length=1)]
    account: Name | None = None
    idempotency_key: str | None = None
    key_ttl_hours: Seconds | None = None
    session: Name | None = None
    run_at: datetime | None = None
    correlation_id: Name | None = None


class CancelledAnswer(Struct, frozen=True):
    cancelled: int


class ResumedAnswer(Struct, frozen=True):
    resumed: int


class PlanLimits(Struct, frozen=True, kw_only=True):
    """What the account's plan allows; null does not bind."""

    max_running: int | None
    max_active: int | None
    per_hour: int | None
    daily_limit: int | None
    monthly_limit: int | None


class AccountAnswer(AccountView, frozen=True, kw_only=True):
    """An account, with what its plan allows; `limits` is null where the application no longer declares the plan."""

    limits: PlanLimits | None


class ToolAnswer(Struct, frozen=True, kw_only=True):
    """A tool: `schema` is the payload's JSON Schema; `price` is null where it depends on the payload."""

    name: str
    description: str | None
    pool: str
    schema: dict[str, Any]
    price: int | None
    timeout_s: float
    max_wait_s: float | None
    attempts: int
    max_items: int | None
    dedupe: bool


class ToolsAnswer(Struct, frozen=True):
    items: list[ToolAnswer]


class CheckAnswer(Struct, frozen=True, kw_only=True):
    """Whether a job would start at once. `slots` and `slots_available` are null where a pool has no limit."""

    slots: int | None
    slots_available: int | None
    busy: int
    queue_length: int
    pools: list[PoolView]


class QueueFinishBody(Body, frozen=True):
    """How a job ended. `epoch` is the one that the claim gave; without it the job's present run is meant."""

    job_id: str
    status: Literal["completed", "failed", "cancelled"]
    result: Any = None
    error: str | None = None
    epoch: Epoch | None = None
    delivered: Annotated[int, Meta(ge=0)] | None = None
    of: Count | None = None


class NextBody(Body, frozen=True):
    worker: Name
    pool: Name | None = None
    pools: Annotated[list[Name], Meta(min_length=1)] | None = None
    limit: Count = 1


class ClaimBody(Body, frozen=True):
    """`wait_s`: how long to wait for work if there is none."""

    worker: Name
    pools: Annotated[list[Name], Meta(min_length=1)]
    limit: Count = 1
    wait_s: Seconds = 0.0


class LeaseAnswer(Struct, frozen=True, kw_only=True):
    """A job to work on. Every word about it carries `job_id` and `epoch`. Send heartbeats before `expires_at`; the run
    is ended at `deadline_at`. `steps` are the results stored by earlier runs, by name."""

    job_id: str
    epoch: int
    worker: str
    tool: str
    pool: str
    account: str
    payload: Any
    attempts: int
    recoveries: int
    checkpoint: str | None
    progress: int
    resume_data: Any
    steps: dict[str, Any]
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
    """A lease as it stands; with `code` and `detail`, it was lost and the work must stop."""

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
    """The lease stands until then."""

    job_id: str
    expires_at: datetime


class StepBody(LeaseBody, frozen=True):
    name: Name
    result: Any = None


class StepAnswer(Struct, frozen=True):
    """The step's stored result: the one given, or the earlier one if the step was stored before."""

    job_id: str
    name: str
    result: Any


class ReportBody(LeaseBody, frozen=True):
    progress: Percent | None = None
    partial: Any = None


class LogBody(LeaseBody, frozen=True):
    text: str


class WorkerFinishBody(LeaseBody, frozen=True):
    """How a run ended. `completed` takes `result` (and `delivered` of `of`); `failed` takes `error` and `final`;
    `retry` takes `after_s` and `reason`; `cancelled` and `returned` take `reason`; `accepted` takes `ref`."""

    outcome: Literal["completed", "failed", "retry", "cancelled", "accepted", "returned"]
    result: Any = None
    delivered: Annotated[int, Meta(ge=0)] | None = None
    of: Count | None = None
    error: str | None = None
    final: bool = False
    after_s: Seconds = 0.0
    reason: str | None = None
    ref: Name | None = None


class HealthAnswer(Struct, frozen=True, kw_only=True):
    status: Literal["ok", "away"]
    version: str
    database: str


class StatsAnswer(Struct, frozen=True, kw_only=True):
    """Figures over the active jobs. `avg_run_s`: from first start to completion, over the latest completions."""

    total: int
    stuck: int
    dead: int
    by_status: dict[Status, int]
    by_checkpoint: dict[str, int]
    avg_run_s: float | None


class SweepAnswer(Struct, frozen=True, kw_only=True):
    """What was done: jobs by what became of them."""

    jobs: dict[str, int]
    reservations: int
    keys: int


class RecoveredAnswer(Struct, frozen=True, kw_only=True):
    job_id: str
    act: str
    refunded: int


class OpenAccountBody(Body, frozen=True):
    account: Name
    plan: Name | None = None
    credits: Annotated[int, Meta(ge=0, le=10**12)] = 0


class GrantBody(Body, frozen=True):
    """A repeat with the same `key` (or Idempotency-Key header) changes nothing."""

    amount: Annotated[int, Meta(ge=1, le=10**12)]
    reason: str | None = None
    key: str | None = None


class AdjustBody(Body, frozen=True):
    amount: Credits
    reason: str
    key: str | None = None


class PlanBody(Body, frozen=True):
    plan: Name


class PlanAnswer(Struct, frozen=True, kw_only=True):
    name: str
    priority: int
    max_running: int | None
    max_active: int | None
    per_hour: int | None
    daily_limit: int | None
    daily_warning: int | None
    monthly_limit: int | None
    monthly_warning: int | None
    ageing_s: float | None


class PlansAnswer(Struct, frozen=True):
    items: list[PlanAnswer]


class PoolsAnswer(Struct, frozen=True):
    items: list[PoolView]


class ResizeBody(Body, frozen=True):
    slots: Annotated[int, Meta(ge=0, lt=2**31)] | None


class RequeuedAnswer(Struct, frozen=True):
    """The new job that does the dead letter's work again."""

    job_id: str


class DiscardedAnswer(Struct, frozen=True):
    job_id: str
    changed: bool


class ApiKeyBody(Body, frozen=True):
    """`account` is for user keys, which need one."""

    name: Name
    scope: Literal["user", "service", "admin"] = "user"
    account: Name | None = None
    ttl_s: Annotated[float, Meta(gt=0)] | None = None


class ApiKeyAnswer(Struct, frozen=True):
    """A new key. `secret` is shown this once."""

    secret: str
    key: ApiKeyView


class ProbeAnswer(Struct, frozen=True):
    status: Literal["ok", "away"]
