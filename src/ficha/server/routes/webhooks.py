"""Outgoing webhooks: an account's endpoints and the messages to them; operators have endpoints of their own too."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ...core import commands as c
from ...core.records import DeliveryState
from ...engine.views import DeliveryView, NewWebhook, Page, WebhookView, Whole
from ...operations import AllOperations
from .. import wire as s
from ..guard import Account, AccountReader, Call
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .parameters import Cursor, ForAccount, Limit

routes = APIRouter(tags=["webhooks"])

ENDPOINTS = "/api/webhook-endpoints"
DELIVERIES = "/api/webhook-deliveries"


def _acting(call: Call) -> AllOperations:
    """Operators' changes are written to the audit log, users' are not."""
    return call.acting if call.sees_all else call.app


@routes.get(ENDPOINTS, summary="List webhook endpoints")
@gives(Whole[WebhookView])
async def webhooks(call: AccountReader, account: ForAccount = None) -> Response:
    """The account's endpoints; with a key for all accounts and no account, the operator's own."""
    return answer(Whole(await call.app.webhooks(account=call.account_if_any(account))))


@routes.post(ENDPOINTS, summary="Add a webhook endpoint")
@gives(NewWebhook, c.AddEndpoint, status=201)
async def add_webhook(call: Account, asked: Annotated[s.WebhookBody, body(s.WebhookBody)]) -> Response:
    """Adds an address to which events are sent. The secret that signs its messages is shown only now."""
    operations, account = _acting(call), call.account_if_any(asked.account)
    added = await operations.add_webhook(asked.url, account=account, events=asked.events, description=asked.description)
    return answer(added, 201)


@routes.post(ENDPOINTS + "/{webhook_id}/remove", summary="Remove a webhook endpoint")
@gives(WebhookView, c.ChangeEndpoint)
async def remove_webhook(call: Account, webhook_id: str, account: ForAccount = None) -> Response:
    """Nothing more is sent to it."""
    operations = _acting(call)
    return answer(await operations.remove_webhook(webhook_id, account=call.account_if_any(account)))


@routes.post(ENDPOINTS + "/{webhook_id}/enable", summary="Enable a webhook endpoint")
@gives(WebhookView, c.ChangeEndpoint)
async def enable_webhook(call: Account, webhook_id: str, account: ForAccount = None) -> Response:
    """A disabled endpoint gets what happens from now on."""
    operations = _acting(call)
    return answer(await operations.enable_webhook(webhook_id, account=call.account_if_any(account)))


@routes.post(ENDPOINTS + "/{webhook_id}/rotate", summary="Rotate a webhook endpoint's secret")
@gives(NewWebhook, c.RotateSecret)
async def rotate_webhook_secret(
    call: Account,
    webhook_id: str,
    asked: Annotated[s.RotateBody, body(s.RotateBody, optional=True)],
    account: ForAccount = None,
) -> Response:
    """Shows a new secret, only now. Earlier ones sign too until the overlap is over."""
    operations = _acting(call)
    rotated = await operations.rotate_webhook_secret(
        webhook_id, account=call.account_if_any(account), overlap_s=asked.overlap_s
    )
    return answer(rotated)


@routes.post(ENDPOINTS + "/{webhook_id}/test", summary="Send a test to a webhook endpoint")
@gives(DeliveryView, c.PingEndpoint, status=202)
async def send_test(call: Account, webhook_id: str, account: ForAccount = None) -> Response:
    """Sends `webhook.test` once; the list of messages shows what came of it."""
    operations = _acting(call)
    return answer(await operations.test_webhook(webhook_id, account=call.account_if_any(account)), 202)


@routes.get(DELIVERIES, summary="List messages to webhook endpoints")
@gives(Page[DeliveryView], "NOT_FOUND")
async def deliveries(
    call: AccountReader,
    account: ForAccount = None,
    webhook: Annotated[str | None, Query(description="Only messages to this endpoint.")] = None,
    job: Annotated[str | None, Query(description="Only messages about this job.")] = None,
    state: Annotated[DeliveryState | None, Query(description="Only those in this state.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Response:
    """A page of messages, newest first. Those that ended are kept for a while."""
    page = await call.app.deliveries(
        account=call.account_if_any(account),
        webhook_id=webhook,
        job_id=job,
        state=state,
        after=call.cursor("webhook-deliveries", cursor),
        limit=limit,
    )
    return answer(call.page("webhook-deliveries", page))


@routes.post(DELIVERIES + "/{delivery_id}/resend", summary="Send a message again")
@gives(DeliveryView, c.ResendDelivery, status=202)
async def resend_delivery(call: Account, delivery_id: str, account: ForAccount = None) -> Response:
    """Sends the message once more, with the same id, whatever its state."""
    operations = _acting(call)
    return answer(await operations.resend_delivery(delivery_id, account=call.account_if_any(account)), 202)
