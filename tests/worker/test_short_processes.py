"""Bursts and other workers that live for a moment: they recover and promote what is due, whoever else runs or leads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, JobContext, Lease
from ficha.core.commands import Elect
from ficha.engine.sweeper import DUTY
from tests.support.shop import World, balance
from tests.worker.in_process import ended
from tests.worker.worker_processes import WorkerProcesses

USUAL = {"sweep_by_itself": True, "sweep_s": 1.0}


async def led_by_another(app: Ficha) -> None:
    """Somebody else has the duty to sweep, and does nothing about it."""
    leader = (await app.engine.call(Elect(DUTY, "somebody else", 0))).owner
    await app.engine.call(Elect(DUTY, leader, 0))
    assert (await app.engine.call(Elect(DUTY, "somebody else", 600_000))).leads


@pytest.mark.req("A9", "D8")
@pytest.mark.parametrize("options", [{"burst": True}, {"max_seconds": 3_600}], ids=["burst", "time budget"])
async def test_a_worker_that_lives_for_a_moment_sweeps_before_it_first_looks(
    world: World, options: dict[str, object]
) -> None:
    first = await world.open(**USUAL)
    await first.open_account("ana", plan="open", credits=100)
    receipt = await first.submit("upscale", {"image": "x"}, account="ana")
    (lost,) = await first.claim("gpu", worker="lost")
    await led_by_another(first)
    world.clock.advance(60)
    async with asyncio.timeout(20):
        app = await world.open(**USUAL)
        worker = app.worker(name="heir")
        working = asyncio.create_task(worker.run(**options))
        job = await ended(app, receipt.job_id)
        worker.stop(20)
        assert await working == 1
    assert (job.status, job.recoveries) == ("completed", 1)
    assert lost.epoch == 1


@pytest.mark.req("A9", "D8")
async def test_a_burst_sweeps_again_before_it_ends(world: World) -> None:
    app = await world.open(**USUAL)
    await app.open_account("ana", plan="open", credits=100)
    await led_by_another(app)

    @app.tool(name="takes a minute")
    async def takes_a_minute(job: JobContext) -> None:
        world.clock.advance(60)

    late = await app.submit("upscale", {"image": "x"}, account="ana", delay_s=60)
    await app.submit("takes a minute", account="ana")
    async with asyncio.timeout(20):
        assert await app.run_worker(burst=True) == 2
    assert (await app.job(late.job_id)).status == "completed"


@pytest.mark.req("D8")
@pytest.mark.parametrize(("backoff_s", "runs"), [(60.0, 1), (0.05, 3)])
async def test_a_burst_waits_for_retries_that_fall_due_within_a_time(url: str, backoff_s: float, runs: int) -> None:
    app = Ficha(url)
    tries: list[str] = []

    @app.tool(cost=5, attempts=3, backoff=backoff_s)
    async def flaky(job: JobContext) -> str:
        tries.append(job.id)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("flaky", account="ana")
        assert await app.run_worker(burst=True, due_within_s=10) == runs == len(tries)
        assert (await app.job(receipt.job_id)).status == ("completed" if runs == 3 else "queued")
        assert await balance(app) == 95


async def test_a_burst_runs_what_became_ready_while_it_looked_for_the_last_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    late = await app.submit("upscale", {"image": "x"}, account="ana", delay_s=60)
    worker, looks = app.worker(), 0
    claim = worker._operations.claim

    async def looked(*args: Any, **options: Any) -> list[Lease]:
        nonlocal looks
        leases = await claim(*args, **options)
        looks += 1
        if looks == 2:
            # As if the sweeper had promoted it while the answer was on its way.
            world.clock.advance(60)
            await app.sweep()
        return leases

    monkeypatch.setattr(worker._operations, "claim", looked)
    async with asyncio.timeout(20):
        assert await worker.run(burst=True) == 1
    assert (await app.job(late.job_id)).status == "completed"


async def test_a_burst_does_not_wait_for_what_falls_due_later_or_in_other_pools(world: World) -> None:
    app = await world.open(**USUAL)
    await app.open_account("ana", plan="open", credits=100)
    await app.submit("upscale", {"image": "x"}, account="ana", delay_s=60)
    await app.submit("embed", {"text": "x"}, account="ana", delay_s=20)
    async with asyncio.timeout(25):
        assert await app.run_worker(["gpu"], burst=True, due_within_s=30) == 0


async def test_a_retry_is_run_when_it_is_due_and_not_with_the_next_sweep(url: str) -> None:
    """Sweeps are an hour apart, so nothing but its own time brings the retry back."""
    app = Ficha(url, sweep_s=3_600)
    tries: list[str] = []
    is_done = asyncio.Event()

    @app.tool(attempts=3, backoff=0.2)
    async def flaky(job: JobContext) -> None:
        tries.append(job.id)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        is_done.set()

    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        worker = asyncio.create_task(app.run_worker())
        await app.submit("flaky", account="ana")
        await is_done.wait()
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_the_command_waits_for_retries_too(sqlite_workers: WorkerProcesses, tmp_path: Path) -> None:
    async with sqlite_workers.opened_app() as app:
        receipt = await app.submit("fails_once", account="ana")
        burst = sqlite_workers.start("--burst", "--due-within", "20")
        assert await burst.end() == 0
        assert (await app.job(receipt.job_id)).status == "completed"
