"""Procrastinate with a pool of its own for producers and worker, whose connections commit each statement by itself:
fewer round trips than by its defaults. A job there has no price, no key and no account."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Final

import procrastinate
from procrastinate.manager import JobManager
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from .peer import NOT_ASKED, ONLY_BY_WORKER, Knob, Peer, Tally, Wrong
from .workload import payload

QUEUE: Final = "images"
POOL: Final = 20
BULK: Final = 1_000
POLL_S: Final = 0.05


class _CountingManager(JobManager):
    """Sees when the end of a job was committed."""

    tally: Tally

    async def finish_job(self, *arguments: Any, **named: Any) -> None:
        await super().finish_job(*arguments, **named)
        self.tally.add(1)


class ProcrastinateSide(Peer):
    name = "Procrastinate"
    package = "procrastinate"
    does = "a row, an event line for each change"
    lacks: ClassVar = {"claim_finish": ONLY_BY_WORKER, "work_apart_1": NOT_ASKED, "work_apart_2": NOT_ASKED}
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
        self._manager = self._app.job_manager = _CountingManager(self._app.connector)

        @self._app.task(name="upscale", queue=QUEUE)
        async def upscale(image: str, scale: int) -> None:
            self.began()

        self._task = upscale
        await self._app.open_async(self._pool)

    async def close(self) -> None:
        await self._app.close_async()
        await self._pool.close()

    async def submit(self, number: int) -> None:
        await self._task.defer_async(**payload(number))

    async def submit_many(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), BULK):
            await self._task.batch_defer_async(*(payload(number) for number in numbers[start : start + BULK]))

    @asynccontextmanager
    async def working(self, tally: Tally) -> AsyncIterator[None]:
        self._manager.tally = tally
        async with asyncio.TaskGroup() as tasks:
            worker = tasks.create_task(
                self._app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=self.setting,
                    fetch_job_polling_interval=POLL_S,
                    install_signal_handlers=False,
                )
            )
            try:
                yield
            finally:
                # It lets what it runs come to its end.
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
