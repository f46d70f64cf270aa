"""Jobs whose handlers run in child processes, by a worker and on real databases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha
from tests.support.shop import balance, history
from tests.support.waiting import until
from tests.worker import handlers
from tests.worker.child_runs import changed_at, children, exists, stays_still

both = pytest.mark.parametrize("url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True)


@asynccontextmanager
async def process_app(url: str, **options: Any) -> AsyncIterator[Ficha]:
    app = handlers.declare(Ficha(url, sweep_s=0.02), **options)
    async with app:
        await app.open_account("ana", credits=100)
        yield app
        assert await app.verify() == []
    assert children() == []


async def burst(app: Ficha, tool: str, **payload: Any) -> Any:
    """The job that came of one submit, once it has ended."""
    receipt = await app.submit(tool, payload, account="ana")
    async with asyncio.timeout(60):
        while (job := await app.job(receipt.job_id)).finished_at is None:
            await app.run_worker(burst=True)
    return job


@both
async def test_a_third_crash_makes_a_job_poison_and_refunds_it(url: str) -> None:
    async with process_app(url, attempts=10) as app:
        job = await burst(app, "dies", how="segfault")
        assert (job.status, job.is_dead_letter, await balance(app)) == ("failed", True, 100)
        told = [event.data["reason"] for event in await app.events(job=job.id) if event.kind == "recovered"]
        assert told == ["the job's process was ended by signal 11 (SIGSEGV)"] * 2


@both
async def test_a_job_goes_on_after_a_crash_from_where_it_was(url: str, tmp_path: Path) -> None:
    async with process_app(url) as app:
        job = await burst(app, "resumes", store=str(tmp_path / "calls"))
        assert (job.status, job.result) == ("completed", ["paid", {"so": "far"}])
        assert (tmp_path / "calls").read_text() == "1\n"
        assert await balance(app) == 95


@both
@pytest.mark.req("B6")
async def test_a_job_over_its_memory_limit_goes_on_from_where_it_was_and_has_lost_no_attempt(url: str) -> None:
    async with process_app(url, memory_mb=320) as app:
        job = await burst(app, "fills_once", mb=320)
        assert (job.status, job.result, job.attempts, job.recoveries) == ("completed", {"so": "far"}, 0, 1)
        (told,) = [event.data["reason"] for event in await app.events(job=job.id) if event.kind == "recovered"]
        assert told == "the job used more than its memory_mb (320)"
        job = await burst(app, "fills", mb=320)
        assert (job.status, job.attempts, job.recoveries) == ("failed", 0, 3)
        assert await balance(app) == 95


@both
@pytest.mark.parametrize("tool", ["coroutine_steps", "plain_steps"])
async def test_what_a_child_stores_is_in_the_database(url: str, tool: str, tmp_path: Path) -> None:
    async with process_app(url) as app:
        job = await burst(app, tool, store=str(tmp_path / "calls"))
        assert (job.status, job.result) == ("completed", [7, 8, 8, "a", "b", "c"])
        letters = {f"letters[{number}]": None for number in range(3)}
        assert await app.steps(job.id) == {"seven": 7, "eight": 8, **letters}
        (note,) = [event.data for event in await app.events(job=job.id) if event.kind == "log"]
        assert note["text"] == "drawn colour=red"


@both
@pytest.mark.parametrize(("kind", "runs"), [("plain", 2), ("final", 1), ("fatal", 1)])
async def test_an_error_is_retried_unless_it_is_final(url: str, kind: str, runs: int) -> None:
    async with process_app(url, attempts=2, backoff=0.01, fatal=handlers.Spoilt) as app:
        job = await burst(app, "raises", kind=kind)
        assert (job.status, await balance(app)) == ("failed", 100)
        assert (await history(app, job.id)).count("started") == runs


@both
@pytest.mark.parametrize("tool", ["sleeps", "loops", "ignores"])
async def test_a_running_job_that_is_cancelled_really_stops(url: str, tool: str, tmp_path: Path) -> None:
    file = tmp_path / "grows"
    async with process_app(url, stop_grace=0.3) as app:
        worker = asyncio.create_task(app.run_worker())
        receipt = await app.submit(tool, {"file": str(file)}, account="ana")
        await until(file.exists)
        await app.cancel(receipt.job_id)
        await until(lambda: children() == [])
        assert await stays_still(file)
        assert file.with_suffix(".end").exists() is (tool == "loops")
        assert ((await app.job(receipt.job_id)).status, await balance(app)) == ("cancelled", 100)
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


@both
async def test_a_run_over_its_time_is_ended_and_refunded(url: str, tmp_path: Path) -> None:
    file = tmp_path / "grows"
    async with process_app(url, timeout=2.0, stop_grace=0.1) as app:
        # On a busy machine the time may be up before the handler begins, which says little.
        while not exists(file):
            job = await burst(app, "ignores", file=str(file))
            assert (job.status, await balance(app)) == ("failed", 100)
        assert await stays_still(file)


@pytest.mark.long_on("60.0")
@both
@pytest.mark.parametrize("grace_s", [0.2, 60.0])
async def test_a_worker_that_stops_hands_a_job_back_when_its_handler_has_ended(
    url: str, grace_s: float, tmp_path: Path
) -> None:
    file = tmp_path / "grows"
    async with process_app(url, stop_grace=grace_s) as app:
        worker = asyncio.create_task(app.run_worker())
        receipt = await app.submit("ignores", {"file": str(file)}, account="ana")
        await until(file.exists)
        worker.cancel()
        async with asyncio.timeout(40):
            await asyncio.gather(worker, return_exceptions=True)
        assert children() == []
        assert await stays_still(file)
        (returned,) = [event for event in await app.events(job=receipt.job_id) if event.kind == "returned"]
        assert changed_at(file) <= returned.at.timestamp()
