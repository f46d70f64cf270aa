"""A webhook endpoint of the operator's: it receives a message about every job that ends, and checks its signature.

Only the demonstration adds it, so that the console's page of webhooks has something to show. A product would update its
own tables here, or tell its users.
"""

import hashlib
import os
from collections import deque

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ficha import Ficha

ADDRESS = os.environ.get("STUDIO_WEBHOOK_RECEIVER")
"""Its own address, if it is to be added."""
PATH = "/studio/webhooks"
KEPT = 1_000
BUSY_EVERY = 16
"""One of so many messages is answered with 503 at first and comes again: that shows in the console."""


class WebhookReceiver:
    def __init__(self) -> None:
        self._webhook: Webhook | None = None
        self._received: deque[str] = deque(maxlen=KEPT)

    async def add(self, app: Ficha) -> None:
        """Adds the endpoint. That of an earlier run is removed, because nobody knows its secret any more."""
        for one in await app.webhooks():
            if one.url.endswith(PATH):
                await app.remove_webhook(one.id)
        if ADDRESS is not None:
            added = await app.add_webhook(ADDRESS, description="the operator's own endpoint")
            self._webhook = Webhook(added.secret)

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        """The status with which a message is answered. A repeat has the same id, and is counted once."""
        try:
            if self._webhook is None:
                return 401
            self._webhook.verify(body, headers, json_parse=False)
        except (WebhookVerificationError, ValueError):
            return 401
        message = headers["webhook-id"]
        if message in self._received:
            return 204
        self._received.append(message)
        return 503 if hashlib.sha256(message.encode()).digest()[0] % BUSY_EVERY == 0 else 204
