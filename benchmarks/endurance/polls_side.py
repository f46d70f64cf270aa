"""The process that thousands of clients ask, each for its own job, every few seconds."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import uvloop

from ficha import Ficha

from ..peer import Wrong
from ..processes import serve
from .application import application
from .findings import percentile

TICK_S = 0.01
PATIENCE_S = 3.0


class Polled:
    def __init__(self, app: Ficha) -> None:
        self._app = app
        self._jobs: list[str] = []

    async def choose(self, clients: int) -> int:
        """Takes so many jobs that wait, one per client."""
        after = None
        while len(self._jobs) < clients:
            limit = min(self._app.limits.page_items, clients - len(self._jobs))
            page = await self._app.jobs(statuses=["queued"], after=after, limit=limit)
            self._jobs += [job.id for job in page.items]
            if page.next is None:
                break
            after = page.next
        return len(self._jobs)

    async def poll(self, way: str, every_s: float, seconds: float) -> dict[str, Any]:
        """Every client asks once per `every_s`, evenly spread; the processor time that this process took for it."""
        ask = {"nothing": self._nothing, "position": self._position, "job": self._job}[way]
        per_s = len(self._jobs) / every_s
        cpu_s, began_at = time.process_time(), time.perf_counter()
        waits: list[float] = []

        async def client(number: int) -> None:
            await ask(self._jobs[number % len(self._jobs)])
            # From when it was due, so that a process that stood still is found out.
            waits.append(time.perf_counter() - began_at - number / per_s)

        under_way: set[asyncio.Task[None]] = set()
        asked = 0
        async with asyncio.TaskGroup() as clients:
            while (now := time.perf_counter() - began_at) < seconds:
                # Who has not been answered yet does not ask again.
                due = min(int(now * per_s), len(waits) + len(self._jobs))
                for number in range(asked, due):
                    under_way.add(task := clients.create_task(client(number)))
                    task.add_done_callback(under_way.discard)
                asked = due
                await asyncio.sleep(TICK_S)
            if under_way:
                _, unanswered = await asyncio.wait(under_way, timeout=PATIENCE_S)
                for task in unanswered:
                    task.cancel()
        took_s = time.perf_counter() - began_at
        return {
            "polls_per_s": len(waits) / took_s,
            "cpu_s": time.process_time() - cpu_s,
            "took_s": took_s,
            "p99_ms": percentile(waits, 0.99) * 1_000,
            "longest_ms": max(waits) * 1_000,
        }

    async def _nothing(self, job_id: str) -> None:
        """What it costs to be thousands of clients."""

    async def _position(self, job_id: str) -> None:
        standing = await self._app.position(job_id)
        if standing is None or standing.position < 1:
            raise Wrong(f"job {job_id} waits, and its position is {standing}")

    async def _job(self, job_id: str) -> None:
        if (await self._app.job(job_id)).position is None:
            raise Wrong(f"job {job_id} waits and has no position")


async def main(url: str) -> None:
    async with application(url) as app:
        polled = Polled(app)
        await serve(choose=polled.choose, poll=polled.poll)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
