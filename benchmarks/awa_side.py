"""awa, set up as its guides say: queue storage, COPY for many jobs, several lanes for a queue with many producers, and
its worker in this process, with the handler in Python. A job there has no price, no key and no account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import asyncpg
import awa

from .peer import NOT_ASKED, ONLY_BY_WORKER, Knob, Peer, Tally, Wrong
from .workload import payload

QUEUE: Final = "images"
PRIORITY: Final = 2
POOL: Final = 20
LANES: Final = 4
"""Producers of one queue wait for each other until the end of their transactions, those of other lanes excepted."""
BULK: Final = 5_000


@dataclass
class Upscale:
    image: str
    scale: int


class AwaSide(Peer):
    name = "awa"
    package = "awa-pg"
    does = "a row, a claim's receipt, an end's receipt; both dropped after some seconds"
    lacks: ClassVar = {
        "claim_finish": ONLY_BY_WORKER,
        **{key: NOT_ASKED for key in ("work_apart_1", "work_apart_2", "latency_apart")},
    }
    knob = Knob("handlers at a time", (50, 200, 500))
    setting = 200

    async def install(self, url: str) -> None:
        client = awa.AsyncClient(_with_host(url))
        await client.migrate()
        await client.install_queue_storage()
        await client.close()
        connection = await asyncpg.connect(url)
        await connection.execute("INSERT INTO awa.queue_meta (queue, enqueue_shards) VALUES ($1, $2)", QUEUE, LANES)
        # A lane is made by the first job on it; when two come at once, one of them fails.
        await connection.execute("INSERT INTO awa.queue_lanes (queue, priority) VALUES ($1, $2)", QUEUE, PRIORITY)
        for heads in ("queue_enqueue_heads", "queue_claim_heads"):
            await connection.execute(
                f"INSERT INTO awa.{heads} (queue, priority, enqueue_shard) SELECT $1, $2, generate_series(0, $3 - 1)",
                QUEUE,
                PRIORITY,
                LANES,
            )
        await connection.close()

    async def open(self, url: str) -> None:
        self._url = url
        self._client = awa.AsyncClient(_with_host(url), max_connections=POOL)

        @self._client.task(Upscale, queue=QUEUE)
        async def upscale(job: Any) -> None:
            self.began()
            self._tally.add(1)

    async def close(self) -> None:
        await self._client.close()

    async def submit(self, number: int) -> None:
        await self._client.insert(Upscale(**payload(number)), queue=QUEUE, priority=PRIORITY)

    async def submit_many(self, numbers: Sequence[int]) -> None:
        for start in range(0, len(numbers), BULK):
            jobs = [Upscale(**payload(number)) for number in numbers[start : start + BULK]]
            await self._client.enqueue_many_copy(jobs, queue=QUEUE, priority=PRIORITY)

    @asynccontextmanager
    async def working(self, tally: Tally) -> AsyncIterator[None]:
        self._tally = tally
        await self._client.start([{"name": QUEUE, "max_workers": self.setting}])
        try:
            yield
        finally:
            # Ends are written in batches, some after the handlers returned; it stops only when they are written.
            await self._client.shutdown()
            tally.add(0)

    async def check(self, submitted: int, finished: int) -> None:
        connection = await asyncpg.connect(self._url)
        try:
            jobs = await connection.fetchval("SELECT count(*) FROM awa.ready_entries")
            kept = await connection.fetchval(
                "SELECT coalesce(sum(completed_count), 0) FROM awa.receipt_completion_batches"
            )
            dropped = await connection.fetchval(
                "SELECT coalesce(sum(pruned_completed_count), 0) FROM awa.queue_terminal_rollups"
            )
        finally:
            await connection.close()
        if (jobs - kept, kept + dropped) != (submitted - finished, finished):
            raise Wrong(
                f"of {submitted} jobs {finished} were finished, but {jobs - kept} wait and {kept + dropped} have ended"
            )


def _with_host(url: str) -> str:
    """Its driver wants a host even where the socket's folder stands in for it."""
    return url.replace("@/", "@localhost/")
