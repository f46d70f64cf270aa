"""What people and programs see of jobs, accounts and the rest: records with dates, parsed JSON and derived figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..core.api_keys import ApiKeyState
from ..core.api_keys import state_of as api_key_state
from ..core.ledger import spent_this_month, spent_today
from ..core.outcomes import Lease as CoreLease
from ..core.outcomes import Rate, Refusal, Submitted
from ..core.policy import SECOND, submits_this_hour
from ..core.pools import WaitReason
from ..core.quota import state_of
from ..core.records import (
    Account,
    ApiKeyScope,
    Awaiting,
    Entry,
    EntryKind,
    Key,
    KeyScope,
    Leased,
    Parked,
    Reservation,
    ReservationState,
    Status,
)
from ..core.states import FINAL
from ..store.base import ApiKeyRow, BatchCounts, JobRow, NumberedEvent, NumberedLine, PoolCounts
from .positions import QueueStanding

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at: int) -> datetime:
    """An instant as a date in UTC, to the microsecond."""
    return _EPOCH + timedelta(microseconds=at)


def instant(date: datetime) -> int:
    """A date as whole microseconds; a date without a zone is taken for UTC."""
    aware = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


def _moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)


class JobView(Struct, frozen=True, kw_only=True):
    """A job as its owner sees it.

    position: 1 is next; None when the job does not wait for its turn.
    waiting_for: why a queued job has not started: its `place` in the queue, its account's limit (`account_limit`), the
        pool's slots (`pool_full`), its `schedule`, or a paused pool (`pool_paused`).
    waited_in_queue: seconds from its creation to its first start, or to now or its end if it never started.
    """

    id: str
    account: str
    session: str | None
    tool: str
    pool: str
    status: Status
    position: int | None
    estimated_wait_s: float | None
    waiting_for: WaitReason | None
    waited_in_queue: float
    priority: int
    cost: int
    charged: int
    refunded: int
    units: int
    delivered: int | None
    payload: Any
    result: Any
    error: str | None
    attempts: int
    max_attempts: int
    recoveries: int
    epoch: int
    checkpoint: str | None
    progress: int
    resume_data: Any
    partial: Any
    locked_by: str | None
    locked_at: datetime | None
    lock_expires_at: datetime | None
    last_heartbeat_at: datetime | None
    provider_ref: str | None
    batch: str | None
    correlation_id: str | None
    requeue_of: str | None
    is_dead_letter: bool
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None


def job_view(
    row: JobRow, now: int, standing: QueueStanding | None = None, waiting_for: WaitReason | None = None
) -> JobView:
    job = row.job
    lease = job.place if isinstance(job.place, Leased) else None
    point = job.checkpoint
    waited_until = job.started_at or job.finished_at or now
    return JobView(
        id=job.id,
        account=job.account_id,
        session=job.session,
        tool=job.tool,
        pool=job.pool,
        status=job.status,
        position=None if standing is None else standing.position,
        estimated_wait_s=None if standing is None else standing.estimated_wait_s,
        waiting_for=waiting_for,
        waited_in_queue=max(0, waited_until - job.created_at) / SECOND,
        priority=job.priority,
        cost=job.cost,
        charged=job.charged,
        refunded=job.refunded,
        units=job.units,
        delivered=job.delivered,
        payload=msgspec.json.decode(row.payload),
        result=None if row.result is None else msgspec.json.decode(row.result),
        error=job.error,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        recoveries=job.recoveries,
        epoch=job.epoch,
        checkpoint=None if point is None else point.name or None,
        progress=100 if job.status == "completed" else 0 if point is None else point.progress,
        resume_data=msgspec.json.decode(point.data) if point is not None and point.name else None,
        partial=None if point is None or point.partial is None else msgspec.json.decode(point.partial),
        locked_by=None if lease is None else lease.worker,
        locked_at=None if lease is None else moment(lease.leased_at),
        lock_expires_at=None if lease is None else moment(lease.expires_at),
        last_heartbeat_at=None if lease is None else moment(lease.heartbeat_at),
        provider_ref=job.place.ref if isinstance(job.place, Awaiting) else None,
        batch=job.batch_id,
        correlation_id=job.correlation_id,
        requeue_of=job.requeue_of,
        is_dead_letter=job.dead_at is not None,
        created_at=moment(job.created_at),
        scheduled_at=_moment(job.place.due_at) if isinstance(job.place, Parked) else None,
        started_at=_moment(job.started_at),
        finished_at=_moment(job.finished_at),
    )


class Wait(Struct, frozen=True):
    """How a queued job waits: its position (1 is next), about how long it still waits, and what it waits for."""

    position: int | None
    estimated_wait_s: float | None
    waiting_for: WaitReason | None


class Receipt(Struct, frozen=True, kw_only=True):
    """What a submit led to. With a batch, `job_id` is its first job and `jobs` says how many there are.

    rate: the plan's jobs per hour, how many of them are left and when the hour ends; None where it has no such limit.
    """

    job_id: str
    status: Status
    position: int | None
    priority: int
    cost: int
    new_balance: int
    idempotent_hit: bool
    batch_id: str | None
    jobs: int
    quota_warnings: tuple[str, ...]
    cost_limit_warning: str | None
    rate: Rate | None


def receipt(outcome: Submitted, position: int | None) -> Receipt:
    return Receipt(
        job_id=outcome.job_id,
        status=outcome.status,
        position=position,
        priority=outcome.priority,
        cost=outcome.cost,
        new_balance=outcome.new_balance,
        idempotent_hit=outcome.idempotent_hit,
        batch_id=outcome.batch_id,
        jobs=outcome.jobs,
        quota_warnings=outcome.quota_warnings,
        cost_limit_warning=outcome.cost_limit_warning,
        rate=outcome.rate,
    )


class Quote(Struct, frozen=True, kw_only=True):
    """What a submit would lead to if it came now. Nothing was changed.

    admitted: whether it would be accepted; if not, `refusal` says why.
    position, estimated_wait_s: where the (first) job would stand; None if it would not wait for its turn.
    """

    admitted: bool
    cost: int
    jobs: int
    priority: int | None
    position: int | None
    estimated_wait_s: float | None
    balance: int
    new_balance: int | None
    refusal: Refusal | None
    quota_warnings: tuple[str, ...]
    cost_limit_warning: str | None


class Lease(Struct, frozen=True, eq=False, gc=False):
    """A worker's hold on a job: what a claim hands out, and what proves the right to speak about the job."""

    core: CoreLease
    job_id: str
    account: str
    epoch: int
    worker: str

    @classmethod
    def of(cls, lease: CoreLease) -> Lease:
        return cls(lease, lease.job.id, lease.job.account_id, lease.epoch, lease.worker)

    @property
    def job(self) -> JobView:
        """The job as it was claimed."""
        return job_view(JobRow(self.core.job, self.core.payload, None), self.claimed_at)

    @property
    def tool(self) -> str:
        return self.core.job.tool

    @property
    def payload(self) -> Any:
        return msgspec.json.decode(self.core.payload)

    @property
    def claimed_at(self) -> int:
        place = self.core.job.place
        assert isinstance(place, Leased)
        return place.leased_at

    @property
    def expires_at(self) -> datetime:
        """When the lease ends unless a heartbeat extends it."""
        return moment(self.core.expires_at)

    @property
    def deadline_at(self) -> datetime:
        """When the run is timed out, whatever the heartbeats."""
        return moment(self.core.deadline_at)

    def __repr__(self) -> str:
        return f"Lease(job_id={self.job_id!r}, epoch={self.epoch}, worker={self.worker!r})"


