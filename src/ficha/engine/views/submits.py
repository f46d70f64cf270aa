"""What a submit led to, or would lead to; what a finish or a cancel led to."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.outcomes import Finished, Rate, Refusal, Submitted
from ...core.records import Status
from .dates import moment_if_any


class Receipt(Struct, frozen=True, kw_only=True):
    """What a submit led to. With a batch, `job_id` is its first job and `jobs` says how many there are.

    rate: the plan's jobs per hour, how many of them are left and when the hour ends; None where it has no such limit.
    left_out, refusal: how many jobs of a batch `as_far_as_credits` were not created, and why.
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
    rate: Rate | None = None
    left_out: int = 0
    refusal: Refusal | None = None


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
        left_out=outcome.left_out,
        refusal=outcome.refusal,
    )


class Quote(Struct, frozen=True, kw_only=True):
    """What a submit would lead to if it were made now. Nothing was changed.

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


class FinishView(Struct, frozen=True, kw_only=True):
    """What a finish or a cancel made of a job. `changed` is False when it had ended before and nothing was changed.

    due_at: when a job that is to be run again becomes claimable.
    """

    job_id: str
    status: Status
    changed: bool
    refunded: int
    new_balance: int
    due_at: datetime | None


def finish_view(outcome: Finished) -> FinishView:
    return FinishView(
        job_id=outcome.job_id,
        status=outcome.status,
        changed=outcome.changed,
        refunded=outcome.refunded,
        new_balance=outcome.new_balance,
        due_at=moment_if_any(outcome.due_at),
    )


class Requeued(Struct, frozen=True):
    """The new job that does a dead letter's work again."""

    job_id: str
