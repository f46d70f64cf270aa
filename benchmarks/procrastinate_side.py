"""Procrastinate with a pool of its own for producers and worker, whose connections commit each statement by itself:
fewer round trips than by its defaults. A job there has no price, no key and no account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import procrastinate
from procrastinate.manager import JobManager
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from .peer import ONLY_BY_WORKER, Ends, Knob, Peer, Tally, Wrong
from .workload import payload

QUEUE: Final = "images"
POOL: Final = 20
BULK: Final = 1_000
POLL_S: Final = 0.05


class _CountingManager(JobManager):
    """Sees when the end of a job was committed."""

    ends: Ends

    async def finish_job(self, *arguments: Any, **named: Any) -> None:
        await super().finish_job(*arguments, **named)
        self.ends.end()


class ProcrastinateSide(Peer):
    name = "Procrastinate"
    package = "procrastinate"
    does = "a row, an event line for each change"
    lacks: ClassVar = {"claim_finish": ONLY_BY_WORKER}
    share = 0.1
    knob = Knob("handlers at a time", (1, 5, 20))
    setting = 5

    async def install(self, url: str) -> None:
        await self.open(url)
        await self._app.schema_manager.apply_schema_async()
        await self.close()

    async def open(self, url: str) -> None:
        logging.getLogger("procrastinate").setLevel(logging.ERROR)
        self._pool = AsyncConnectionPool(url, min_size=POOL, max_size=POOL, open=False, configure=_commit_by_itself)
        await self._pool.open(wait=True)
        self._app = procrastinate.App(connector=procrastinate.PsycopgConnector())
        self._app.job_manager = manager = _CountingManager(self._app.connector)
        self._ends = manager.ends = Ends()

        @self._app.task(name="upscale", queue=QUEUE)
        async def upscale(image: str, scale: int) -> None:
            return None

        self._task = upscale
        await self._app.open_async(self._pool)

    async def close(self) -> None:
        await self._app.close_async()
        await self._pool.close()

    async def submit(self, number: int) -> None:
        await self._task.defer_async(**payload(number))
        self._ends.submit()

    async def submit_many(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), BULK):
            await self._task.batch_defer_async(*(payload(number) for number in numbers[start : start + BULK]))
        self._ends.submit(len(numbers))

    async def finish_all(self, tally: Tally, last: asyncio.Event) -> None:
        before = self._ends.ended
        async with asyncio.TaskGroup() as tasks:
            worker = tasks.create_task(
                self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.setting,
                    fetch_job_polling_interval=POLL_S,
                    install_signal_handlers=False,
                )
            )
            await last.wait()
            await self._ends.all()
            tally.add(self._ends.ended - before)
            worker.cancel()

    async def check(self, submitted: int, finished: int) -> None:
        async with self._pool.connection() as connection:
            found = await connection.execute("SELECT status::text, count(*) FROM procrastinate_jobs GROUP BY status")
            jobs = dict(await found.fetchall())
        waiting, ended = jobs.pop("todo", 0), jobs.pop("succeeded", 0)
        if jobs or (waiting, ended) != (submitted - finished, finished):
            raise Wrong(f"of {submitted} jobs {finished} were finished, but {waiting} wait, {ended} have ended, {jobs}")


async def _commit_by_itself(connection: AsyncConnection[Any]) -> None:
    await connection.set_autocommit(True)