class AccountView(Struct, frozen=True, kw_only=True):
    id: str
    plan: str
    balance: int
    active: int
    admitted: int
    parked: int
    submitted: int
    submits_this_hour: int
    spent_today: int
    spent_this_month: int
    active_job: str | None
    opened_at: datetime


def account_view(account: Account, now: int) -> AccountView:
    return AccountView(
        id=account.id,
        plan=account.plan,
        balance=account.balance,
        active=account.active,
        admitted=account.admitted,
        parked=account.parked,
        submitted=account.submitted,
        submits_this_hour=submits_this_hour(account, now),
        spent_today=spent_today(account, now),
        spent_this_month=spent_this_month(account, now),
        active_job=account.latest_job,
        opened_at=moment(account.opened_at),
    )


class EntryView(Struct, frozen=True, kw_only=True):
    """One ledger line."""

    number: int
    kind: EntryKind
    amount: int
    balance_after: int
    job_id: str | None
    reason: str | None
    at: datetime


def entry_view(entry: Entry) -> EntryView:
    return EntryView(
        number=entry.number,
        kind=entry.kind,
        amount=entry.amount,
        balance_after=entry.balance_after,
        job_id=entry.job_id,
        reason=entry.reason,
        at=moment(entry.at),
    )


class EventView(Struct, frozen=True, kw_only=True):
    """One line of a job's history; `number` rises with time and is what a reader resumes after."""

    number: int
    job_id: str
    kind: str
    data: dict[str, Any]
    at: datetime


