"""Authentication by API key, with a cache: a key in use is read once in two seconds, however busy it is.

So a key that another process revoked is refused after two seconds at most, one revoked by this process at once. Keys
that are unknown, expired or revoked are not cached: they are read at each use, which counts as a failed attempt.
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

MAX_KEYS: Final = 10_000
CACHE_S: Final = 2.0
"""How long a live key is cached."""
USE_RECORDED_S: Final = 60.0
"""The shortest time between two records of a key's use."""


class ApiKeyAuthenticator:
    def __init__(self, app: Ficha, clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._cache: Recent[str, tuple[ApiKeyView, float]] = Recent(MAX_KEYS)
        self._reads: dict[str, asyncio.Task[ApiKeyView | None]] = {}
        self._use_recorded_at: Recent[str, float] = Recent(MAX_KEYS)
        self._use_tasks: set[asyncio.Task[None]] = set()

    async def caller(self, text: str) -> Caller:
        if not is_well_formed(text):
            raise unauthenticated("the API key has a wrong checksum, so it was mistyped or cut off")
        key = await self._key(text)
        if key is None:
            raise unauthenticated("the API key is unknown; check that it is a key of this server")
        if key.state != "live":
            raise unauthenticated(f"the API key {key.hint} is {key.state}; ask for a new one")
        self._record_use_if_due(key.id)
        return Caller(key.scope, key.account, name=f"key {key.hint}", key_id=key.id)

    def forget(self, key_id: str) -> None:
        """Drops the key from the cache, and ignores reads under way."""
        for digest in [digest for digest, (key, _) in self._cache.items() if key.id == key_id]:
            del self._cache[digest]
        self._reads.clear()

    async def close(self) -> None:
        tasks = [*self._reads.values(), *self._use_tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _key(self, text: str) -> ApiKeyView | None:
        digest = digest_of(text)
        key, until = self._cache.get(digest, (None, 0.0))
        if key is not None and self._clock() < until:
            return key
        reading = self._reads.get(digest)
        if reading is None:
            reading = self._reads[digest] = asyncio.create_task(self._read(digest, text), name="ficha api key")
            # Retrieves the exception, which asyncio would log if all who wait for it were cancelled.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that is cancelled must not cancel the read that others wait for.
        await asyncio.wait({reading})
        return reading.result()

    async def _read(self, digest: str, text: str) -> ApiKeyView | None:
        # From before the read, so that a change it missed stays unseen no longer than that.
        until = self._clock() + CACHE_S
        try:
            key = await self._app.api_key(text)
            if key is not None and key.state == "live" and self._is_current(digest):
                self._cache.put(digest, (key, until))
            return key
        finally:
            if self._is_current(digest):
                del self._reads[digest]

    def _is_current(self, digest: str) -> bool:
        """Whether this read still counts: not if `forget` was called meanwhile."""
        return self._reads.get(digest) is asyncio.current_task()

    def _record_use_if_due(self, key_id: str) -> None:
        now = self._clock()
        if now - self._use_recorded_at.get(key_id, float("-inf")) < USE_RECORDED_S:
            return
        self._use_recorded_at.put(key_id, now)
        task = asyncio.create_task(self._record_use(key_id), name="ficha api key use")
        self._use_tasks.add(task)
        task.add_done_callback(self._use_tasks.discard)

    async def _record_use(self, key_id: str) -> None:
        try:
            await self._app.use_api_key(key_id)
        except Exception as error:
            log.debug("the use of API key %s was not recorded: %r", key_id, error)
