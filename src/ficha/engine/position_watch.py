"""Notifies followers of queued jobs when their position changes. One check serves all of them.

No event tells of such a change: a job moves up because others left the queue, and nothing is written for it.
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
"""How often all watched jobs are checked."""
MAX_MISSES: Final = 2
"""After this many checks in a row that did not find the job waiting, its follower must read the job."""


class PositionWatch:
    """The watched jobs. Checks run only while there are any."""

    def __init__(self, waits: Callable[[Iterable[str]], Awaitable[dict[str, Wait]]]) -> None:
        self._waits = waits
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if self._timer is None and self._task is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._begin)

    def remove(self, watched: Watched) -> None:
        self._watched.discard(watched)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.create_task(self._check(), name="ficha watch")

    async def _check(self) -> None:
        try:
            now = time.monotonic()
            asked = [watched for watched in self._watched if watched.not_before <= now]
            found = await self._waits(dict.fromkeys(watched.job_id for watched in asked))
            for watched in asked:
                if watched in self._watched:
                    watched.update(found.get(watched.job_id))
        except StoreError as error:
            log.warning("the positions of watched jobs could not be checked: %s", error)
        finally:
            self._task = None
            if self._watched and self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._begin)


class Watched:
    """A queued job that somebody watches. `notify` is called when `news` or `is_lost` is set.

    news: how the job waits now, if that differs from what was reported last. Its reader sets it to None.
    is_lost: the job was not found waiting for its turn: read the job, and call `see` with it.
    """

    __slots__ = ("_misses", "_notify", "_reported", "_watch", "is_lost", "job_id", "news", "not_before")

    def __init__(self, watch: PositionWatch, job_id: str, notify: Callable[[], None]) -> None:
        self.job_id = job_id
        self.news: Wait | None = None
        self.is_lost = False
        self.not_before = 0.0
        self._watch = watch
        self._notify = notify
        self._reported: object = None
        self._misses = 0

    def see(self, job: JobView, *, told: bool) -> None:
        """Takes the job as it was just read; `told` says whether the follower has seen it."""
        self.is_lost, self._misses = False, 0
        if job.status != "queued":
            self.stop()
            return
        wait = Wait(job.position, job.estimated_wait_s, job.waiting_for)
        if told:
            self._reported = _comparable(wait)
        else:
            self._report(wait)
        # A scheduled job has no position until it is due, and is not checked before.
        due_in_s = 0.0 if job.scheduled_at is None else job.scheduled_at.timestamp() - time.time()
        self.not_before = time.monotonic() + due_in_s
        self._watch.add(self)

    def update(self, wait: Wait | None) -> None:
        if wait is not None:
            self._misses = 0
            if self._report(wait):
                self._notify()
            return
        self._misses += 1
        if self._misses >= MAX_MISSES:
            self.is_lost = True
            self._notify()

    def stop(self) -> None:
        self.news, self.is_lost = None, False
        self._watch.remove(self)

    def _report(self, wait: Wait) -> bool:
        if _comparable(wait) == self._reported:
            return False
        self.news, self._reported = wait, _comparable(wait)
        return True


def _comparable(wait: Wait) -> object:
    """What counts as a change. The estimate's value does not: it changes all the time."""
    return wait.position, wait.waiting_for, wait.estimated_wait_s is None
