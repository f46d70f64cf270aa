"""What a queue must offer to be measured.

A new peer is one class with these methods, a line in `__main__.py`, and a colour in `charts.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from .workload import Numbers

SUBMITS_ONE_BY_ONE: Final = "it has no way to submit many jobs at once"
ONLY_BY_WORKER: Final = "jobs are claimed and finished by its own worker alone"


class Wrong(Exception):
    """The peer did not do what was measured, so its figure means nothing."""


@dataclass
class Tally:
    """Jobs that ended, and when the last of them was durable."""

    count: int = 0
    last_at: float = 0.0

    def add(self, count: int) -> None:
        self.count += count
        self.last_at = time.perf_counter()


class Ends:
    """Knows how many jobs were submitted and how many have ended, in whichever thread, and when all have."""

    def __init__(self) -> None:
        self.submitted = self.ended = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._all: asyncio.Event | None = None

    def submit(self, count: int = 1) -> None:
        with self._lock:
            self.submitted += count

    def end(self) -> None:
        with self._lock:
            self.ended += 1
            if self._all and self.ended == self.submitted:
                self._loop.call_soon_threadsafe(self._all.set)

    async def all(self) -> None:
        """Waits for the last one; nobody may submit any more."""
        with self._lock:
            self._all = asyncio.Event()
            if self.ended == self.submitted:
                self._all.set()
        await self._all.wait()


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
    """

    name: str
    package: str
    does: str
    lacks: ClassVar[Mapping[str, str]] = {}
    share: float = 1.0
    knob: Knob | None = None
    setting: int = 0

    async def install(self, url: str) -> None:
        """Makes the schema, once for each kind of database: measurements get a copy of what is there then."""

    async def open(self, url: str) -> None:
        """Makes whatever must exist before the first job."""

    async def close(self) -> None:
        """Ends everything that `open` began."""

    async def submit(self, number: int) -> None:
        """One job, in one call."""

    async def submit_many(self, numbers: Sequence[int]) -> None:
        """Many jobs, in whatever way is the peer's fastest."""

    async def call(self, callers: int, seconds: float, numbers: Numbers) -> list[float]:
        """Callers who each submit one job after the other until the time is up; how long each call took."""
        waits: list[float] = []
        ends_at = time.perf_counter() + seconds

        async def caller() -> None:
            while (asked_at := time.perf_counter()) < ends_at:
                await self.submit(numbers.next())
                waits.append(time.perf_counter() - asked_at)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(callers):
                tasks.create_task(caller())
        return waits

    async def finish_all(self, tally: Tally, last: asyncio.Event) -> None:
        """Claims and finishes jobs in batches, with no worker around it, until `last` is set and none waits.

        A peer that can do so only by its worker runs that here, and says with `lacks` that it is no `claim_finish`.
        `work` is then the same.
        """

    async def work(self, tally: Tally) -> None:
        """The peer's own worker runs a handler that does nothing, until no job waits."""
        last = asyncio.Event()
        last.set()
        await self.finish_all(tally, last)

    async def check(self, submitted: int, finished: int) -> None:
        """Raises Wrong unless exactly so many jobs are there and so many of them have ended as they should."""
