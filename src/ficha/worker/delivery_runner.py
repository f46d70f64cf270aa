"""Sends webhooks: each message until its endpoint has taken it, or for three days.

A message is held while it is sent, and what came of it is recorded. If the process dies in between, another one sends
it again: receivers tell repeats by the id, which stays. So that an endpoint that is slow or away delays nobody else,
only a few messages to each endpoint, and to those of one account, are under way at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from ..backoff import away_pause_s
from ..core.outcomes import DeliveryHeld
from ..core.policy import SECOND
from ..core.records import Delivery, Endpoint
from ..core.webhooks import OPERATOR, pause_us
from ..errors import Refused
from ..extras import needs_extra
from ..futures import stop_tasks
from ..operations import WebhookOperations
from ..outbound import Outbound, OutboundError
from ..store.base import StoreError

log = logging.getLogger("ficha.worker")

POLL_S = 5.0
"""Wake-ups are only hints, so due messages are also looked for this often."""
AT_ONCE: Final = 50
"""Messages under way at a time, at most."""
ENDPOINT_AT_ONCE: Final = 4
ACCOUNT_AT_ONCE: Final = 8
OPERATOR_AT_ONCE: Final = 16
"""Of those, the ones to one endpoint, to the endpoints of one account, and to the operator's."""
GRACE_S: Final = 10.0
"""How much longer than its timeout a message is held: so that what came of it can be recorded."""
STOPPING_S: Final = 2.0
"""How long messages under way may take when the worker stops."""
PRUNE_S: Final = 60.0
"""How often messages that ended long ago are looked for."""
ANSWER_BYTES: Final = 4_096
"""How much of an answer is read, so that its connection can be used again. What it says does not matter."""


