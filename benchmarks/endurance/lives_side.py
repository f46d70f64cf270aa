"""A process in which paid jobs live: as fast as they can, or in bulk by the million."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
import time
from itertools import count
from typing import Any, Final

import uvloop

from ficha import Ficha

from ..ficha_side import POOL
from ..processes import serve
from ..workload import RESULT, payload
from .application import application, none_refused, owner, request
from .idle_side import resident_mb

CALLERS: Final = 256
LOOPS: Final = 4
CLAIM_LIMIT: Final = 200
MOST_OPEN: Final = 1_000
"""Jobs that this process has submitted and not yet finished: further callers wait, so that the queue does not grow."""
PAUSE_S: Final = 0.002


class Lives:
    def __init__(self, app: Ficha, accounts: int) -> None:
        self._app = app
        self._accounts = accounts
        self._numbers = count()
        self._submitted = self._claimed = self._finished = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False

    async def bulk(self, jobs: int) -> float:
        """Runs this many whole lives, up to 1,000 at a time; the memory that the process then holds."""
        for begun in range(0, jobs, at_once := min(jobs, 1_000)):
            wanted = [self._account() for _ in range(begun, begun + at_once)]
            none_refused(await self._app.submit_many(request(account, self._key()) for account in wanted))
            while leases := await self._app.claim(POOL, limit=CLAIM_LIMIT, worker="worker"):
                none_refused(await self._app.finish_many((lease, RESULT) for lease in leases))
        gc.collect()
        return resident_mb()

    async def start(self, finishing: bool) -> None:
        """Begins to submit and, if wanted, to claim and finish; it goes on until `stop`."""
        self._is_over = False
        self._tasks = [asyncio.create_task(self._call(finishing)) for _ in range(CALLERS)]
        if finishing:
            self._tasks += [asyncio.create_task(self._finish(f"{os.getpid()}-{number}")) for number in range(LOOPS)]

    async def counts(self) -> dict[str, Any]:
        for task in self._tasks:
            if task.done():
                task.result()
        return {
            "at": time.monotonic(),
            "cpu_s": time.process_time(),
            "submitted": self._submitted,
            "finished": self._finished,
        }

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _call(self, finishing: bool) -> None:
        while not self._is_over:
            if finishing and self._submitted - self._finished >= MOST_OPEN:
                await asyncio.sleep(PAUSE_S)
                continue
            self._submitted += 1
            await self._app.submit("upscale", payload(0), account=self._account(), idempotency_key=self._key())

    async def _finish(self, worker: str) -> None:
        """Claims as many as this process has submitted, whoever's they are, so that no process starves another."""
        while (open_jobs := self._submitted - self._claimed) or not self._is_over:
            limit = min(CLAIM_LIMIT, open_jobs)
            self._claimed += limit
            leases = await self._app.claim(POOL, limit=limit, worker=worker) if limit else []
            self._claimed -= limit - len(leases)
            if not leases:
                await asyncio.sleep(PAUSE_S)
                continue
            none_refused(await self._app.finish_many((lease, RESULT) for lease in leases))
            self._finished += len(leases)

    def _account(self) -> str:
        return owner(random.randrange(self._accounts), self._accounts)

    def _key(self) -> str:
        return f"{os.getpid()}-{next(self._numbers)}"


async def main(url: str, accounts: int) -> None:
    async with application(url) as app:
        lives = Lives(app, accounts)
        await serve(bulk=lives.bulk, start=lives.start, counts=lives.counts, stop=lives.stop)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], int(sys.argv[2])))
