"""Jobs, and what is kept of each beside its row: steps, events, its batch, the content that it computes."""

from __future__ import annotations

from typing import Any, Literal

from .base import Record
from .places import Place

Status = Literal["queued", "starting", "running", "completed", "failed", "cancelled"]
ContentName = tuple[str, str]
"""A tool and a content hash."""


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
    trace_context: str | None = None
    """The W3C trace context that it was submitted with (see `trace_context.py`)."""
    part_of: str | None = None
    """The request that it is a part of, if its tool split a large one (see `requests.py`)."""


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
    """Call-backs of its provider. The first ones are kept as events; forged ones count only as far as they are kept."""
    removed_at: int | None = None
    """When the work was removed, by its owner or by its age: what it was made from and what came of it. The row and the
    ledger stay."""
    payload_removed_at: int | None = None
    """When its payload alone was removed, by its age."""
    provider_cost: int | None = None
    """What its runs cost at an external provider, in millionths of the operator's currency; None if unknown."""
    submitted_by: str | None = None
    """The id of the API key with which it was submitted over HTTP; None if there was none."""


class Step(Record, frozen=True):
    """A finished part of a job. Its result (JSON text) is stored, so that it is not paid or done again."""

    job_id: str
    name: str
    result: str
    saved_at: int


class Event(Record, frozen=True):
    """One event of a job's history. `number` counts the job's events from one."""

    job_id: str
    account_id: str
    number: int
    kind: str
    at: int
    data: dict[str, Any] | None = None


class Batch(Record, frozen=True):
    """Many jobs submitted together."""

    id: str
    account_id: str
    total: int
    created_at: int


class Content(Record, frozen=True):
    """The job that computes a content of a tool, while that job is held. If it completed and delivered everything, its
    result then answers all jobs of the same content."""

    tool: str
    content_hash: str
    job_id: str
    result: str | None
    """None while the job is held."""