class DeliveryRunner:
    """Sends the messages that are due, until cancelled."""

    def __init__(self, operations: WebhookOperations, outbound: Outbound, *, timeout_s: float) -> None:
        with needs_extra("providers"):
            # Where it is not installed, the worker says so when it starts, and not with each message.
            import standardwebhooks  # noqa: F401
        self._operations = operations
        self._outbound = outbound
        self._timeout_s = timeout_s
        self._hold_s = timeout_s + GRACE_S
        self._tasks: dict[asyncio.Task[None], Delivery] = {}
        self._retry_at = float("inf")
        """When the next of those that failed here is due again."""
        self._prune_at = 0.0
        self._has_ended = asyncio.Event()
        """Whether one has ended since the last look: then there is room for another."""

    async def run(self) -> None:
        """Until cancelled; those under way may still end, within a little while."""
        tries = 0
        try:
            while True:
                heard = self._operations.deliveries_heard()
                try:
                    await self._begin()
                    await self._prune()
                    tries = 0
                except (Refused, StoreError) as error:
                    tries += 1
                    log.warning("webhooks could not be looked for: %s", error)
                    await asyncio.sleep(away_pause_s(tries))
                    continue
                await self._wait(heard)
        finally:
            await stop_tasks(self._tasks, STOPPING_S)

    async def drain(self) -> int:
        """Sends all that is due by now, and what becomes due meanwhile; returns how many attempts that were."""
        sent = 0
        try:
            while True:
                sent += await self._begin()
                if not self._tasks:
                    return sent
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        except (Refused, StoreError) as error:
            log.warning("webhooks could not be looked for: %s", error)
        return sent

    async def _begin(self) -> int:
        """Takes due messages, as many as may be under way, and begins to send them."""
        if time.monotonic() >= self._retry_at:
            self._retry_at = float("inf")
        begun = 0
        self._has_ended.clear()
        while (free := AT_ONCE - len(self._tasks)) > 0:
            full_owners, full_endpoints = self._full()
            due = await self._operations.due_deliveries(free, not_owners=full_owners, not_endpoints=full_endpoints)
            chosen = self._chosen(due)
            taken = await asyncio.gather(*map(self._hold, chosen))
            for held in taken:
                if held.delivery is not None:
                    task = asyncio.create_task(self._run(held), name="ficha webhook")
                    self._tasks[task] = held.delivery
                    task.add_done_callback(self._ended)
                    begun += 1
            # A page full of messages to endpoints that have enough under way may hide those to others.
            if len(due) < free or len(chosen) == len(due):
                break
        return begun

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._has_ended.set()

    def _full(self) -> tuple[list[str], list[str]]:
        """The owners and the endpoints that have enough under way."""
        owners, endpoints = Counter(one.owner for one in self._tasks.values()), self._per_endpoint()
        return (
            [owner for owner, count in owners.items() if count >= _most(owner)],
            [endpoint for endpoint, count in endpoints.items() if count >= ENDPOINT_AT_ONCE],
        )

    def _per_endpoint(self) -> Counter[str]:
        return Counter(one.endpoint_id for one in self._tasks.values())

    def _chosen(self, due: list[Delivery]) -> list[Delivery]:
        """Those that may be under way beside what is."""
        owners, endpoints = Counter(one.owner for one in self._tasks.values()), self._per_endpoint()
        chosen = []
        for one in due:
            if owners[one.owner] < _most(one.owner) and endpoints[one.endpoint_id] < ENDPOINT_AT_ONCE:
                owners[one.owner] += 1
                endpoints[one.endpoint_id] += 1
                chosen.append(one)
        return chosen

    async def _hold(self, delivery: Delivery) -> DeliveryHeld:
        """The message, if it can be taken. An error of one must not end the wait for the others."""
        try:
            return await self._operations.hold_delivery(delivery, self._hold_s)
        except (Refused, StoreError) as error:
            log.warning("the webhook %s could not be taken: %s", delivery.id, error)
            self._retry_at = min(self._retry_at, time.monotonic() + away_pause_s(1))
            return DeliveryHeld()

    async def _wait(self, heard: int) -> None:
        """Until there is a new message, one under way has ended, or it is time to look."""
        wait_s = max(0.0, min(POLL_S, self._retry_at - time.monotonic()))
        waits = [
            asyncio.create_task(self._operations.wait_for_deliveries(wait_s, since=heard)),
            asyncio.create_task(self._has_ended.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _run(self, held: DeliveryHeld) -> None:
        assert held.delivery is not None
        assert held.endpoint is not None
        status, error = await self._send(held.delivery, held.endpoint)
        try:
            ended = await self._operations.end_delivery(held, status, error)
        except (Refused, StoreError) as failed:
            log.warning("the webhook %s is sent again: %s", held.delivery.id, failed)
            return
        if error is not None:
            log.info("the webhook %s was not delivered: %s", held.delivery.id, error)
            tries = held.delivery.attempts - held.delivery.earlier_attempts
            with suppress(IndexError):
                self._retry_at = min(self._retry_at, time.monotonic() + pause_us(tries, 0.0) / SECOND)
        if ended.disabled:
            log.warning("the webhook endpoint %s is disabled: %s", held.endpoint.id, error)

    async def _send(self, delivery: Delivery, endpoint: Endpoint) -> tuple[int | None, str | None]:
        """The status of the answer, and why the message is not delivered, if so."""
        content = delivery.body.encode()
        headers = {"content-type": "application/json", "user-agent": "Ficha-Webhooks"}
        try:
            # By the database's clock, as all times of records: since it was held until then.
            now = delivery.due_at - int(self._hold_s * SECOND)
            valid = [secret for secret, ends_at in endpoint.secrets if ends_at is None or ends_at > now]
            headers |= signature_headers(valid, delivery.id, datetime.fromtimestamp(time.time(), UTC), delivery.body)
            async with self._outbound.stream(
                "POST",
                endpoint.url,
                headers=headers,
                content=content,
                timeout_s=self._timeout_s,
                most_bytes=ANSWER_BYTES,
            ) as answer:
                status = answer.status
                with suppress(OutboundError):
                    async for _ in answer:
                        pass
        except OutboundError as error:
            return None, error.message
        except Exception as error:
            # A bug, or a secret that somebody changed by hand: it must not end the sending of other messages.
            log.exception("the webhook %s could not be sent", delivery.id)
            return None, f"it could not be sent: {type(error).__name__}"
        return status, None if 200 <= status < 300 else f"it was answered with {status}"

    async def _prune(self) -> None:
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + (1.0 if await self._operations.forget_old_deliveries() else PRUNE_S)


def _most(owner: str) -> int:
    return OPERATOR_AT_ONCE if owner == OPERATOR else ACCOUNT_AT_ONCE


def signature_headers(secrets: Iterable[str], message_id: str, at: datetime, body: str) -> Mapping[str, str]:
    """The headers of Standard Webhooks, with a signature by each secret."""
    with needs_extra("providers"):
        from standardwebhooks import Webhook

    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": " ".join(Webhook(secret).sign(message_id, at, body) for secret in secrets),
    }