def event_view(numbered: NumberedEvent) -> EventView:
    event = numbered.event
    return EventView(
        number=numbered.number, job_id=event.job_id, kind=event.kind, data=event.data or {}, at=moment(event.at)
    )


class Hold(Struct, frozen=True, kw_only=True):
    """A quota reservation; its state is judged by now, whether it was swept or not."""

    id: str
    account: str
    state: ReservationState
    job_id: str | None
    created_at: datetime
    expires_at: datetime
    quota_warnings: tuple[str, ...] = ()


def hold_view(reservation: Reservation, now: int, warnings: tuple[str, ...] = ()) -> Hold:
    return Hold(
        id=reservation.id,
        account=reservation.account_id,
        state=state_of(reservation, now),
        job_id=reservation.job_id,
        created_at=moment(reservation.created_at),
        expires_at=moment(reservation.expires_at),
        quota_warnings=warnings,
    )


class KeyView(Struct, frozen=True, kw_only=True):
    """An idempotency key and what it led to."""

    account: str
    scope: KeyScope
    key: str
    job_id: str | None
    batch_id: str | None
    created_at: datetime
    expires_at: datetime | None


def key_view(key: Key) -> KeyView:
    return KeyView(
        account=key.account_id,
        scope=key.scope,
        key=key.key,
        job_id=key.job_id,
        batch_id=key.batch_id,
        created_at=moment(key.created_at),
        expires_at=_moment(key.expires_at),
    )


class BatchView(Struct, frozen=True, kw_only=True):
    """A batch and how far it is. `progress` is the share of its jobs that have ended, in percent."""

    id: str
    account: str
    total: int
    by_status: dict[Status, int]
    progress: int
    created_at: datetime


def batch_view(counts: BatchCounts) -> BatchView:
    total = sum(counts.by_status.values())
    ended = sum(count for status, count in counts.by_status.items() if status in FINAL)
    return BatchView(
        id=counts.batch.id,
        account=counts.batch.account_id,
        total=total,
        by_status=counts.by_status,
        progress=100 * ended // total if total else 100,
        created_at=moment(counts.batch.created_at),
    )


class PoolView(Struct, frozen=True, kw_only=True):
    """A pool: its slots (None for no limit), how many are busy, how many jobs are ready for one."""

    name: str
    slots: int | None
    busy: int
    ready: int
    paused: bool


def pool_view(counts: PoolCounts) -> PoolView:
    pool = counts.pool
    return PoolView(name=pool.name, slots=pool.limit, busy=counts.occupied, ready=counts.ready, paused=pool.paused)


class ApiKeyView(Struct, frozen=True, kw_only=True):
    """An API key without its secret. Its state is judged by the database's clock as of the question."""

    id: str
    name: str
    hint: str
    scope: ApiKeyScope
    account: str | None
    state: ApiKeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


def api_key_view(row: ApiKeyRow, now: int) -> ApiKeyView:
    key = row.key
    return ApiKeyView(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scope=key.scope,
        account=key.account_id,
        state=api_key_state(key, now),
        created_at=moment(key.created_at),
        expires_at=_moment(key.expires_at),
        revoked_at=_moment(key.revoked_at),
        last_used_at=_moment(row.last_used_at),
    )


class NewApiKey(Struct, frozen=True, kw_only=True):
    """A key that was just made: the only time that its secret is to be had."""

    secret: str
    key: ApiKeyView

    def __repr__(self) -> str:
        """Without the secret, wherever this may be printed."""
        return f"NewApiKey(key={self.key!r})"


class AuditView(Struct, frozen=True, kw_only=True):
    """One line of the audit log: who did what to what, and what came of it."""

    number: int
    at: datetime
    actor: str
    act: str
    target: str
    details: dict[str, Any]


def audit_view(numbered: NumberedLine) -> AuditView:
    line = numbered.line
    return AuditView(
        number=numbered.number,
        at=moment(line.at),
        actor=line.actor,
        act=line.act,
        target=line.target,
        details=line.details,
    )
