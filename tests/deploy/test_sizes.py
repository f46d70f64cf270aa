"""Five worker processes of 20: 100 jobs at once, within the connections and the memory that they may take."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import sizes
from ficha import Ficha, Plan
from tests.support.processes import ForkedProcess
from tests.support.waiting import until

SERVERS = 1
"""A server process has as many connections as a worker, and belongs to the same pool."""


@contextmanager
def five_workers(url: str) -> Iterator[list[ForkedProcess]]:
    words = ["worker", "--app", "benchmarks.sizes_application:app", "--database", url, "--log-level", "warning"]
    running = [
        ForkedProcess(
            "ficha.cli",
            [*words, "--concurrency", str(sizes.CONCURRENCY), "--name", f"w{number}"],
            env={**os.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(sizes.PROCESSES)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.terminate()
        for process in running:
            assert process.wait(60) == 0


@pytest.mark.req("E9")
async def test_five_workers_of_twenty_run_a_hundred_jobs_at_once(migrated_url: str, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    app = Ficha(migrated_url, plans=[Plan("open")])

    @app.tool(timeout=600)
    async def hold(job: object, until: str) -> None: ...

    async with app, sizes.measuring(migrated_url) as seen:
        await app.open_account("ana", plan="open")
        with five_workers(migrated_url) as running:
            batch = await app.submit_batch([("hold", {"until": str(gate)})] * sizes.AT_ONCE, account="ana")

            async def all_run() -> bool:
                return await seen.look() == sizes.AT_ONCE == (await app.batch(batch.batch_id)).by_status.get("running")

            await until(all_run, what="100 jobs run at once")
            # As many connections as any process may have, theirs and this one's: all within the pool of 50.
            assert 0 < seen.most_connections <= sizes.DATABASE_POOL
            assert (sizes.PROCESSES + SERVERS) * CONNECTIONS <= sizes.DATABASE_POOL
            memory = [sizes.peak_mib(process.pid) for process in running]
            assert max(memory) < sizes.MEMORY_MIB
            gate.touch()

            async def all_done() -> bool:
                return (await app.batch(batch.batch_id)).by_status == {"completed": sizes.AT_ONCE}

            await until(all_done)
        assert {one.claimed for one in (await app.workers()).items} == {sizes.CONCURRENCY}
        assert await app.verify() == []


def _connections() -> int:
    """What a process has at most: those that write, those that read, and the one that listens."""
    from ficha.store.postgres import PostgresStore

    store = PostgresStore("postgresql://db/shop")
    return store.committers + store._pool_size + 1


CONNECTIONS = _connections()


@pytest.mark.long
@pytest.mark.timeout(240)
@pytest.mark.req("E9")
async def test_the_benchmark_of_sizes_measures_both_ways() -> None:
    found = await sizes.both(seconds=2.0)
    assert list(found) == ["directly", "through PgBouncer"]
    for one in found.values():
        assert 0 < one.connections <= sizes.DATABASE_POOL + sizes.PROCESSES + SERVERS
        assert 0 < max(one.memory_mib) < sizes.MEMORY_MIB
        assert one.jobs_per_s > 0
        assert 0 < one.wait_s[0] <= one.wait_s[1]
    assert all(how in sizes.table(found) for how in found)
