"""Following a split request: all of its parts at once, told as one job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from ..core.states import FINAL
from ..engine.position_watch import EVERY_S
from ..engine.views import JobView
from .submits import SubmitOperations

LONGEST_S: Final = 3_600.0
"""The longest single wait for a part's next event."""


class RequestFollower:
    """One follower of a split request.

    silence_s: after so many seconds without a change, it yields None.
    """

    def __init__(self, app: SubmitOperations, request: JobView, silence_s: float) -> None:
        self._app = app
        self._request = request
        self._silence_s = silence_s
        self._parts: dict[str, asyncio.Task[None]] = {}
        """What listens to each part."""
        self._news = asyncio.Event()

    async def happenings(self) -> AsyncGenerator[JobView | None, None]:
        """Yields the request as it is, as it is after each change, and last as it ended."""
        told, told_at = self._request, time.monotonic()
        yield told
        try:
            while self._request.status not in FINAL:
                self._listen()
                await self._wait()
                self._request = await self._app.job(self._request.id)
                now = time.monotonic()
                if _news(self._request) != _news(told) and self._request.status not in FINAL:
                    told, told_at = self._request, now
                    yield told
                elif now - told_at >= self._silence_s:
                    told_at = now
                    yield None
        finally:
            await self._stop()
        yield self._request

    def _listen(self) -> None:
        """Listens to every part that is active. One that runs again is another job."""
        for part in self._request.parts or ():
            if part.status not in FINAL and part.id not in self._parts:
                self._parts[part.id] = asyncio.create_task(self._hear(part.id), name="ficha part")

    async def _hear(self, part_id: str) -> None:
        try:
            async with self._app.engine.live.follow(job_id=part_id) as follower:
                while True:
                    kinds = {numbered.event.kind for numbered in await follower.next(LONGEST_S)}
                    if kinds:
                        self._news.set()
                    if not kinds.isdisjoint(FINAL | {"reused"}):
                        return
        finally:
            self._news.set()

    async def _wait(self) -> None:
        """Waits until a part has news. A place in the queue changes without an event."""
        wait_s = min(self._silence_s, EVERY_S) if self._request.status == "queued" else self._silence_s
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        self._news.clear()
        for listening in self._parts.values():
            if listening.done():
                listening.result()  # Closed, or the database cannot be read.

    async def _stop(self) -> None:
        for listening in self._parts.values():
            listening.cancel()
        await asyncio.gather(*self._parts.values(), return_exceptions=True)


def _news(request: JobView) -> JobView:
    """The request without what changes all the time."""
    return replace(request, waited_in_queue=0.0, last_heartbeat_at=None)
