"""Webhook endpoints, and the messages on their way to them."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import Struct

from .keyed import Keyed


class Endpoint(Struct, frozen=True, gc=False):
    """An address to which events are sent. `secrets` all sign: each has the time until which it does (None: no end)."""

    id: str
    url: str
    events: tuple[str, ...]
    secrets: tuple[tuple[str, int | None], ...]
    created_at: int
    description: str = ""
    failing_since_at: int | None = None
    """Since when every delivery has failed."""
    disabled_at: int | None = None
    disabled_reason: str | None = None
    tested_at: int | None = None
    resends_since_at: int | None = None
    """When the hour began in which so many `resends` were asked for."""
    resends: int = 0


class WebhookEndpoints(Keyed, frozen=True, tag=True):
    """The endpoints of an account, or (owner "") the operator's own, which get the events of every account."""

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
    """When it may be sent next; while a process sends it, when that process counts as dead."""
    state: DeliveryState = "pending"
    attempts: int = 0
    answered: int | None = None
    """The HTTP status of the last answer."""
    error: str | None = None
    ended_at: int | None = None
    earlier_attempts: int = 0
    """How many of the attempts were made before the message was resent."""
