"""Watch: tells those who follow queued jobs how they wait, whenever that changes. One look serves all of them.

Nothing that is written tells of it: a job moves up because others left the queue.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from ..store.base import StoreError
from .views import JobView, Wait

log = logging.getLogger("ficha.engine")

EVERY_S = 2.0
"""How often all are looked at."""
MISSES: Final = 2
"""After so many looks in which a job was not found waiting, the job itself is asked for."""


class PositionWatch:
    """Those who wait. It looks only while there are any."""

    def __init__(self, waits: Callable[[Iterable[str]], Awaitable[dict[str, Wait]]]) -> None:
        self._waits = waits
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if self._timer is None and self._looking is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._begin)

    def remove(self, watched: Watched) -> None:
        self._watched.discard(watched)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        self._looking = asyncio.create_task(self._look(), name="ficha watch")

    async def _look(self) -> None:
        try:
            now = time.monotonic()
            asked = [watched for watched in self._watched if watched.not_before <= now]
            found = await self._waits(dict.fromkeys(watched.job_id for watched in asked))
            for watched in asked:
                if watched in self._watched:
                    watched.hear(found.get(watched.job_id))
        except StoreError as error:
            log.warning("how jobs wait could not be looked at: %s", error)
        finally:
            self._looking = None
            if self._watched and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._begin)


class Watched:
    """A job that somebody watches while it is queued. `call` tells them that there is something to take.

    news: how it waits now, if that is not what was told last. Whoever tells it sets it to None.
    is_lost: it no longer waits for its turn, or is not known to: ask for the job, and `see` it.
    """

    __slots__ = ("_call", "_misses", "_told", "_watch", "is_lost", "job_id", "news", "not_before")

    def __init__(self, watch: PositionWatch, job_id: str, call: Callable[[], None]) -> None:
        self.job_id = job_id
        self.news: Wait | None = None
        self.is_lost = False
        self.not_before = 0.0
        self._watch = watch
        self._call = call
        self._told: object = None
        self._misses = 0

    def see(self, job: JobView, *, told: bool) -> None:
        """Takes in the job as it was just read; `told` if they know of it already."""
        self.is_lost, self._misses = False, 0
        if job.status != "queued":
            self.stop()
            return
        wait = Wait(job.position, job.estimated_wait_s, job.waiting_for)
        if told:
            self._told = _sort(wait)
        else:
            self._take(wait)
        # A job that waits for its time stands in no line, and is looked for when its time has come.
        due_in_s = 0.0 if job.scheduled_at is None else job.scheduled_at.timestamp() - time.time()
        self.not_before = time.monotonic() + due_in_s
        self._watch.add(self)

    def hear(self, wait: Wait | None) -> None:
        if wait is not None:
            self._misses = 0
            if self._take(wait):
                self._call()
            return
        self._misses += 1
        if self._misses >= MISSES:
            self.is_lost = True
            self._call()

    def stop(self) -> None:
        self.news, self.is_lost = None, False
        self._watch.remove(self)

    def _take(self, wait: Wait) -> bool:
        if _sort(wait) == self._told:
            return False
        self.news, self._told = wait, _sort(wait)
        return True


def _sort(wait: Wait) -> object:
    """What makes news when it changes. An estimate changes all the time and says little new, once there is one."""
    return wait.position, wait.waiting_for, wait.estimated_wait_s is None
