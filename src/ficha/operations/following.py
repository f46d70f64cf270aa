"""Following a job inside this process: all that happens to it, until it ends.

The server's streams use the same generator.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from .. import validation as arg
from ..backoff import away_pause_s
from ..core.states import FINAL
from ..engine.committer import CLOSED
from ..engine.event_tail import Closed
from ..engine.position_watch import Watched
from ..engine.views import EventView, Happening, JobView, Wait, event_view
from ..errors import Refused
from ..store.base import Transient, Unavailable
from .request_follower import RequestFollower
from .submits import SubmitOperations

BACK_IN_QUEUE: Final = frozenset({"retried", "recovered", "returned"})
"""Events after which a job waits again. An event that ends a job is named like the job's final status."""
LONGEST_S: Final = 3_600.0
"""The longest single wait of a follower; one with more time waits again."""

Told = list[EventView] | Wait | JobView | None
"""Events in order, the job's place in the queue, the job itself, or None after a silence."""


class FollowOperations(SubmitOperations):
    async def wait(self, job_id: str, timeout_s: float | None = None) -> JobView:
        """Waits for a job's end and returns the job. Raises `TimeoutError` if it took longer; the job goes on."""
        left_s = float("inf") if timeout_s is None else arg.milliseconds(timeout_s, "timeout_s") / 1_000
        ends_at = time.monotonic() + left_s
        job = await self.job(job_id)
        tries = 0
        while job.status not in FINAL:
            left_s = ends_at - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"job {job.id} is still {job.status}; it goes on by itself")
            try:
                await self.engine.live.end_of(next_to_end(job), min(left_s, LONGEST_S))
                job = await self.job(job.id)
                tries = 0
            except Closed:
                raise Refused.of(CLOSED) from None
            except (Transient, Unavailable):
                tries += 1
                await asyncio.sleep(max(0.0, min(away_pause_s(tries), ends_at - time.monotonic())))
        return job

    async def watch(self, job_id: str, *, after: int = 0) -> AsyncGenerator[Happening, None]:
        """All that happens to a job until it has ended: its events after the number `after`, each once and in order;
        its place in the queue whenever that changes; and the job itself, first as it is now and last as it ended. Of a
        split request, the request itself, whenever something of it changes.

        While the database is unreachable the generator waits, and then goes on after the last event that it yielded.
        """
        job = await self.job(job_id)
        cursor = arg.cursor(after, "after") or 0
        shown: JobView | None = None
        waits: Wait | None = None
        tries = 0
        while True:
            try:
                async with aclosing(happenings(self, job.id, cursor, LONGEST_S, request_in(job))) as stream:
                    async for told in stream:
                        tries = 0
                        match told:
                            case list():
                                for event in told:
                                    cursor = event.number
                                    yield event
                            case JobView(status="queued", parts=None) if shown is not None:
                                told = Wait(told.position, told.estimated_wait_s, told.waiting_for)
                                if told != waits:
                                    waits = told
                                    yield told
                            case JobView() if told.parts is not None:
                                if told.status not in FINAL:
                                    yield told
                                job = told
                            case JobView():
                                # A job that has ended is yielded below, after all of its events.
                                if shown is None and told.status not in FINAL:
                                    shown, waits = told, Wait(told.position, told.estimated_wait_s, told.waiting_for)
                                    yield told
                                job = told
                            case Wait():
                                waits = told
                                yield told
                yield job
                return
            except Closed:
                raise Refused.of(CLOSED) from None
            except (Transient, Unavailable):
                tries += 1
                await asyncio.sleep(away_pause_s(tries))


def request_in(job: JobView) -> JobView | None:
    """The job, if it is a split request."""
    return None if job.parts is None else job


def next_to_end(job: JobView) -> str:
    """The id of the job whose end is to be waited for: of a split request, a part that is active."""
    active = (part.id for part in job.parts or () if part.status not in FINAL)
    return next(active, job.id)


async def happenings(
    app: SubmitOperations, job_id: str, after: int, silence_s: float, request: JobView | None = None
) -> AsyncGenerator[Told, None]:
    """Yields the job's events after a number, the job as it is then, all that happens until it has ended, and the job
    as it ended. Yields None after each `silence_s` in which nothing happened.

    request: the split request, if it is one. Its parts have the events, so it is yielded itself whenever something of
        it has changed.

    Raises Closed when the process shuts down, and StoreError while the database cannot be read.
    """
    if request is not None:
        async with aclosing(RequestFollower(app, request, silence_s).happenings()) as stream:
            async for told in stream:
                yield told
        return
    async with app.engine.live.follow(job_id=job_id, after=after) as follower:
        while found := await follower.next(0):
            yield [*map(event_view, found)]
        job = await app.job(job_id)
        yield job
        waiting = Watched(app.queries.watch, job_id, follower.nudge)
        try:
            waiting.see(job, told=True)
            while job.status not in FINAL:
                if found := await follower.next(silence_s):
                    yield [*map(event_view, found)]
                    kinds = {numbered.event.kind for numbered in found}
                    if not kinds.isdisjoint(FINAL | BACK_IN_QUEUE):
                        job = await app.job(job_id)
                        waiting.see(job, told=False)
                    elif "claimed" in kinds:
                        waiting.stop()
                elif waiting.is_lost:
                    job = await app.job(job_id)
                    waiting.see(job, told=False)
                elif waiting.news is None:
                    yield None
                if waiting.news is not None:
                    news, waiting.news = waiting.news, None
                    yield news
        finally:
            waiting.stop()
        # The job may have been read before the events that led to its end.
        follower.fall_behind()
        while found := await follower.next(0):
            yield [*map(event_view, found)]
        yield job
