"""Starts: how long after its submit a job's handler starts, if a worker has nothing else to do."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from .peer import Peer, Wrong
from .workload import Numbers

GAP_S: Final = (0.005, 0.015)
"""Between a handler's start and the next submit: its end is written and the worker idle again, and submits keep no
step with anything that happens at intervals."""
MOST_S: Final = 10.0
"""A peer that is slow to start jobs has fewer of them."""
FEWEST: Final = 20
LOST_S: Final = 30.0
"""A handler that has not started by then never will."""

StartedAt = Callable[[], Awaitable[float]]
"""Waits for the next start of a handler and says when it was, by the machine's clock."""


async def waits(peer: Peer, numbers: Numbers, count: int, started_at: StartedAt) -> list[float]:
    """Submits so many jobs, one after the other; from just before each call to its handler's first line, in seconds.
    One in ten comes before those and is not counted."""
    for _ in range(count // 10 + 1):
        await _wait(peer, numbers.next(), started_at)
    found: list[float] = []
    ends_at = time.monotonic() + MOST_S
    while len(found) < count and (len(found) < FEWEST or time.monotonic() < ends_at):
        found.append(await _wait(peer, numbers.next(), started_at))
    return found


async def _wait(peer: Peer, number: int, started_at: StartedAt) -> float:
    asked_at = time.monotonic()
    await peer.submit(number)
    try:
        async with asyncio.timeout(LOST_S):
            at = await started_at()
    except TimeoutError:
        raise Wrong(f"no handler started within {LOST_S:g} s of a submit") from None
    await asyncio.sleep(random.uniform(*GAP_S))
    return at - asked_at


class Heard:
    """Hears the handlers of a worker in this process, in whichever thread they run."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._times: asyncio.Queue[float] = asyncio.Queue()

    def began(self) -> None:
        self._loop.call_soon_threadsafe(self._times.put_nowait, time.monotonic())

    async def started_at(self) -> float:
        return await self._times.get()
