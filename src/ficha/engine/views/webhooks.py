"""Webhook endpoints without their secrets, the messages to them, and what a message says."""

from __future__ import annotations

from datetime import datetime

import msgspec
from msgspec import Raw, Struct

from ...core.records import Delivery, DeliveryState, Endpoint, Status
from .dates import moment, moment_if_any
from .jobs import NULL, JobView


class WebhookView(Struct, frozen=True, kw_only=True):
    """An address to which events are sent, without its secrets.

    account: its owner; None for the operator's own endpoints, which get the events of every account.
    events: the events that are sent to it; empty for all.
    failing_since_at: since when nothing could be delivered; None if the last message arrived.
    disabled_at, disabled_reason: when it was disabled, and why. Nothing is sent to it until it is enabled.
    """

    id: str
    account: str | None
    url: str
    events: tuple[str, ...]
    description: str
    created_at: datetime
    failing_since_at: datetime | None
    disabled_at: datetime | None
    disabled_reason: str | None


def webhook_view(owner: str, endpoint: Endpoint) -> WebhookView:
    return WebhookView(
        id=endpoint.id,
        account=owner or None,
        url=endpoint.url,
        events=endpoint.events,
        description=endpoint.description,
        created_at=moment(endpoint.created_at),
        failing_since_at=moment_if_any(endpoint.failing_since_at),
        disabled_at=moment_if_any(endpoint.disabled_at),
        disabled_reason=endpoint.disabled_reason,
    )


class NewWebhook(Struct, frozen=True, kw_only=True):
    """An endpoint whose secret was just made: the only time that it is shown."""

    secret: str
    webhook: WebhookView

    def __repr__(self) -> str:
        """Without the secret, wherever this may be printed."""
        return f"NewWebhook(webhook={self.webhook!r})"


class DeliveryView(Struct, frozen=True, kw_only=True):
    """A message to an endpoint, and how far its delivery is.

    id: what the receiver reads as `webhook-id`.
    attempts: how often it was sent, the attempt under way included.
    answered: the HTTP status of the last answer; None if there was none. error: why the last attempt failed.
    next_at: when it is sent next; while a process sends it, when that process is presumed dead. None once it has ended.
    """

    id: str
    webhook: str
    account: str | None
    event: str
    job_id: str | None
    state: DeliveryState
    attempts: int
    answered: int | None
    error: str | None
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None
    body: str


def delivery_view(delivery: Delivery) -> DeliveryView:
    return DeliveryView(
        id=delivery.id,
        webhook=delivery.endpoint_id,
        account=delivery.account_id or None,
        event=delivery.event,
        job_id=delivery.job_id,
        state=delivery.state,
        attempts=delivery.attempts,
        answered=delivery.answered,
        error=delivery.error,
        created_at=moment(delivery.created_at),
        next_at=moment(delivery.due_at) if delivery.state == "pending" else None,
        ended_at=moment_if_any(delivery.ended_at),
        body=delivery.body,
    )


class JobMessage(Struct, frozen=True, kw_only=True):
    """A job that ended, as its owner may see it. A result that is too long is left out."""

    job_id: str
    account: str
    tool: str
    status: Status
    cost: int
    charged: int
    refunded: int
    error: str | None
    result: Raw
    result_omitted: bool
    session: str | None
    batch: str | None
    correlation_id: str | None
    created_at: datetime
    finished_at: datetime | None


class CreditsMessage(Struct, frozen=True, kw_only=True):
    """An account whose balance fell below the threshold by the charge of a job. `balance` is that of now."""

    account: str
    balance: int
    threshold: int | None
    job_id: str


class PingMessage(Struct, frozen=True, kw_only=True):
    """A test message: it says only which endpoint it was sent to."""

    webhook: str


def job_message(job: JobView, result_bytes: int) -> JobMessage:
    result = job.stored("result")
    is_long = len(bytes(result)) > result_bytes
    return JobMessage(
        job_id=job.id,
        account=job.account,
        tool=job.tool,
        status=job.status,
        cost=job.cost,
        charged=job.charged,
        refunded=job.refunded,
        error=job.user_error,
        result=NULL if is_long else result,
        result_omitted=is_long,
        session=job.session,
        batch=job.batch,
        correlation_id=job.correlation_id,
        created_at=job.created_at,
        finished_at=job.finished_at,
    )


def message_text(event: str, at: datetime, data: JobMessage | CreditsMessage | PingMessage) -> str:
    """The body of a message: the JSON text that is signed and sent."""
    return msgspec.json.encode({"type": event, "timestamp": at, "data": data}).decode()
