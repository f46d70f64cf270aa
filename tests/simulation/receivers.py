"""Receivers of webhooks that fail, answer late or say that they are gone; and whether each was told what it must be."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from random import Random
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ficha import Webhooks
from ficha.app import Ficha
from ficha.core.dataset import State
from ficha.core.records import Delivery, Endpoint, WebhookEndpoints
from ficha.core.states import FINAL
from ficha.core.webhooks import OPERATOR
from ficha.outbound.http_client import Answer

from .clients import Requester
from .database import Database, Transaction
from .network import Network, Request
from .trace import Trace

PAUSES_S: Final = (1, 2, 4, 8, 8, 8)
"""Between the tries of a message: all are over before a simulation is."""
TERMS: Final = Webhooks(low_credits=8, timeout_s=3.0, disable_after_s=25.0)


class Receiver:
    """A server that somebody's messages go to."""

    def __init__(self, host: str, network: Network, random: Random, trace: Trace) -> None:
        self.host = host
        self.badness = random.choice((0.0, 0.3, 0.9))
        self.gone_after = random.choice((None, None, None, 2))
        """After so many messages it says that it is gone."""
        self.taken: dict[str, bytes] = {}
        """Those that it said it took, by their ids; the first of each counts."""
        self.clock_set_back_at = float("-inf")
        self._events: defaultdict[str, list[str]] = defaultdict(list)
        """job → of what it was told, in order"""
        self._network = network
        self._random = random
        self._trace = trace

    def calm(self) -> None:
        self.badness = 0.0

    def send(self, timeout_s: float) -> None:
        """There is no limit."""

    def end(self, sent: Any) -> None:
        """There is no limit."""

    def serve(self, request: Request) -> tuple[float, Answer | None]:
        message_id, random = request.headers["webhook-id"], self._random
        if self.taken.get(message_id, request.body) != request.body:
            self._trace.fail(f"the message {message_id} came again with another body")
        if self.gone_after is not None and len(self.taken) >= self.gone_after:
            return 0.0, Answer(410, {})
        fate = random.choice(("failed", "silent", "late")) if random.random() < self.badness else "good"
        if fate == "failed":
            return 0.0, Answer(random.choice((302, 404, 500, 503)), {})
        if fate == "silent":
            return 0.0, None
        if message_id not in self.taken:
            self.taken[message_id] = request.body
            self._take(msgspec.json.decode(request.body))
        return (random.random() * 6 if fate == "late" else random.random() ** 3), Answer(204, {})

    def _take(self, message: dict[str, Any]) -> None:
        job_id = message["data"].get("job_id") or message["data"].get("id")
        told = self._events[job_id]
        told.append(message["type"])
        # Rows are in the order of the database's clock.
        is_in_order = "credits.low" not in told[1:] or self.clock_set_back_at > float("-inf")
        if job_id is not None and not is_in_order:
            self._trace.fail(f"{self.host} was told of job {job_id} in the order {told}")


class WebhookUser(Requester):
    """Adds endpoints, of accounts and of the operator, and changes some of them later."""

    def __init__(self, owners: list[str], network: Network, trace: Trace, *args: Any) -> None:
        super().__init__(*args)
        self._owners = owners
        self._network = network
        self._trace = trace
        self.receivers: dict[str, Receiver] = {}

    async def run(self) -> None:
        await asyncio.gather(*(self._use(owner) for owner in self._owners if self._random.random() < 0.4))

    async def _use(self, owner: str) -> None:
        random = self._random
        account = None if owner == OPERATOR else owner
        receiver = Receiver(f"receiver-of-{owner or 'operator'}", self._network, random, self._trace)
        self._network.add(receiver)
        self.receivers[receiver.host] = receiver
        events = random.choice(((), (), ("job.completed", "credits.low"), ("job.failed", "job.cancelled")))
        url = f"https://{receiver.host}/hook"
        await asyncio.sleep(random.random() * 3)
        # Only once: whoever adds it again, because the answer was lost, has two.
        added = await self.ask(lambda app: app.add_webhook(url, account=account, events=events))
        await asyncio.sleep(random.random() * 15)
        if added is not None:
            await self.ask(lambda app: self._change(app, added.webhook.id, account))

    async def _change(self, app: Ficha, webhook_id: str, account: str | None) -> Any:
        match self._random.randrange(6):
            case 0:
                return await app.remove_webhook(webhook_id, account=account)
            case 1 | 2:
                return await app.rotate_webhook_secret(webhook_id, account=account)
            case 3 | 4:
                return await app.test_webhook(webhook_id, account=account)


class OutboxWatcher:
    """Books over what must be told, and to whom."""

    def __init__(self, database: Database, user: WebhookUser) -> None:
        self._database = database
        self._user = user
        self._live: dict[str, dict[str, Endpoint]] = {}
        """owner → the endpoints that messages go to"""
        self._left: set[str] = set()
        """Endpoints that were removed or disabled."""
        self._owed: list[tuple[str, str, str]] = []
        """job, endpoint, event"""

    def watch(self, transaction: Transaction) -> Iterator[str]:
        for row in transaction.changes.keyed:
            if isinstance(row, WebhookEndpoints):
                before = self._live.get(row.owner, {})
                live = {one.id: one for one in row.endpoints if one.disabled_at is None}
                self._left |= before.keys() - live.keys()
                self._live[row.owner] = live
        for change in transaction.changes.jobs:
            job = change.after
            if job.status in FINAL and (change.before is None or change.before.status not in FINAL):
                event = f"job.{job.status}"
                for owner in (job.account_id, OPERATOR):
                    for one in self._live.get(owner, {}).values():
                        if not one.events or event in one.events:
                            self._owed.append((job.id, one.id, event))
        return iter(())

    @property
    def receivers(self) -> list[Receiver]:
        return list(self._user.receivers.values())

    def is_over(self) -> bool:
        return all(one.state != "pending" for one in self._database.state.of(Delivery).values())

    def wrong(self, state: State) -> Iterator[str]:
        """What is not so in the end."""
        made: defaultdict[tuple[str | None, str, str], list[Delivery]] = defaultdict(list)
        hosts = {one.id: urlsplit(one.url).netloc for live in self._live.values() for one in live.values()}
        for delivery in state.of(Delivery).values():
            made[delivery.job_id, delivery.endpoint_id, delivery.event].append(delivery)
            yield from self._wrong_end(delivery, hosts.get(delivery.endpoint_id))
        for name, deliveries in made.items():
            if name[0] is not None and len(deliveries) > 1:
                yield f"{len(deliveries)} messages were made of {name[2]} of job {name[0]} for one endpoint"
        for name in self._owed:
            if name not in made and name[1] not in self._left:
                yield f"no message was made of job {name[0]}, which ended, for the endpoint {name[1]}"

    def _wrong_end(self, delivery: Delivery, host: str | None) -> Iterator[str]:
        """`host`: where it went, if its endpoint is there still."""
        is_early = delivery.attempts <= len(PAUSES_S) and delivery.job_id is not None
        match delivery.state:
            case "pending":
                yield f"the message {delivery.id} is still to be sent, after {delivery.attempts} attempts"
            case "failed" if is_early and delivery.endpoint_id not in self._left:
                yield f"the message {delivery.id} was given up after {delivery.attempts} attempts: {delivery.error}"
            case "delivered" if host is not None and delivery.id not in self._user.receivers[host].taken:
                yield f"the message {delivery.id} counts as delivered, and its receiver has not taken it"
