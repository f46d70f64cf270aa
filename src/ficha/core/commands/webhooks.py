"""Webhook endpoints, and the messages on their way to them."""

from __future__ import annotations

from typing import Literal

from .base import Command


class AddEndpoint(Command, frozen=True):
    """Adds an address to which events are sent: an account's, or (owner "") those of every account. No events: all."""

    owner: str
    endpoint_id: str
    url: str
    secret: str
    events: tuple[str, ...] = ()
    description: str = ""


class ChangeEndpoint(Command, frozen=True):
    """Removes an endpoint, or enables one that was disabled."""

    owner: str
    endpoint_id: str
    to: Literal["removed", "enabled"]


class RotateSecret(Command, frozen=True):
    """Messages are signed with a new secret from now on, and for `overlap_ms` with the earlier ones too."""

    owner: str
    endpoint_id: str
    secret: str
    overlap_ms: int


class PingEndpoint(Command, frozen=True):
    """Sends a test to an endpoint."""

    owner: str
    endpoint_id: str
    delivery_id: str
    body: str


class MakeDeliveries(Command, frozen=True):
    """Makes the messages of a hook, and ends the hook. `attempt` is the hook's. `deliveries` has, for each endpoint
    that may want the event, its owner, its id and the id of the message."""

    hook: str
    job_id: str
    account_id: str
    attempt: int
    event: str
    body: str
    deliveries: tuple[tuple[str, str, str], ...]


class HoldDelivery(Command, frozen=True):
    """Holds a due message for `hold_ms`, to send it. After that time its holder counts as dead."""

    delivery_id: str
    owner: str
    hold_ms: int


class EndDelivery(Command, frozen=True):
    """Ends an attempt: with the status of the answer, or with why there was none. `owner` is None if the attempt leaves
    the endpoint's state as it is: a success at an endpoint that was not failing."""

    delivery_id: str
    owner: str | None
    attempt: int
    status: int | None = None
    error: str | None = None
    jitter: float = 0.0


class ResendDelivery(Command, frozen=True):
    delivery_id: str
    owner: str


class ForgetDelivery(Command, frozen=True):
    """Deletes a message that ended long ago."""

    delivery_id: str
