"""What a queue must offer to be measured.

A new peer is one class with these methods, a line in `__main__.py`, and a colour in `charts.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from .workload import Numbers

SUBMITS_ONE_BY_ONE: Final = "it has no way to submit many jobs at once"
ONLY_BY_WORKER: Final = "jobs are claimed and finished by its own worker alone"
NOT_ASKED: Final = "no target is beside it, and a run is long enough"


class Wrong(Exception):
    """The peer did not do what was measured, so its figure means nothing."""


class Tally:
    """Jobs that ended, in whichever thread, and when the last of them was durable.

    The clock is the machine's: what one process noted, another can compare.
    """

    def __init__(self) -> None:
        self.count = 0
        self.last_at = 0.0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._goal: int | None = None
        self._reached = asyncio.Event()

    def add(self, count: int) -> None:
        with self._lock:
            self.count += count
            self.last_at = time.monotonic()
            if self._goal is not None and self.count >= self._goal:
                self._goal = None
                self._loop.call_soon_threadsafe(self._reached.set)

    async def reach(self, goal: int) -> None:
        """Waits until so many have ended."""
        with self._lock:
            self._reached.clear()
            if self.count >= goal:
                return
            self._goal = goal
        await self._reached.wait()


@dataclass(frozen=True)
class Knob:
    """A number that a peer is set by, of which the run looks for the best before the first round.

    name: what it counts, for the report.
    values: among these it is looked for.
    """

    name: str
    values: tuple[int, ...]


class Peer(Protocol):
    """One queue on a fresh database. Jobs are known by their number; what is done to them is durable on return.

    name: what the report calls it.
    package: the distribution whose version the report gives.
    does: what a job's life includes there, in a few words.
    lacks: measurements that it cannot take, by key, and why. Their cells stay empty.
    share: the part of a measurement's jobs with which its queue is filled before it is emptied. A slow peer has fewer,
        so that a run ends; its rate is none the lower for it.
    knob, setting: what it is set by if it has such a number, and what that is set to.
    began: what the handler calls first.
    ended_apart: jobs that workers in other processes ended, as they say.
    """

    name: str
    package: str
    does: str
    lacks: ClassVar[Mapping[str, str]] = {}
    share: float = 1.0
    knob: Knob | None = None
    setting: int = 0
    began: Callable[[], None] = staticmethod(lambda: None)
    ended_apart: int = 0

    async def install(self, url: str) -> None:
        """Makes the schema, once for each kind of database: measurements get a copy of what is there then."""

    async def open(self, url: str) -> None:
        """Makes whatever must exist before the first job."""

    async def reopen(self, url: str) -> None:
        """The same in another process, on a database that was opened before."""
        await self.open(url)

    def started(self) -> None:
        """What the peer's own worker process does when it has started, before it takes jobs."""

    async def close(self) -> None:
        """Ends everything that `open` began."""

    async def submit(self, number: int) -> None:
        """One job, in one call."""

    async def submit_many(self, numbers: Sequence[int]) -> None:
        """Many jobs, in whatever way is the peer's fastest."""

    async def call(self, callers: int, seconds: float, numbers: Numbers) -> list[float]:
        """Callers who each submit one job after the other until the time is up; how long each call took."""
        waits: list[float] = []
        ends_at = time.monotonic() + seconds

        async def caller() -> None:
            while (asked_at := time.monotonic()) < ends_at:
                await self.submit(numbers.next())
                waits.append(time.monotonic() - asked_at)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(callers):
                tasks.create_task(caller())
        return waits

    async def finish_all(self, tally: Tally, last: asyncio.Future[int]) -> None:
        """Claims and finishes many jobs at once, with no worker around it, until as many have ended as `last` says once
        it is known.

        A peer that can do so only by its worker has that do it, and says with `lacks` that it is no `claim_finish`.
        """
        async with self.working(tally):
            await tally.reach(await last)

    def working(self, tally: Tally) -> AbstractAsyncContextManager[None]:
        """The peer's own worker runs meanwhile, as it does in production, with a handler that calls `began` and does
        nothing. What ends is added to the tally; when it has stopped, all of that is durable."""
        raise NotImplementedError

    async def check(self, submitted: int, finished: int) -> None:
        """Raises Wrong unless exactly so many jobs are there and so many of them have ended as they should."""
