"""Questions about webhook endpoints and the messages to them."""

from __future__ import annotations

from ...core.records import Delivery, DeliveryState, WebhookEndpoints
from .query import Query


class GetWebhookEndpoints(Query[dict[str, WebhookEndpoints]], frozen=True):
    """The webhook endpoints of these owners, by owner; an owner without any is left out."""

    owners: tuple[str, ...]


class ListDeliveries(Query[list[Delivery]], frozen=True):
    """Messages to webhook endpoints, newest first (by id, descending); `before` is the id after which the page starts.
    A field that is None does not narrow the list."""

    owner: str | None = None
    id: str | None = None
    endpoint_id: str | None = None
    job_id: str | None = None
    state: DeliveryState | None = None
    before: str | None = None
    limit: int = 50


class ListDueDeliveries(Query[list[Delivery]], frozen=True):
    """Messages that may be sent by now, by the database's clock, the longest due first. Of the messages to one endpoint
    about the same job, only the oldest is listed: the others wait for its end.

    not_owners, not_endpoints: whose messages are left out.
    """

    not_owners: tuple[str, ...] = ()
    not_endpoints: tuple[str, ...] = ()
    limit: int = 50


class ListOldDeliveries(Query[list[str]], frozen=True):
    """The ids of messages that ended at least `kept_ms` ago, the oldest first."""

    kept_ms: int
    limit: int = 50
