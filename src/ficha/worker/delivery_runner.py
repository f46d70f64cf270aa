"""Sends webhooks: each message until its endpoint accepts it, for at most three days.

A message is held while it is sent, and the outcome is recorded. If the process dies in between, another one sends it
again; receivers recognise the repeat by its id, which stays the same. Only a few messages to one endpoint, and to the
endpoints of one account, are under way at a time, so that a slow or unreachable endpoint delays nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from ..backoff import away_pause_s
from ..core.outcomes import DeliveryHeld
from ..core.payload import read_json
from ..core.policy import SECOND
from ..core.records import Delivery, Endpoint
from ..core.webhooks import OPERATOR, pause_us
from ..errors import Refused
from ..extras import needs_extra
from ..job_log import begin, fields_of, timed
from ..operations import WebhookOperations
from ..outbound import Outbound, OutboundError
from ..store.base import StoreError
from .due_runner import DueRunner

log = logging.getLogger("ficha.worker")

AT_ONCE: Final = 50
"""The most messages under way at a time."""
ENDPOINT_AT_ONCE: Final = 4
ACCOUNT_AT_ONCE: Final = 8
OPERATOR_AT_ONCE: Final = 16
"""The most of those to one endpoint, to the endpoints of one account, and to the operator's endpoints."""
GRACE_S: Final = 10.0
"""How much longer than its timeout a message is held, so that the outcome can be recorded."""
PRUNE_S: Final = 60.0
"""The pause between two deletions of messages that ended long ago; 1 s while there are more."""
ANSWER_BYTES: Final = 4_096
"""How much of an answer is read, so that its connection can be reused. Its content does not matter."""


class DeliveryRunner(DueRunner):
    """Sends the messages that are due."""

    what = "webhooks"

    def __init__(self, operations: WebhookOperations, outbound: Outbound, *, timeout_s: float) -> None:
        with needs_extra("providers"):
            # Imported here, so that a worker without the extra fails at its start, not with each message.
            import standardwebhooks  # noqa: F401
        super().__init__()
        self._operations = operations
        self._outbound = outbound
        self._timeout_s = timeout_s
        self._hold_s = timeout_s + GRACE_S
        self._prune_at = 0.0

    async def _begin(self) -> int:
        begun = 0
        while (free := AT_ONCE - len(self._tasks)) > 0:
            full_owners, full_endpoints = self._full()
            due = await self._operations.due_deliveries(free, not_owners=full_owners, not_endpoints=full_endpoints)
            chosen = self._chosen(due)
            taken = await asyncio.gather(*map(self._hold, chosen))
            for held in taken:
                if held.delivery is not None:
                    self._start(self._run(held), held.delivery)
                    begun += 1
            # A page full of messages to busy endpoints may hide messages to others, so another page is read.
            if len(due) < free or len(chosen) == len(due):
                break
        return begun

    def _heard(self) -> int:
        return self._operations.deliveries_heard()

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        return await self._operations.wait_for_deliveries(timeout_s, since=since)

    def _full(self) -> tuple[list[str], list[str]]:
        """The owners and the endpoints that already have the most messages under way."""
        owners, endpoints = Counter(one.owner for one in self._tasks.values()), self._per_endpoint()
        return (
            [owner for owner, count in owners.items() if count >= _most(owner)],
            [endpoint for endpoint, count in endpoints.items() if count >= ENDPOINT_AT_ONCE],
        )

    def _per_endpoint(self) -> Counter[str]:
        return Counter(one.endpoint_id for one in self._tasks.values())

    def _chosen(self, due: list[Delivery]) -> list[Delivery]:
        """The messages that may be sent besides those under way."""
        owners, endpoints = Counter(one.owner for one in self._tasks.values()), self._per_endpoint()
        chosen = []
        for one in due:
            if owners[one.owner] < _most(one.owner) and endpoints[one.endpoint_id] < ENDPOINT_AT_ONCE:
                owners[one.owner] += 1
                endpoints[one.endpoint_id] += 1
                chosen.append(one)
        return chosen

    async def _hold(self, delivery: Delivery) -> DeliveryHeld:
        """Holds the message, if it can. An error about one message must not end the wait for the others."""
        try:
            return await self._operations.hold_delivery(delivery, self._hold_s)
        except (Refused, StoreError) as error:
            known = _fields(delivery, self.worker, 0.0)
            log.warning("the webhook %s could not be taken: %s", delivery.id, error, extra=known)
            self._look_within(away_pause_s(1))
            return DeliveryHeld()

    async def _run(self, held: DeliveryHeld) -> None:
        assert held.delivery is not None
        assert held.endpoint is not None
        begin(timed(partial(_fields, held.delivery, self.worker)))
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
                self._look_within(pause_us(tries, 0.0) / SECOND)
        if ended.disabled:
            log.warning("the webhook endpoint %s is disabled: %s", held.endpoint.id, error)

    async def _send(self, delivery: Delivery, endpoint: Endpoint) -> tuple[int | None, str | None]:
        """Sends a message; returns the status of the answer and, if it was not delivered, why."""
        content = delivery.body.encode()
        headers = {"content-type": "application/json", "user-agent": "Ficha-Webhooks"}
        try:
            # By the database's clock, as all times in records: `due_at` is the end of the hold that began just now.
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

    async def _tidy(self) -> None:
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + (1.0 if await self._operations.forget_old_deliveries() else PRUNE_S)


def _fields(delivery: Delivery, worker: str | None, duration_s: float) -> dict[str, Any]:
    """The fields of a log line: those of the message's job, as the message has them."""
    if delivery.job_id is None:
        return {"worker": worker, "duration_s": round(duration_s, 6)}
    told: dict[str, Any] = read_json(delivery.body).get("data", {})
    return fields_of(
        delivery.job_id,
        worker=worker,
        tool=told.get("tool"),
        attempt=delivery.attempts,
        status=told.get("status"),
        duration_s=duration_s,
        correlation_id=told.get("correlation_id"),
    )


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
