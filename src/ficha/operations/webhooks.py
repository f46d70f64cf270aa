"""Webhooks: endpoints that are notified of events, and the messages to them.

`account` owns the endpoints; without it, the operator does, whose endpoints are notified of every account's events.
"""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, get_args

from .. import validation as arg
from ..core.commands import (
    AddEndpoint,
    ChangeEndpoint,
    EndDelivery,
    ForgetDelivery,
    HoldDelivery,
    MakeDeliveries,
    PingEndpoint,
    ResendDelivery,
    RotateSecret,
)
from ..core.outcomes import (
    DeliveriesMade,
    DeliveryChanged,
    DeliveryEnded,
    DeliveryHeld,
    EndpointChanged,
    Forgotten,
)
from ..core.policy import CREDITS_LOW_HOOK, Webhooks
from ..core.records import Delivery, DeliveryState, PendingHook
from ..core.webhooks import EVENTS, OPERATOR, TEST, is_told
from ..engine.views import (
    CreditsMessage,
    DeliveryView,
    NewWebhook,
    Page,
    PingMessage,
    WebhookView,
    delivery_view,
    job_message,
    message_text,
    webhook_view,
)
from ..engine.wakeups import DELIVERIES
from ..ids import new_id
from ..outbound import OutboundError
from ..store.base import GetWebhookEndpoints, ListDueDeliveries, ListOldDeliveries
from .base import Operations

SECRET_BYTES: Final = 32
DESCRIPTION_CHARS: Final = 200
PRUNED_AT_ONCE: Final = 500


