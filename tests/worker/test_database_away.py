"""The database goes away in the middle: handlers go on, and what they did is written when it is back."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ficha.store.postgres import PostgresStore
from tests.chaos.servers import FragileServer, fragile_server
from tests.support.postgres import Server
from tests.support.waiting import until
from tests.worker import application
from tests.worker.worker_processes import WorkerProcesses, ended, submitted


@pytest.fixture
def fragile(postgres_server: Server) -> Iterator[FragileServer]:
    with fragile_server(like=postgres_server) as server:
        yield server


@pytest.mark.req("B4")
async def test_handlers_outlive_a_database_that_is_away_and_their_results_are_written(
    fragile: FragileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await PostgresStore(fragile.url()).migrate()
    workers = WorkerProcesses(fragile.url(), tmp_path)
    monkeypatch.setenv(application.TRACE, workers.environment[application.TRACE])
    try:
        # A call is refused long before the database is back.
        async with workers.opened_app(lease_s=60.0, give_up_s=0.2) as app:
            worker = workers.start()
            tools = ("waits", "waits_in_thread", "outlives", "outlives_in_thread")
            jobs = [await submitted(app, tool, gate="go") for tool in tools]
            for job_id in jobs:
                await workers.did("began", job_id)
            await asyncio.to_thread(fragile.stop_at_once)
            workers.open("go")
            for job_id in jobs[2:]:
                await workers.did("asks", job_id)
                await workers.did("ran", job_id, 1)
            # All four have been refused once by now: two with their results, two with a step's.
            await until(lambda: {line["job"] for line in worker.lines("unwritten")} == {*jobs})
            assert worker.is_alive
            await asyncio.to_thread(fragile.start_again)
            began_at = time.monotonic()
            found = await ended(app, *jobs)
            assert [(job.error, job.epoch, job.recoveries) for job in found] == [(None, 1, 0)] * 4
            assert [job.result for job in found[:2]] == ["done", "done"]
            assert sorted(workers.deeds("ran")) == sorted([job_id, "1"] for job_id in jobs[2:]), (
                "no call was made twice"
            )
            assert time.monotonic() - began_at < 30
            # And it claims again.
            (after,) = await ended(app, await submitted(app, "quick"))
            assert after.status == "completed"
            assert await app.verify() == []
    finally:
        workers.close()
