"""A worker group: worker processes of one peer on one database, as in production, begun and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from . import loops
from .peer import Peer, Wrong
from .processes import Child, child

LOOK_S: Final = 0.02
"""How often a group is asked how far it is."""


@dataclass(frozen=True)
class GroupResult:
    """What a group did together: jobs, when the last of them was durable, and processor time of all its processes."""

    count: int
    last_at: float
    cpu_s: float


class WorkerGroup:
    def __init__(self, workers: list[Child]) -> None:
        self._workers = workers

    async def begin(self, *, tells: bool = False) -> None:
        await self._ask("begin", tells=tells)

    async def started_at(self) -> float:
        """When the next handler started, if there is one worker and it tells."""
        (worker,) = self._workers
        return float(await worker.hear("work"))

    async def end(self) -> GroupResult:
        found = await self._ask("end")
        return GroupResult(
            sum(one["count"] for one in found),
            max(one["last_at"] for one in found),
            sum(one["cpu_s"] for one in found),
        )

    async def empty(self, jobs: int) -> GroupResult:
        """Works until so many jobs have ended."""
        await self.begin()
        await self.reach(jobs)
        result = await self.end()
        if result.count != jobs:
            raise Wrong(f"{result.count} jobs ended instead of {jobs}")
        return result

    async def reach(self, jobs: int) -> None:
        """Waits until so many jobs have ended."""
        while sum(await self._ask("so_far")) < jobs:  # noqa: ASYNC110 (they are in other processes)
            await asyncio.sleep(LOOK_S)

    async def _ask(self, command: str, **arguments: Any) -> list[Any]:
        return await asyncio.gather(*(worker.ask(command, **arguments) for worker in self._workers))


@asynccontextmanager
async def worker_group(peer: Peer, url: str, workers: int) -> AsyncIterator[WorkerGroup]:
    """So many processes that are connected and do nothing yet, with the event loop that this process has."""
    kind = type(peer)
    arguments = (loops.current(), kind.__module__, kind.__qualname__, url, str(peer.setting))
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(child(f"{__package__}.worker_side", *arguments)) for _ in range(workers)
        ]
        found = WorkerGroup(children)
        # An answer to anything says that it is connected.
        await asyncio.gather(*(one.ask("so_far") for one in children))
        yield found
