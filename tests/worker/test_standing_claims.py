"""Work that comes from the worker's own process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, JobContext, Overloaded, Pool
from ficha.store.postgres import PostgresStore
from tests.worker.in_process import app_on, ended


async def test_on_postgresql_a_submit_and_the_claim_that_answers_it_are_one_transaction(migrated_url: str) -> None:
    await PostgresStore(migrated_url).migrate()
    app = app_on(migrated_url, pools=[Pool("gpu")])

    @app.tool(cost=5, pool="gpu")
    async def draw(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        worker = asyncio.create_task(app.run_worker(["gpu"], concurrency=3))
        together = 0
        while together < 3:
            await until_idle(app)
            job_id = (await app.submit("draw", account="ana")).job_id
            assert (await ended(app, job_id)).status == "completed"
            events = await app.events(job=job_id)
            assert [event.kind for event in events] == ["submitted", "claimed", "started", "completed"]
            # The first ones find out that the pool has no limit.
            together += len({event.at for event in events[:3]}) == 1
            await app.grant("ana", 5)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert await app.verify() == []


@pytest.mark.parametrize("place", ["memory", "sqlite"])
async def test_with_a_single_writer_a_submit_and_the_claim_that_answers_it_are_one_transaction(
    place: str, tmp_path: Path
) -> None:
    app = app_on("memory:" if place == "memory" else f"sqlite:///{tmp_path}/jobs.db", pools=[Pool("gpu", slots=1)])
    may_end = asyncio.Event()

    @app.tool(cost=5, pool="gpu")
    async def draw(job: JobContext) -> str:
        await may_end.wait()
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        worker = asyncio.create_task(app.run_worker(["gpu"], concurrency=3))
        # A worker renews its claim now and then, and a submit in that moment is answered by the next one.
        while True:
            first = (await ended_after_release(app, may_end)).id
            may_end.clear()
            events = await app.events(job=first)
            assert [event.kind for event in events] == ["submitted", "claimed", "started", "completed"]
            if len({event.at for event in events[:3]}) == 1:
                break
        # The pool has one slot: the second job must wait for the first, though a claim stands there for both.
        jobs = [(await app.submit("draw", account="ana")).job_id for _ in range(2)]
        assert [(await app.job(job_id)).status for job_id in jobs] == ["running", "queued"]
        may_end.set()
        for job_id in jobs:
            assert (await ended(app, job_id)).status == "completed"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert await app.verify() == []


async def ended_after_release(app: Ficha, may_end: asyncio.Event) -> Any:
    """A job that was submitted to an idle worker, once it has ended."""
    await until_idle(app)
    receipt = await app.submit("draw", account="ana")
    may_end.set()
    return await ended(app, receipt.job_id)


async def until_idle(app: Ficha) -> None:
    """Until a worker has found nothing and stands there waiting."""
    committer = app.engine._committers[0]
    while not committer._standing:
        await app.wait_for_work("gpu", 0.005)


async def test_a_claim_that_stands_is_withdrawn_or_answered_but_never_lost() -> None:
    app = app_on()

    @app.tool(pool="gpu")
    async def draw(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana")
        left = app.stand(["gpu"], limit=1, worker="w1")
        assert left.withdraw()
        stays = app.stand(["gpu"], limit=5, worker="w2")
        late = app.stand(["default"], limit=5, worker="w3")
        receipt = await app.acting("boss").submit("draw", account="ana")
        assert not stays.withdraw()
        assert [lease.job_id for lease in await stays.leases()] == [receipt.job_id]
        assert not late.answered.done()
    with pytest.raises(Overloaded):
        await late.leases()
