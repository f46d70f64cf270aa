"""API keys, as the database knows them: a key in use is asked about once in two seconds, however busy it is.

So a key that was revoked by another process is refused two seconds later at the latest, and by this one at once. Keys
that are not known, expired or revoked are asked about each time: that is what counts as an attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...api_key_text import digest_of, is_well_formed
from .callers import Caller, unauthenticated
from .recent import Recent

if TYPE_CHECKING:
    from ...app import Ficha
    from ...engine.views import ApiKeyView

log = logging.getLogger("ficha.server")

MOST_KEYS: Final = 10_000
MEMORY_S: Final = 2.0
"""How long a live key is taken as it was last read."""
USE_TOLD_S: Final = 60.0
"""How often it is written down that a key is in use, at most."""


class ApiKeyAuthenticator:
    def __init__(self, app: Ficha, clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._live: Recent[str, tuple[ApiKeyView, float]] = Recent(MOST_KEYS)
        self._asking: dict[str, asyncio.Task[ApiKeyView | None]] = {}
        self._told: Recent[str, float] = Recent(MOST_KEYS)
        self._telling: set[asyncio.Task[None]] = set()

    async def caller(self, text: str) -> Caller:
        if not is_well_formed(text):
            raise unauthenticated("the API key is not whole: its checksum does not fit, so it was mistyped or cut off")
        key = await self._key(text)
        if key is None:
            raise unauthenticated("the API key is not known here; check which server and which key this is")
        if key.state != "live":
            raise unauthenticated(f"the API key {key.hint} is {key.state}; ask for a new one")
        self._tell(key.id)
        return Caller(key.scope, key.account, name=f"key {key.hint}", key_id=key.id)

    def forget(self, key_id: str) -> None:
        """What was read about the key before now is no longer believed, nor what is being read."""
        for digest in [digest for digest, (key, _) in self._live.items() if key.id == key_id]:
            del self._live[digest]
        self._asking.clear()

    async def close(self) -> None:
        tasks = [*self._asking.values(), *self._telling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _key(self, text: str) -> ApiKeyView | None:
        digest = digest_of(text)
        key, until = self._live.get(digest, (None, 0.0))
        if key is not None and self._clock() < until:
            return key
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.create_task(self._ask(digest, text), name="ficha api key")
            # If nobody waits for it any more, what went wrong is nobody's business either.
            asking.add_done_callback(lambda task: task.cancelled() or task.exception())
        # Whoever stops waiting does not take the answer from the others.
        await asyncio.wait({asking})
        return asking.result()

    async def _ask(self, digest: str, text: str) -> ApiKeyView | None:
        # Counted from before the question, so that what it missed is missed for no longer than that.
        until = self._clock() + MEMORY_S
        try:
            key = await self._app.api_key(text)
            if key is not None and key.state == "live" and self._is_asking(digest):
                self._live.put(digest, (key, until))
            return key
        finally:
            if self._is_asking(digest):
                del self._asking[digest]

    def _is_asking(self, digest: str) -> bool:
        """Whether the answer is still wanted: not if the key was forgotten meanwhile."""
        return self._asking.get(digest) is asyncio.current_task()

    def _tell(self, key_id: str) -> None:
        now = self._clock()
        if now - self._told.get(key_id, float("-inf")) < USE_TOLD_S:
            return
        self._told.put(key_id, now)
        task = asyncio.create_task(self._use(key_id), name="ficha api key use")
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _use(self, key_id: str) -> None:
        try:
            await self._app.use_api_key(key_id)
        except Exception as error:
            log.debug("it was not written down that the API key %s is in use: %r", key_id, error)
