"""PgQueuer, set up as its guide to performance says: a pool for producers, a connection of its own for the consumer,
its settings for autovacuum, durable tables. A job there has no price, no key and no account."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import asyncpg
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries
from pgqueuer.types import QueueEntrypoint, QueueManagerId

from .peer import Knob, Peer, Tally, Wrong
from .workload import payload

ENTRYPOINT: Final = "upscale"
POOL_MIN: Final = 5
POOL_MAX: Final = 20
BULK: Final = 5_000
LOOPS: Final = 8
MOST_CLAIMS: Final = 1_000_000
IDLE_S: Final = 0.005
HEARTBEAT: Final = timedelta(seconds=30)


class _CountingQueries(Queries):
    """Sees when the end of a job was committed: the consumer itself returns only some time later."""

    tally: Tally

    async def log_jobs(self, job_status: Any) -> None:
        await super().log_jobs(job_status)
        self.tally.add(len(job_status))


class PgQueuerSide(Peer):
    name = "PgQueuer"
    package = "pgqueuer"
    does = "a row while it waits, three log lines"
    knob = Knob("jobs in a batch", (50, 100, 200, 500, 1_000))
    setting = 200

    async def install(self, url: str) -> None:
        await self.open(url)
        await self._queries.install()
        await self._queries.optimize_autovacuum()
        await self.close()

    async def open(self, url: str) -> None:
        logging.getLogger("pgqueuer").setLevel(logging.ERROR)
        self._url = url
        self._pool = await asyncpg.create_pool(url, min_size=POOL_MIN, max_size=POOL_MAX)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))

    async def close(self) -> None:
        await self._pool.close()

    async def submit(self, number: int) -> None:
        await self._queries.enqueue(ENTRYPOINT, _body(number))

    async def submit_many(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), BULK):
            bodies: list[bytes | None] = [_body(number) for number in numbers[start : start + BULK]]
            await self._queries.enqueue([ENTRYPOINT] * len(bodies), bodies, [0] * len(bodies))

    async def finish_all(self, tally: Tally, last: asyncio.Future[int]) -> None:
        async with asyncio.TaskGroup() as loops:
            for _ in range(LOOPS):
                loops.create_task(self._finish(tally, last))

    async def _finish(self, tally: Tally, last: asyncio.Future[int]) -> None:
        wanted = {QueueEntrypoint(ENTRYPOINT): EntrypointExecutionParameter(concurrency_limit=0)}
        worker = QueueManagerId(uuid.uuid4())
        for _ in range(MOST_CLAIMS):
            was_last = last.done()
            jobs = await self._queries.dequeue(self.setting, wanted, worker, None, HEARTBEAT)
            if jobs:
                await self._queries.log_jobs([(job, "successful", None) for job in jobs])
                tally.add(len(jobs))
            elif was_last:
                return
            else:
                await asyncio.sleep(IDLE_S)
        raise Wrong("the queue does not become empty")

    @asynccontextmanager
    async def working(self, tally: Tally) -> AsyncIterator[None]:
        connection = await asyncpg.connect(self._url)
        try:
            queries = _CountingQueries(AsyncpgDriver(connection))
            queries.tally = tally
            manager = QueueManager(queries)

            @manager.entrypoint(ENTRYPOINT)
            async def upscale(job: Job) -> None:
                self.began()

            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(manager.run(batch_size=self.setting))
                try:
                    yield
                finally:
                    manager.shutdown.set()
        finally:
            await connection.close()

    async def check(self, submitted: int, finished: int) -> None:
        waiting = await self._pool.fetchval("SELECT count(*) FROM pgqueuer WHERE status = 'queued'")
        ended = await self._pool.fetchval(
            "SELECT count(DISTINCT job_id) FROM pgqueuer_log WHERE status = 'successful' AND entrypoint = $1",
            ENTRYPOINT,
        )
        if (waiting, ended) != (submitted - finished, finished):
            raise Wrong(f"of {submitted} jobs {finished} were finished, but {waiting} wait and {ended} have ended")


def _body(number: int) -> bytes:
    return json.dumps(payload(number)).encode()