class WebhookOperations(Operations):
    async def add_webhook(
        self, url: str, *, account: str | None = None, events: Iterable[str] = (), description: str = ""
    ) -> NewWebhook:
        """Adds an endpoint and returns the secret that signs its messages.

        url: where messages are sent: HTTPS, to a public address, or to one in the application's `allow_addresses`.
        events: what it is notified of: "job.completed", "job.failed", "job.cancelled", "credits.low". Defaults to all.
        description: for whoever reads the list.
        """
        _check_texts(url, description)
        owner, wanted, secret = _owner(account), _events(events), _new_secret()
        try:
            await self.outbound.check(url)
        except OutboundError as error:
            raise arg.invalid(f"webhooks cannot be sent to this URL: {error.message}") from error
        command = AddEndpoint(owner, new_id(), url, secret, wanted, description)
        added = await self._ask(command, EndpointChanged)
        return NewWebhook(secret=secret, webhook=webhook_view(owner, added.endpoint))

    async def webhooks(self, *, account: str | None = None) -> list[WebhookView]:
        """The endpoints, in the order in which they were added."""
        owner = _owner(account)
        found = await self.engine.read(GetWebhookEndpoints((owner,)))
        return [webhook_view(owner, endpoint) for endpoint in found[owner].endpoints] if found else []

    async def remove_webhook(self, webhook_id: str, *, account: str | None = None) -> WebhookView:
        """Removes an endpoint. Messages that were not delivered yet are dropped."""
        return await self._change(ChangeEndpoint(_owner(account), _webhook_id(webhook_id), "removed"))

    async def enable_webhook(self, webhook_id: str, *, account: str | None = None) -> WebhookView:
        """Enables a disabled endpoint: it is notified of events from now on."""
        return await self._change(ChangeEndpoint(_owner(account), _webhook_id(webhook_id), "enabled"))

    async def rotate_webhook_secret(
        self, webhook_id: str, *, account: str | None = None, overlap_s: float | None = None
    ) -> NewWebhook:
        """Makes a new secret and returns it. For `overlap_s`, by default a day, messages are also signed with the
        earlier secrets; with 0 those end at once."""
        terms = self.engine.policy.webhooks or Webhooks()
        overlap_ms = arg.milliseconds(terms.overlap_s if overlap_s is None else overlap_s, "overlap_s")
        owner, secret = _owner(account), _new_secret()
        changed = await self._ask(RotateSecret(owner, _webhook_id(webhook_id), secret, overlap_ms), EndpointChanged)
        return NewWebhook(secret=secret, webhook=webhook_view(owner, changed.endpoint))

    async def test_webhook(self, webhook_id: str, *, account: str | None = None) -> DeliveryView:
        """Sends a test message, `webhook.test`, once. `deliveries` shows its outcome."""
        endpoint_id = _webhook_id(webhook_id)
        body = message_text(TEST, datetime.fromtimestamp(time.time(), UTC), PingMessage(webhook=endpoint_id))
        command = PingEndpoint(_owner(account), endpoint_id, new_id(), body)
        return delivery_view((await self._ask(command, DeliveryChanged)).delivery)

    async def deliveries(
        self,
        *,
        account: str | None = None,
        webhook_id: str | None = None,
        job_id: str | None = None,
        state: DeliveryState | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[DeliveryView]:
        """A page of messages to the account's endpoints, newest first; ended messages are kept for a while."""
        if state is not None and state not in get_args(DeliveryState):
            raise arg.invalid(f"state must be one of {', '.join(get_args(DeliveryState))}, not {state!r}")
        return await self.queries.deliveries(
            _owner(account),
            None if webhook_id is None else _webhook_id(webhook_id),
            None if job_id is None else arg.job_id(job_id),
            state,
            None if after is None else arg.job_id(after, "delivery"),
            arg.count(limit, "limit", self.limits.page_items),
        )

    async def resend_delivery(self, delivery_id: str, *, account: str | None = None) -> DeliveryView:
        """Sends a message again, with the same id, whatever its state; one that waits for a retry is sent now."""
        command = ResendDelivery(arg.job_id(delivery_id, "delivery"), _owner(account))
        return delivery_view((await self._ask(command, DeliveryChanged)).delivery)

    async def _change(self, command: ChangeEndpoint) -> WebhookView:
        return webhook_view(command.owner, (await self._ask(command, EndpointChanged)).endpoint)

    # What workers call

    async def make_deliveries(self, held: PendingHook) -> int:
        """Makes the messages that a hook owes, and ends the hook; returns how many."""
        job = await self.queries.job(held.job_id)
        if job is None:
            return 0  # Its account was erased meanwhile, and the hook with it.
        terms = self.engine.policy.webhooks or Webhooks()
        if held.name == CREDITS_LOW_HOOK:
            event, at = "credits.low", job.created_at
            account = await self.queries.account(job.account)
            assert account is not None, "an account is never deleted"
            low = CreditsMessage(
                account=job.account, balance=account.balance, threshold=terms.low_credits, job_id=job.id
            )
            body = message_text(event, at, low)
        else:
            event, at = f"job.{job.status}", job.finished_at or job.created_at
            body = message_text(event, at, job_message(job, terms.result_bytes))
        endpoints = await self.engine.store.read(GetWebhookEndpoints((job.account, OPERATOR)))
        told = tuple(
            (owner, endpoint.id, new_id())
            for owner, found in sorted(endpoints.items(), reverse=True)
            for endpoint in found.endpoints
            if is_told(endpoint, event)
        )
        command = MakeDeliveries(held.name, job.id, job.account, held.attempts, event, body, told)
        return (await self._ask(command, DeliveriesMade)).made

    async def due_deliveries(
        self, limit: int, *, not_owners: Sequence[str] = (), not_endpoints: Sequence[str] = ()
    ) -> list[Delivery]:
        """Messages that may be sent now, except those of these owners and endpoints."""
        return await self.engine.store.read(ListDueDeliveries(tuple(not_owners), tuple(not_endpoints), limit))

    async def hold_delivery(self, delivery: Delivery, hold_s: float) -> DeliveryHeld:
        """Holds a message, to send it. After `hold_s` the sender is treated as dead."""
        command = HoldDelivery(delivery.id, delivery.owner, arg.milliseconds(hold_s, "hold_s"))
        return await self._ask(command, DeliveryHeld)

    async def end_delivery(self, held: DeliveryHeld, status: int | None, error: str | None = None) -> DeliveryEnded:
        """Writes the outcome of an attempt."""
        assert held.delivery is not None
        assert held.endpoint is not None
        delivery = held.delivery
        works = status is not None and 200 <= status < 300 and held.endpoint.failing_since_at is None
        command = EndDelivery(
            delivery.id,
            None if works else delivery.owner,
            delivery.attempts,
            status,
            None if error is None else arg.text(error),
            random.random(),  # noqa: S311 (jitter, not a secret)
        )
        return await self._ask(command, DeliveryEnded)

    async def forget_old_deliveries(self) -> int:
        """Deletes some of the messages that ended long ago; returns how many."""
        kept_s = (self.engine.policy.webhooks or Webhooks()).kept_s
        old = await self.engine.store.read(ListOldDeliveries(int(kept_s * 1_000), PRUNED_AT_ONCE))
        outcomes = await asyncio.gather(*(self._ask(ForgetDelivery(one), Forgotten) for one in old))
        return sum(outcome.changed for outcome in outcomes)

    def deliveries_heard(self) -> int:
        """What to pass to `wait_for_deliveries` as `since`."""
        return self.engine.wakeups.heard((DELIVERIES,))

    async def wait_for_deliveries(self, timeout_s: float, *, since: int) -> bool:
        """Returns True when there is a new message, or False when the time is up."""
        return await self.engine.wakeups.wait((DELIVERIES,), timeout_s, since)


def _owner(account: str | None) -> str:
    return OPERATOR if account is None else arg.name(account, "an account")


def _check_texts(url: Any, description: Any) -> None:
    if not isinstance(url, str):
        raise arg.invalid(f"url must be a text, not {url!r}")
    if not isinstance(description, str) or len(description) > DESCRIPTION_CHARS or arg.text(description) != description:
        raise arg.invalid(f"description must be a text of at most {DESCRIPTION_CHARS} characters")


def _webhook_id(value: str) -> str:
    return arg.job_id(value, "webhook endpoint")


def _events(values: Iterable[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise arg.invalid("events must be a list of names")
    wanted = tuple(dict.fromkeys(values))
    if unknown := [event for event in wanted if event not in EVENTS]:
        raise arg.invalid(f"there is no event {unknown[0]!r}; there are {', '.join(EVENTS)}")
    return wanted


def _new_secret() -> str:
    """A new secret in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
