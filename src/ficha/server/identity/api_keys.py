"""Authentication by API key, with a cache: a key in use is read once in two seconds, however busy it is.

So a key that another process revoked is refused after two seconds at most, one revoked by this process at once. Keys
that are unknown, expired or revoked are not cached: they are read at each use, which counts as a failed attempt.

A request that lasts longer than that (a live stream, a call that waits) watches its key meanwhile. One read a second
finds which of all watched keys were revoked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from ...api_key_text import digest_of, is_well_formed
from ...errors import Refused
from ...store.base import StoreError
from .callers import Caller, unauthenticated
from .recent import Recent

if TYPE_CHECKING:
    from ...app import Ficha
    from ...engine.views import ApiKeyView

log = logging.getLogger("ficha.server")

MAX_KEYS: Final = 10_000
CACHE_S: Final = 2.0
"""How long a live key is cached."""
WATCH_S: Final = 1.0
"""How often watched keys are read: often enough that a revocation is seen within two seconds."""
WATCH_NEW_S: Final = 0.1
"""The same while new keys come under watch: a cached key may have been revoked already."""
USE_RECORDED_S: Final = 60.0
"""The shortest time between two records of a key's use."""


Ended = Callable[[Refused], None]
"""Called when a credential ends, with the refusal that the credential would get now."""


def revoked() -> Refused:
    return unauthenticated("the API key was revoked; ask for a new one")


class ApiKeyAuthenticator:
    def __init__(self, app: Ficha, clock: Callable[[], float]) -> None:
        self._app = app
        self._clock = clock
        self._cache: Recent[str, tuple[ApiKeyView, float]] = Recent(MAX_KEYS)
        self._reads: dict[str, asyncio.Task[ApiKeyView | None]] = {}
        self._use_recorded_at: Recent[str, float] = Recent(MAX_KEYS)
        self._use_tasks: set[asyncio.Task[None]] = set()
        self._not_revoked: Recent[str, float] = Recent(MAX_KEYS)
        self._forgotten = 0
        """How many keys were forgotten so far. A read that began before the last of them is not cached."""
        self._watched: dict[str, set[Ended]] = {}
        self._is_watched_anew = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def caller(self, text: str) -> Caller:
        if not is_well_formed(text):
            raise unauthenticated("the API key has a wrong checksum, so it was mistyped or cut off")
        return self._caller(await self._key(digest_of(text), partial(self._app.api_key, text)))

    async def caller_by_id(self, key_id: str) -> Caller:
        """The caller whose key has this id, as their signed cookie has proved."""
        return self._caller(await self._key(key_id, partial(self._app.queries.api_key, key_id=key_id)))

    def _caller(self, key: ApiKeyView | None) -> Caller:
        if key is None:
            raise unauthenticated("the API key is unknown; check that it is a key of this server")
        if key.state != "live":
            raise unauthenticated(f"the API key {key.hint} is {key.state}; ask for a new one")
        self._record_use_if_due(key.id)
        expires_at = None if key.expires_at is None else key.expires_at.timestamp()
        return Caller(key.scope, key.account, name=f"key {key.hint}", key_id=key.id, expires_at=expires_at)

    async def check(self, key_id: str) -> None:
        """Refuses a job token if the key that it was made with is revoked by now."""
        if self._clock() < self._not_revoked.get(key_id, 0.0):
            return
        until, forgotten = self._clock() + CACHE_S, self._forgotten
        if await self._app.queries.revoked_api_keys((key_id,)):
            raise revoked()
        if forgotten == self._forgotten:
            self._not_revoked.put(key_id, until)

    @contextmanager
    def watch(self, key_id: str, ended: Ended) -> Iterator[None]:
        """Calls `ended` if the key is revoked meanwhile."""
        self._watched.setdefault(key_id, set()).add(ended)
        self._is_watched_anew.set()
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="ficha api key watch")
        try:
            yield
        finally:
            watching = self._watched.get(key_id, set())
            watching.discard(ended)
            if not watching:
                self._watched.pop(key_id, None)

    def forget(self, key_id: str) -> None:
        """Drops a revoked key from the cache, ignores reads under way, and notifies those who watch the key."""
        for name in [name for name, (key, _) in self._cache.items() if key.id == key_id]:
            del self._cache[name]
        self._reads.clear()
        self._forgotten += 1
        self._not_revoked.pop(key_id, None)
        self._tell(key_id)

    async def close(self) -> None:
        tasks = [*self._reads.values(), *self._use_tasks, *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _key(self, name: str, read: Callable[[], Awaitable[ApiKeyView | None]]) -> ApiKeyView | None:
        """The key of this name, which is a digest or an id, from the cache or as `read` finds it."""
        key, until = self._cache.get(name, (None, 0.0))
        if key is not None and self._clock() < until:
            return key
        reading = self._reads.get(name)
        if reading is None:
            reading = self._reads[name] = asyncio.create_task(self._read(name, read), name="ficha api key")
            # Retrieves the exception, which asyncio would log if all who wait for it were cancelled.
            reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A caller that is cancelled must not cancel the read that others wait for.
        await asyncio.wait({reading})
        return reading.result()

    async def _read(self, name: str, read: Callable[[], Awaitable[ApiKeyView | None]]) -> ApiKeyView | None:
        # The time counts from before the read, so that a change which it missed stays unseen no longer than `CACHE_S`.
        until = self._clock() + CACHE_S
        try:
            key = await read()
            if key is not None and key.state == "live" and self._is_current(name):
                self._cache.put(name, (key, until))
            return key
        finally:
            if self._is_current(name):
                del self._reads[name]

    async def _watch(self) -> None:
        while self._watched:
            self._is_watched_anew.clear()
            with suppress(StoreError):  # While the database is away, streams get no news either.
                for key_id in await self._app.queries.revoked_api_keys(tuple(self._watched)):
                    self.forget(key_id)
            await asyncio.sleep(WATCH_NEW_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(WATCH_S - WATCH_NEW_S):
                    await self._is_watched_anew.wait()
        self._watching = None

    def _tell(self, key_id: str) -> None:
        for ended in self._watched.pop(key_id, set()):
            ended(revoked())

    def _is_current(self, name: str) -> bool:
        """Whether this read still counts: not if `forget` was called meanwhile."""
        return self._reads.get(name) is asyncio.current_task()

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
