"""Handlers that take several jobs in one call; and still each job has its own outcome, charge and refund."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from ficha import Ficha, JobContext, Partial
from tests.support.shop import balance, ledger
from tests.support.waiting import until
from tests.worker.in_process import app_on
from tests.worker.worker_processes import WorkerProcesses, ended, submitted


@dataclass(frozen=True)
class Picture:
    number: int


async def filled(app: Ficha, tool: str, numbers: int) -> list[str]:
    await app.open_account("ana", credits=100)
    return [await submitted(app, tool, number=number) for number in range(numbers)]


async def test_a_worker_process_hands_jobs_over_in_groups_and_each_has_its_own_end(workers: WorkerProcesses) -> None:
    async with workers.opened_app() as app:
        tools = ("pictures", "pictures_in_thread")
        jobs = {
            (tool, number): await submitted(app, tool, number=number, fails=number == 20)
            for tool in tools
            for number in range(36)
        }
        worker = workers.start("--concurrency", "80", "--burst")
        found = await ended(app, *jobs.values())
        assert await worker.end() == 0
        for tool in tools:
            groups = [numbers for name, *numbers in workers.deeds("call") if name == tool]
            assert sorted(map(len, groups)) == [4, 16, 16], "two are full, and the rest has waited for more"
            assert sorted(int(number) for group in groups for number in group) == list(range(36))
        for (_, number), job in zip(jobs, found, strict=True):
            if number == 20:
                assert (job.status, job.error, job.refunded) == ("failed", "no 20", 2)
            else:
                assert (job.status, job.result, job.refunded) == ("completed", 10 * number, 0)
        assert [amount for kind, amount, _ in await ledger(app) if kind == "refund"] == [2, 2]
        assert await app.verify() == []


async def test_a_job_that_is_cancelled_in_the_middle_leaves_the_others_of_its_call_alone(url: str) -> None:
    app = app_on(url, lease_s=120, heartbeat_s=40)
    started = asyncio.Event()
    seen: list[dict[int, bool]] = []

    @app.tool(cost=5, jobs_per_call=3, linger_ms=5_000)
    async def draw(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
        for job in jobs:
            await job.step("paid", lambda: "once")
        started.set()
        while not any(job.cancelled for job in jobs):  # noqa: ASYNC110 (as a handler asks)
            await asyncio.sleep(0.005)
        seen.append({picture.number: job.cancelled for picture, job in zip(payloads, jobs, strict=True)})
        return [Partial(picture.number, 1, 5) if picture.number == 2 else picture.number for picture in payloads]

    async with app, asyncio.timeout(30):
        jobs = await filled(app, "draw", 3)
        worker = asyncio.create_task(app.run_worker(burst=True))
        await started.wait()
        await app.cancel(jobs[1])
        assert await worker == 3
        found = [await app.job(job_id) for job_id in jobs]
        assert [(job.status, job.result, job.refunded) for job in found] == [
            ("completed", 0, 0),
            ("cancelled", None, 5),
            ("completed", 2, 4),
        ]
        assert seen == [{0: False, 1: True, 2: False}]
        assert await app.steps(jobs[0]) == {"paid": "once"}
        assert await balance(app) == 100 - 5 - 1
        assert await app.verify() == []


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ([1], "a list with a result for each of its 2 jobs, not 1 results"),
        ([1, 2, 3], "a list with a result for each of its 2 jobs, not 3 results"),
        ({"a": 1, "b": 2}, "a list with a result for each of its 2 jobs, not dict"),
        (None, "a list with a result for each of its 2 jobs, not NoneType"),
    ],
)
async def test_a_call_with_the_wrong_number_of_results_fails_each_of_its_jobs(returned: Any, told: str) -> None:
    app = app_on()

    @app.tool(cost=5, jobs_per_call=2)
    def draw(jobs: list[Any]) -> Any:
        return returned

    async with app:
        await app.open_account("ana", credits=100)
        jobs = [await submitted(app, "draw", anything=number) for number in range(2)]
        assert await app.run_worker(burst=True) == 2
        for job_id in jobs:
            job = await app.job(job_id)
            assert job.status == "failed"
            assert told in job.error
        assert await balance(app) == 100


async def test_a_call_whose_handler_raises_fails_each_of_its_jobs_with_that_error() -> None:
    app = app_on()

    @app.tool(cost=5, jobs_per_call=2)
    async def draw(jobs: list[JobContext]) -> list[Any]:
        raise ValueError("the device is gone")

    async with app:
        await app.open_account("ana", credits=100)
        jobs = [await submitted(app, "draw") for _ in range(2)]
        assert await app.run_worker(burst=True) == 2
        assert [(await app.job(job_id)).error for job_id in jobs] == ["the device is gone"] * 2
        assert await balance(app) == 100


async def test_a_payload_that_no_longer_fits_fails_alone(sqlite_workers: WorkerProcesses) -> None:
    before, now = app_on(sqlite_workers.url), app_on(sqlite_workers.url)
    seen: list[list[int]] = []

    @before.tool(name="draw", cost=5, jobs_per_call=3)
    async def drew(jobs: list[JobContext]) -> list[Any]: ...

    @now.tool(name="draw", cost=5, jobs_per_call=3)
    async def draw(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
        seen.append([picture.number for picture in payloads])
        return ["drawn" for _ in jobs]

    async with before:
        await before.open_account("ana", credits=100)
        jobs = [await submitted(before, "draw", number=number) for number in (1, "two", 3)]
    async with now:
        assert await now.run_worker(burst=True) == 3
        found = [await now.job(job_id) for job_id in jobs]
        assert [job.status for job in found] == ["completed", "failed", "completed"]
        assert "the payload does not fit tool draw: number" in found[1].error
        assert seen == [[1, 3]]
        assert await balance(now) == 90


@pytest.mark.parametrize("size", [1, 3])
async def test_a_call_that_the_worker_must_break_off_goes_back_whole(size: int) -> None:
    app = app_on()
    started = asyncio.Event()

    @app.tool(cost=5, jobs_per_call=3, linger_ms=1)
    async def draw(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with app, asyncio.timeout(20):
        jobs = await filled(app, "draw", size)
        worker = app.worker()
        running = asyncio.create_task(worker.run())
        await started.wait()
        worker.stop(0.0)
        assert await running == size
        for job_id in jobs:
            job = await app.job(job_id)
            assert (job.status, job.error, job.attempts, job.recoveries) == ("queued", None, 0, 0)
        assert await balance(app) == 100 - 5 * size


async def test_a_call_is_timed_out_job_by_job(url: str) -> None:
    app = app_on(url, sweep_by_itself=False, sweep_s=3_600)

    @app.tool(cost=5, jobs_per_call=3, linger_ms=1, timeout=0.3, stop_grace=0.1)
    async def draw(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async with app, asyncio.timeout(20):
        jobs = await filled(app, "draw", 3)
        assert await app.run_worker(burst=True) == 3
        assert [(await app.job(job_id)).error for job_id in jobs] == ["timed out after 0.3 s"] * 3
        assert await balance(app) == 100


async def test_jobs_that_still_linger_when_the_worker_stops_go_back(sqlite_workers: WorkerProcesses) -> None:
    app = app_on(sqlite_workers.url)

    @app.tool(cost=5, jobs_per_call=3, linger_ms=60_000)
    async def draw(jobs: list[JobContext], payloads: list[Picture]) -> list[Any]:
        raise AssertionError

    async with app, asyncio.timeout(20):
        jobs = await filled(app, "draw", 2)
        worker = app.worker()
        running = asyncio.create_task(worker.run())

        async def both_are_held() -> bool:
            return all([(await app.job(job_id)).status == "running" for job_id in jobs])

        await until(both_are_held)
        worker.stop(0.0)
        assert await running == 2
        assert [(await app.job(job_id)).status for job_id in jobs] == ["queued", "queued"]
