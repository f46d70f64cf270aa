"""The trigger: calls a function of the application when jobs become ready, so that it can start a worker, or hand the
jobs to whatever runs them.

For serverless hosts, where each submit starts a worker that runs within its time budget and ends; and for applications
whose work another queue runs.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Struct

log = logging.getLogger("ficha.engine")

OnWork = Callable[..., Any]
"""Called with the names of pools and, if it takes a second argument, with the jobs that may be claimed now (a tuple of
`ReadyJob`); a coroutine function is awaited."""

PAUSE_S: Final = 0.05
"""The shortest time between two calls; what becomes ready meanwhile shares the next one."""
AGAIN_S: Final = 5.0
"""How long after a call that failed its jobs are told again."""
JOBS_AT_ONCE: Final = 1_000
"""How many jobs one call is told; the others follow in further calls."""


class ReadyJob(Struct, frozen=True, gc=False):
    """A job that may be claimed: a new one, one to be run again, or one taken back from a worker that died."""

    id: str
    tool: str
    pool: str


class Trigger:
    """Calls `on_work` in the background, one call at a time. If it raises, that is logged, and it is called again with
    the same jobs."""

    def __init__(self, on_work: OnWork) -> None:
        self._on_work = on_work
        self._takes_jobs = takes_jobs(on_work)
        self._pools: set[str] = set()
        self._jobs: dict[str, ReadyJob] = {}
        self._task: asyncio.Task[None] | None = None
        self._failed = asyncio.Event()
        self._is_stopping = asyncio.Event()

    def fire(self, pools: Iterable[str], jobs: Iterable[ReadyJob] = ()) -> None:
        self._pools.update(pools)
        if self._takes_jobs:
            self._jobs.update({job.id: job for job in jobs})
        self._failed.set()
        if self._pools and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="ficha trigger")

    async def stop(self) -> None:
        """Waits for a call under way to end."""
        self._is_stopping.set()
        self._failed.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._pools:
            pools, self._pools = tuple(sorted(self._pools)), set()
            jobs = tuple(self._jobs.values())[:JOBS_AT_ONCE]
            self._failed.clear()
            try:
                answer = self._on_work(pools, jobs) if self._takes_jobs else self._on_work(pools)
                if inspect.isawaitable(answer):
                    await answer
            except Exception:
                log.exception("on_work failed; the jobs still wait for a worker")
                self._pools.update(pools)
                await self._wait(AGAIN_S)
                if self._is_stopping.is_set():
                    return
                continue
            for job in jobs:
                self._jobs.pop(job.id, None)
            self._pools.update(job.pool for job in self._jobs.values())
            await asyncio.sleep(PAUSE_S)

    async def _wait(self, seconds: float) -> None:
        """Waits, but not beyond the next firing."""
        try:
            async with asyncio.timeout(seconds):
                await self._failed.wait()
        except TimeoutError:
            return


def takes_jobs(on_work: OnWork) -> bool:
    """Whether the function has a second parameter for the jobs."""
    try:
        inspect.signature(on_work).bind((), ())
    except (TypeError, ValueError):
        return False
    return True
