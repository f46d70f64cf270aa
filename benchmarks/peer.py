"""What a queue must offer to be measured. A new peer is one class with these methods, and a line in `__main__.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


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


class Peer(Protocol):
    """One queue on a fresh database. Jobs are known by their number; what is done to them is durable on return.

    name: what the report calls it.
    does: what a job's life includes there, in a few words.
    """

    name: str
    does: str

    async def open(self, url: str) -> None:
        """Makes the schema and whatever must exist before the first job."""

    async def close(self) -> None:
        """Ends everything that `open` began."""

    async def submit(self, number: int) -> None:
        """One job, in one call."""

    async def submit_many(self, numbers: Sequence[int]) -> None:
        """Many jobs, in whatever way is the peer's fastest."""

    async def finish_all(self, tally: Tally, last: asyncio.Event) -> None:
        """Claims and finishes jobs in batches, with no worker around it, until `last` is set and none waits."""

    async def work(self, tally: Tally) -> None:
        """The peer's own worker runs a handler that does nothing, until no job waits."""

    async def check(self, submitted: int, finished: int) -> None:
        """Raises Wrong unless exactly so many jobs are there and so many of them have ended as they should."""
