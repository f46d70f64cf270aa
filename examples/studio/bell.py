"""The operator's bell: a webhook endpoint that hears of every job that ends, and checks that Ficha rings it.

Only the demonstration hangs it up, so that the console's page of webhooks has something to show. A product would tell
its users here, or its books.
"""

import base64
import hashlib
import hmac
import os
import time
from collections import deque

from ficha import Ficha

ADDRESS = os.environ.get("STUDIO_BELL")
"""Where the bell hangs, if it does."""
PATH = "/studio/bell"
OLDEST_S = 300
RUNGS_KEPT = 1_000
BUSY_EVERY = 16
"""One of so many messages finds the bell busy at first, and comes again: that shows in the console."""


class Bell:
    def __init__(self) -> None:
        self._key = b""
        self._rung: deque[str] = deque(maxlen=RUNGS_KEPT)

    async def hang(self, app: Ficha) -> None:
        """Adds the endpoint. That of an earlier run goes, whose secret nobody knows any more."""
        for one in await app.webhooks():
            if one.url.endswith(PATH):
                await app.remove_webhook(one.id)
        if ADDRESS is not None:
            added = await app.add_webhook(ADDRESS, description="the studio's bell")
            self._key = base64.b64decode(added.secret.removeprefix("whsec_"))

    def ring(self, headers: dict[str, str], body: bytes) -> int:
        """The status with which a message is answered. A repeat has the same id, and is heard once."""
        number, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not (self._key and at.isdigit() and abs(time.time() - int(at)) <= OLDEST_S):
            return 401
        digest = hmac.digest(self._key, f"{number}.{at}.".encode() + body, hashlib.sha256)
        right = f"v1,{base64.b64encode(digest).decode()}"
        if not any(hmac.compare_digest(one, right) for one in headers.get("webhook-signature", "").split()):
            return 401
        is_new = number not in self._rung
        if is_new:
            self._rung.append(number)
        return 503 if is_new and hashlib.sha256(number.encode()).digest()[0] % BUSY_EVERY == 0 else 204
