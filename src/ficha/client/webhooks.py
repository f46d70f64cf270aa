"""Webhook endpoints and the messages to them. `account` is for service and admin keys, as in the in-process calls."""

from __future__ import annotations

from collections.abc import Iterable

from .. import validation as arg
from ..core.records import DeliveryState
from ..engine.views import DeliveryView, NewWebhook, Page, WebhookView, Whole
from .effects import Flow
from .operation import operation
from .sending import RequestMethods

ENDPOINTS = "/api/webhook-endpoints"
DELIVERIES = "/api/webhook-deliveries"


class WebhookMethods(RequestMethods):
    @operation
    def add_webhook(
        self, url: str, *, account: str | None = None, events: Iterable[str] = (), description: str = ""
    ) -> Flow[NewWebhook]:
        """Adds an endpoint; the secret that signs its messages is shown this once."""
        body = {"url": url, "account": account, "events": [*events], "description": description}
        return self.post(ENDPOINTS, NewWebhook, body)

    @operation
    def webhooks(self, *, account: str | None = None) -> Flow[list[WebhookView]]:
        """The endpoints of the account; with a service or admin key and no account, the operator's own."""
        return (yield from self.get(ENDPOINTS, Whole[WebhookView], account=account)).items

    @operation
    def remove_webhook(self, webhook_id: str, *, account: str | None = None) -> Flow[WebhookView]:
        """Removes an endpoint: nothing more is sent to it."""
        return self.post(_of(webhook_id, "remove"), WebhookView, query={"account": account})

    @operation
    def enable_webhook(self, webhook_id: str, *, account: str | None = None) -> Flow[WebhookView]:
        """Enables a disabled endpoint: it gets what happens from now on."""
        return self.post(_of(webhook_id, "enable"), WebhookView, harmless=True, query={"account": account})

    @operation
    def rotate_webhook_secret(
        self, webhook_id: str, *, account: str | None = None, overlap_s: float | None = None
    ) -> Flow[NewWebhook]:
        """Makes a new secret, shown this once; earlier ones sign too until the overlap is over."""
        body = {"overlap_s": overlap_s}
        return self.post(_of(webhook_id, "rotate"), NewWebhook, body, query={"account": account})

    @operation
    def test_webhook(self, webhook_id: str, *, account: str | None = None) -> Flow[DeliveryView]:
        """Sends a test, `webhook.test`, once."""
        return self.post(_of(webhook_id, "test"), DeliveryView, query={"account": account})

    @operation
    def deliveries(
        self,
        *,
        account: str | None = None,
        webhook_id: str | None = None,
        job_id: str | None = None,
        state: DeliveryState | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Flow[Page[DeliveryView]]:
        """A page of messages to the account's endpoints, newest first."""
        return self.get(
            DELIVERIES,
            Page[DeliveryView],
            account=account,
            webhook=webhook_id,
            job=job_id,
            state=state,
            cursor=after,
            limit=limit,
        )

    @operation
    def resend_delivery(self, delivery_id: str, *, account: str | None = None) -> Flow[DeliveryView]:
        """Sends a message once more, with the same id."""
        path = f"{DELIVERIES}/{arg.job_id(delivery_id, 'delivery')}/resend"
        return self.post(path, DeliveryView, harmless=True, query={"account": account})


def _of(webhook_id: str, what: str) -> str:
    return f"{ENDPOINTS}/{arg.job_id(webhook_id, 'webhook endpoint')}/{what}"
