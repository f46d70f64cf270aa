"""Queries about webhooks: endpoints, and the messages to them."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from functools import partial
from typing import Final

from ...core.records import Delivery, WebhookEndpoints
from .. import base as q
from ..sql.dialect import Answers, Asking, Dialect, Select, Statement, sql_file
from .tables import KEYED

_ENDPOINTS: Final = KEYED["WebhookEndpoints"]
_DELIVERIES: Final = KEYED["Delivery"]
_text: Final = partial(sql_file, __package__)


def get_webhook_endpoints(
    sql: Dialect, query: q.GetWebhookEndpoints, now: int | None
) -> Asking[dict[str, WebhookEndpoints]]:
    text = (
        f"SELECT {sql.selected(_ENDPOINTS, 't')} FROM ficha.webhook_endpoints t WHERE {sql.among('t.owner', 1, 'text')}"
    )
    rows = yield Statement(text, (sql.values(query.owners, "text"),))
    return {row[0]: _ENDPOINTS.record(row) for row in rows}


def list_deliveries(sql: Dialect, query: q.ListDeliveries, now: int | None) -> Asking[list[Delivery]]:
    page = Select(sql, f"SELECT {sql.selected(_DELIVERIES, 't')} FROM ficha.deliveries t")
    for column in ("owner", "id", "endpoint_id", "job_id", "state"):
        page.matches(f"t.{column}", "=", getattr(query, column), _DELIVERIES.kind(column))
    page.matches("t.id", "<", query.before, "uuid")
    return [*map(_DELIVERIES.record, (yield page.statement("ORDER BY t.id DESC", query.limit)))]


def list_due_deliveries(sql: Dialect, query: q.ListDueDeliveries, now: int | None) -> Asking[list[Delivery]]:
    words = {
        "delivery": sql.selected(_DELIVERIES, "t"),
        "moment": sql.moment,
        "any_owner": str(not query.not_owners),
        "owned": sql.among("t.owner", 4, "text"),
        "limit": sql.parameter(5, "number"),
        "any_endpoint": str(not query.not_endpoints),
        "at_endpoint": sql.among("t.endpoint_id", 6, "uuid"),
    }
    owners, endpoints = sql.values(query.not_owners, "text"), sql.values(query.not_endpoints, "uuid")
    rows = yield Statement(_text("due_deliveries").format(**words), (now, 0, 0, owners, query.limit, endpoints))
    return [*map(_DELIVERIES.record, rows)]


def list_old_deliveries(sql: Dialect, query: q.ListOldDeliveries, now: int | None) -> Asking[list[str]]:
    words = {"id": sql.read("t.id", "uuid"), "moment": sql.moment, "limit": sql.parameter(4, "number")}
    rows = yield Statement(_text("old_deliveries").format(**words), (now, query.kept_ms, 0, query.limit, 0))
    return [row[0] for row in rows]


WEBHOOK_QUESTIONS: Final[Answers] = {
    q.GetWebhookEndpoints: get_webhook_endpoints,
    q.ListDeliveries: list_deliveries,
    q.ListDueDeliveries: list_due_deliveries,
    q.ListOldDeliveries: list_old_deliveries,
}
