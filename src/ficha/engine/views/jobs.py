"""A job as its owner sees it: what it is, how it waits, and the lines of its history."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

from msgspec import UNSET, Raw, Struct, UnsetType, field
from msgspec.structs import fields, replace

from ...core.payload import Dedupe, read_json
from ...core.policy import MILLION, SECOND
from ...core.pools import WaitReason
from ...core.records import HELD, WAITING, Awaiting, Job, Leased, Parked, Status
from ...core.visibility import OPERATORS_ONLY, Audience, error_for_owner, event_for_owner
from ...store.base import JobRow, NumberedEvent
from ..positions import QueueStanding
from .dates import moment, moment_if_any

NULL: Final = Raw("null")
JobText = Literal["payload", "result", "resume_data", "partial"]
STORED_TEXTS: Final[tuple[JobText, ...]] = get_args(JobText)
"""The stored JSON of a job, which may be large: lists leave it out unless it is asked for."""


class PartView(Struct, frozen=True, kw_only=True):
    """One part of a split request: a job of its own, with its own run, charge and refund."""

    id: str
    status: Status
    progress: int
    units: int
    delivered: int | None
    charged: int
    refunded: int
    user_error: str | None


class JobView(Struct, frozen=True, kw_only=True, dict=True):
    """A job as its owner sees it; a large request that its tool split is one job, with `parts`.

    position: 1 is next; None when the job does not wait for its turn.
    waiting_for: why a queued job has not started: its `place` in the queue, its account's limit (`account_limit`), the
        pool's slots (`pool_full`), its `schedule`, a paused tool (`tool_paused`) or pool (`pool_paused`), or an equal
        job of a `dedupe` tool that is being run (`equal_job`).
    plan: the account's plan at the submit. is_first: whether it was the account's first job ever.
    deadline_at: when its time is up: a job that was started fails then; one that never was is cancelled.
    waited_in_queue: seconds from its creation to its first start, or to now or its end if it never started.
    late_finishes: how many finishes came too late and changed nothing; the first is among its events.
    callbacks: how often its provider has called back; the first `Limits.job_callbacks` are among its events. Forged
        ones, and those that report progress, count only as far as they are kept.
    error: why it failed or was cancelled. Operators see it in full; its owner sees `user_error` here too.
    user_error: the text that its owner may see: what the tool wrote for its owner, or a plain sentence.
    removed_at: when the work was removed, by its owner or by its age. Its payload and result are null since then.
    payload_removed_at: when its payload alone was removed, by its age. It is null since then.
    resume_data, locked_by, provider_ref, provider_cost: the checkpoint's data, the worker that runs it, and the
        external provider's reference and price, in the operator's currency. For operators and workers; None for its
        owner.
    submitted_by: the id of the API key that it was submitted with over HTTP; None if there was none. For operators.
    traceparent: the W3C trace context that it was submitted with, if there was one.
    part_of: in a list, the split request that this job is a part of. Ask for the job, or for this id, to see it whole.
    parts: the parts of a split request. Its counts and money are those of all parts together; its `payload`, `result`
        and `partial` are lists, with an item for each part.
    """

    id: str
    account: str
    plan: str
    is_first: bool
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
    # Stored JSON, which is sent as it is. In Python the name without `_json` gives the value. A list leaves it out.
    payload_json: Raw | UnsetType = field(default=UNSET, name="payload")
    result_json: Raw | UnsetType = field(default=UNSET, name="result")
    error: str | None
    user_error: str | None
    attempts: int
    max_attempts: int
    recoveries: int
    late_finishes: int
    callbacks: int
    epoch: int
    checkpoint: str | None
    progress: int
    resume_data_json: Raw | UnsetType = field(default=UNSET, name="resume_data")
    partial_json: Raw | UnsetType = field(default=UNSET, name="partial")
    locked_by: str | None
    locked_at: datetime | None
    lock_expires_at: datetime | None
    last_heartbeat_at: datetime | None
    provider_ref: str | None
    provider_cost: float | None
    batch: str | None
    correlation_id: str | None
    requeue_of: str | None
    is_dead_letter: bool
    created_at: datetime
    scheduled_at: datetime | None
    deadline_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    removed_at: datetime | None = None
    traceparent: str | None = None
    submitted_by: str | None = None
    payload_removed_at: datetime | None = None
    part_of: str | None = None
    parts: tuple[PartView, ...] | None = None

    @cached_property
    def payload(self) -> Any:
        return read_json(self.stored("payload"))

    @cached_property
    def result(self) -> Any:
        return read_json(self.stored("result"))

    @cached_property
    def resume_data(self) -> Any:
        return read_json(self.stored("resume_data"))

    @cached_property
    def partial(self) -> Any:
        return read_json(self.stored("partial"))

    def stored(self, name: JobText) -> Raw:
        """One of the texts as it is stored; AttributeError if the list that this job comes from left it out."""
        found: Raw | UnsetType = getattr(self, f"{name}_json")
        if isinstance(found, UnsetType):
            words = f"{name} was left out of this list; list with include=[{name!r}], or ask for the job by itself"
            raise AttributeError(words)
        return found

    def __repr__(self) -> str:
        """With JSON as its text: `Raw` has no words of its own."""
        return f"JobView({', '.join(f'{name}={_words(getattr(self, name))}' for name in self.__struct_fields__)})"


def _words(value: Any) -> str:
    return bytes(value).decode() if isinstance(value, Raw) else repr(value)


def job_view(
    row: JobRow,
    now: int,
    standing: QueueStanding | None = None,
    waiting_for: WaitReason | None = None,
    *,
    include: Collection[JobText] = STORED_TEXTS,
) -> JobView:
    """The job with those of its texts that `include` names."""
    job = row.job
    lease = job.place if isinstance(job.place, Leased) else None
    point = job.checkpoint
    waited_until = job.started_at or job.finished_at or now
    return JobView(
        id=job.id,
        account=job.account_id,
        plan=job.plan,
        is_first=job.number == 1,
        session=job.spec.session,
        tool=job.spec.tool,
        pool=job.spec.pool,
        status=job.status,
        position=None if standing is None else standing.position,
        estimated_wait_s=None if standing is None else standing.estimated_wait_s,
        waiting_for=waiting_for,
        waited_in_queue=max(0, waited_until - job.created_at) / SECOND,
        priority=job.priority,
        cost=job.spec.cost,
        charged=job.charged,
        refunded=job.refunded,
        units=job.spec.units,
        delivered=job.delivered,
        payload_json=Raw(row.payload) if "payload" in include else UNSET,
        result_json=_json(row.result) if "result" in include else UNSET,
        error=job.error,
        user_error=error_for_owner(job),
        attempts=job.attempts,
        max_attempts=job.spec.max_attempts,
        recoveries=job.recoveries,
        late_finishes=job.late_finishes,
        callbacks=job.callbacks,
        epoch=job.epoch,
        checkpoint=None if point is None else point.name or None,
        progress=100 if job.status == "completed" else 0 if point is None else point.progress,
        resume_data_json=_json(point.data if point is not None and point.name else None)
        if "resume_data" in include
        else UNSET,
        partial_json=_json(None if point is None else point.partial) if "partial" in include else UNSET,
        locked_by=None if lease is None else lease.worker,
        locked_at=None if lease is None else moment(lease.leased_at),
        lock_expires_at=None if lease is None else moment(lease.expires_at),
        last_heartbeat_at=None if lease is None else moment(lease.heartbeat_at),
        provider_ref=job.place.ref if isinstance(job.place, Awaiting) else None,
        provider_cost=None if job.provider_cost is None else job.provider_cost / MILLION,
        batch=job.batch_id,
        correlation_id=job.spec.correlation_id,
        requeue_of=job.requeue_of,
        is_dead_letter=job.dead_at is not None,
        created_at=moment(job.created_at),
        scheduled_at=moment_if_any(job.place.due_at)
        if isinstance(job.place, Parked) and job.place.behind is None and not job.place.is_held_back
        else None,
        deadline_at=moment_if_any(_deadline_at(job)),
        started_at=moment_if_any(job.started_at),
        finished_at=moment_if_any(job.finished_at),
        removed_at=moment_if_any(job.removed_at),
        traceparent=None if job.spec.trace_context is None else job.spec.trace_context.partition(" ")[0],
        submitted_by=job.submitted_by,
        payload_removed_at=moment_if_any(job.payload_removed_at),
        part_of=job.spec.part_of,
    )


def _json(text: str | None) -> Raw:
    return NULL if text is None else Raw(text)


def _deadline_at(job: Job) -> int | None:
    if isinstance(job.place, HELD):
        return job.place.deadline_at
    return job.wait_until_at if isinstance(job.place, WAITING) and job.started_at is None else None


_HIDDEN: Final[dict[str, Any]] = {
    field.name: NULL if field.name.endswith("_json") else None
    for field in fields(JobView)
    if field.encode_name in OPERATORS_ONLY
}


def owner_job_view(view: JobView) -> JobView:
    """The job as its owner may see it."""
    hidden = {name: value for name, value in _HIDDEN.items() if getattr(view, name) is not UNSET}
    return replace(view, error=view.user_error, **hidden)


class Wait(Struct, frozen=True):
    """How a queued job waits: its position (1 is next), about how long it still waits, and what it waits for."""

    position: int | None
    estimated_wait_s: float | None
    waiting_for: WaitReason | None


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


def owner_event_view(view: EventView) -> EventView:
    """The event as the job's owner may see it."""
    return replace(view, data=event_for_owner(view.job_id, view.kind, view.data))


Happening: TypeAlias = EventView | Wait | JobView
"""What a follower of a job receives: an event of its history, its place in the queue, or the job itself; last, the job
that has ended."""


class JobToken(Struct, frozen=True):
    """A token with which a browser can see, follow and cancel one job for a short while, and nothing else."""

    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        """Without the text: whoever has it can use it."""
        return f"JobToken(expires_at={self.expires_at!r})"


class ToolView(Struct, frozen=True, kw_only=True):
    """A kind of job, as it is sold: `schema` is the payload's JSON Schema; `price` is None where it depends on the
    payload; `dedupe` is `global` where equal work of all accounts is done once; `audience` is `service` where only the
    application may call it; `plans` are the plans that may call it, None for all. While it is `paused` its
    jobs wait; while it is `closed`, which says why, submits are refused.
    """

    name: str
    description: str | None
    pool: str
    schema: dict[str, Any]
    price: int | None
    timeout_s: float
    max_wait_s: float | None
    attempts: int
    max_items: int | None
    dedupe: Dedupe
    audience: Audience
    plans: tuple[str, ...] | None
    paused: bool = False
    closed: str | None = None
