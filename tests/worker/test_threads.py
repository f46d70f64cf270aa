"""Threads of plain handlers: kept from call to call, limited by their tool, and left behind when they hang."""

import asyncio
import threading
from typing import Any

import pytest

from ficha import Ficha, ThreadJobContext
from tests.support.waiting import until
from tests.worker.in_process import app_on, ended


async def submit(app: Ficha, tool: str, count: int, **payload: Any) -> list[str]:
    await app.open_account("ana", credits=1_000)
    return [(await app.submit(tool, payload, account="ana")).job_id for _ in range(count)]


async def burst(app: Ficha, **options: Any) -> int:
    async with asyncio.timeout(30):
        return await app.run_worker(burst=True, **options)


async def test_a_thread_is_kept_for_the_next_job_with_all_that_it_has() -> None:
    app = app_on()
    mine = threading.local()

    @app.tool()
    def draw(job: ThreadJobContext) -> int:
        mine.calls = getattr(mine, "calls", 0) + 1
        return mine.calls

    async with app:
        jobs = await submit(app, "draw", 4)
        assert await burst(app, concurrency=1) == 4
        assert [(await app.job(job_id)).result for job_id in jobs] == [1, 2, 3, 4]


async def test_jobs_at_the_same_time_have_a_thread_each() -> None:
    app = app_on()
    all_are_there = threading.Barrier(3)

    @app.tool()
    def draw(job: ThreadJobContext) -> int:
        all_are_there.wait(20)
        return threading.get_ident()

    async with app:
        jobs = await submit(app, "draw", 6)
        assert await burst(app, concurrency=3) == 6
        results = [(await app.job(job_id)).result for job_id in jobs]
        assert len(set(results)) == 3, "the second three found the threads of the first"


async def test_the_threads_of_a_worker_end_with_it() -> None:
    app = app_on()

    @app.tool(name="draw-and-end")
    def draw(job: ThreadJobContext) -> None: ...

    async with app:
        await submit(app, "draw-and-end", 1)
        assert await burst(app) == 1
    await until(lambda: not [thread for thread in threading.enumerate() if thread.name == "ficha draw-and-end"])


@pytest.mark.parametrize("jobs_per_call", [None, 2])
async def test_a_thread_that_hangs_is_left_behind_and_replaced(url: str, jobs_per_call: int | None) -> None:
    app = app_on(url)
    may_end, has_ended = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def work(hangs: bool) -> None:
        threads.append(threading.current_thread())
        if hangs:
            may_end.wait(30)
            has_ended.set()

    def draw(job: ThreadJobContext, hangs: bool) -> str:
        work(hangs)
        return "drawn"

    def draw_all(jobs: list[ThreadJobContext]) -> list[str]:
        work(jobs[0].payload["hangs"])
        return ["drawn" for _ in jobs]

    handler = draw if jobs_per_call is None else draw_all
    app.tool(name="draw", timeout=0.5, stop_grace=0.01, jobs_per_call=jobs_per_call)(handler)
    async with app, asyncio.timeout(30):
        count = jobs_per_call or 1
        worker = app.worker(concurrency=count)
        running = asyncio.create_task(worker.run())
        for job_id in await submit(app, "draw", count, hangs=True):
            assert (await ended(app, job_id)).error == "timed out after 0.5 s"
        for _ in range(2):
            jobs = [(await app.submit("draw", {"hangs": False}, account="ana")).job_id for _ in range(count)]
            assert [(await ended(app, job_id)).result for job_id in jobs] == ["drawn"] * count
            may_end.set()
            assert await asyncio.to_thread(has_ended.wait, 20)
        assert threads[0] is not threads[1]
        assert len(set(threads)) == 2, "the first is not used again, though it has ended"
        await until(lambda: not threads[0].is_alive())
        worker.stop(5)
        await running
