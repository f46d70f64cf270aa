"""The memory store's answers about webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...core.policy import MILLISECOND
from ...core.records import Delivery, WebhookEndpoints
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _get_webhook_endpoints(store: MemoryStore, query: q.GetWebhookEndpoints) -> dict[str, WebhookEndpoints]:
    found = store.state.of(WebhookEndpoints)
    return {owner: found[owner] for owner in query.owners if owner in found}


def _list_deliveries(store: MemoryStore, query: q.ListDeliveries) -> list[Delivery]:
    asked = {name: getattr(query, name) for name in ("owner", "id", "endpoint_id", "job_id", "state")}
    found = [
        delivery
        for delivery in store.state.of(Delivery).values()
        if all(value is None or getattr(delivery, name) == value for name, value in asked.items())
        and (query.before is None or delivery.id < query.before)
    ]
    return sorted(found, key=lambda delivery: delivery.id, reverse=True)[: query.limit]


def _list_due_deliveries(store: MemoryStore, query: q.ListDueDeliveries) -> list[Delivery]:
    pending = [delivery for delivery in store.state.of(Delivery).values() if delivery.state == "pending"]
    firsts: dict[tuple[str, str], Delivery] = {}
    for delivery in sorted(pending, key=lambda one: (one.created_at, one.id)):
        if delivery.job_id is not None:
            firsts.setdefault((delivery.job_id, delivery.endpoint_id), delivery)
    now = store.clock()
    due = [
        delivery
        for delivery in pending
        if delivery.due_at <= now
        and delivery.owner not in query.not_owners
        and delivery.endpoint_id not in query.not_endpoints
        and (delivery.job_id is None or firsts[delivery.job_id, delivery.endpoint_id] is delivery)
    ]
    return sorted(due, key=lambda delivery: (delivery.due_at, delivery.id))[: query.limit]


def _list_old_deliveries(store: MemoryStore, query: q.ListOldDeliveries) -> list[str]:
    last_at = store.clock() - query.kept_ms * MILLISECOND
    ended = [
        (delivery.ended_at, delivery.id)
        for delivery in store.state.of(Delivery).values()
        if delivery.ended_at is not None and delivery.ended_at <= last_at
    ]
    return [delivery_id for _, delivery_id in sorted(ended)[: query.limit]]


WEBHOOK_READS: Final[dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]]] = {
    q.GetWebhookEndpoints: _get_webhook_endpoints,
    q.ListDeliveries: _list_deliveries,
    q.ListDueDeliveries: _list_due_deliveries,
    q.ListOldDeliveries: _list_old_deliveries,
}
