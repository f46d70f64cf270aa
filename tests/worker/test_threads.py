"""Threads of plain handlers: kept from call to call, limited by their tool, and left behind when they hang."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ficha import Ficha, JobContext, Pool, ThreadJobContext
from tests.support.waiting import until
from tests.worker.in_process import app_on, ended


async def submit(app: Ficha, tool: str, count: int, **payload: Any) -> list[str]:
    await app.open_account("ana", credits=1_000)
    return [(await app.submit(tool, payload, account="ana")).job_id for _ in range(count)]


async def burst(app: Ficha, **options: Any) -> int:
    async with asyncio.timeout(30):
        return await app.run_worker(burst=True, **options)


@contextlib.asynccontextmanager
async def working(app: Ficha, **options: Any) -> AsyncIterator[None]:
    worker = app.worker(**options)
    running = asyncio.create_task(worker.run())
    yield
    worker.stop(5)
    await running


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


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("max_calls", [None, 1])
@pytest.mark.parametrize("jobs_per_call", [None, 2])
async def test_a_thread_that_hangs_is_left_behind_and_replaced(
    url: str, jobs_per_call: int | None, max_calls: int | None
) -> None:
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
    options: dict[str, Any] = {"jobs_per_call": jobs_per_call, "max_calls": max_calls}
    if jobs_per_call is not None:
        options["linger_ms"] = 5_000  # Both jobs share a call, however far apart they are submitted.
    app.tool(name="draw", timeout=0.5, stop_grace=0.01, **options)(handler)
    async with app, asyncio.timeout(30):
        count = jobs_per_call or 1
        async with working(app, concurrency=count):
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


async def test_a_coroutine_that_does_not_stop_gives_its_turn_to_the_next() -> None:
    app = app_on()
    may_end = asyncio.Event()

    @app.tool(timeout=0.5, stop_grace=0.01, max_calls=1)
    async def draw(job: JobContext, hangs: bool) -> str:
        while hangs and not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()
        return "drawn"

    async with app, asyncio.timeout(30), working(app, concurrency=2):
        (first,) = await submit(app, "draw", 1, hangs=True)
        assert (await ended(app, first)).error == "timed out after 0.5 s"
        second = (await app.submit("draw", {"hangs": False}, account="ana")).job_id
        assert (await ended(app, second)).result == "drawn"
        may_end.set()


class UnderWay:
    """Counts calls at the same time. The first ones wait until there are as many as there may be, and then each waits a
    moment for one more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._now = 0
        self.highest = 0
        self._is_full = threading.Event()
        self._is_exceeded = threading.Event()

    def begin(self) -> None:
        with self._lock:
            self._now += 1
            self.highest = max(self.highest, self._now)
            if self._now >= self._most:
                self._is_full.set()
            if self._now > self._most:
                self._is_exceeded.set()

    def wait(self) -> None:
        assert self._is_full.wait(20)
        self._is_exceeded.wait(0.02)

    def end(self) -> None:
        with self._lock:
            self._now -= 1


@pytest.mark.parametrize("max_calls", [1, 2])
async def test_no_more_calls_are_under_way_than_max_calls(max_calls: int) -> None:
    app = app_on()
    coroutines, threads, groups = UnderWay(max_calls), UnderWay(max_calls), UnderWay(max_calls)

    @app.tool(max_calls=max_calls)
    async def coroutine(job: JobContext) -> None:
        coroutines.begin()
        await asyncio.to_thread(coroutines.wait)
        coroutines.end()

    @app.tool(max_calls=max_calls)
    def plain(job: ThreadJobContext) -> None:
        threads.begin()
        threads.wait()
        threads.end()

    @app.tool(max_calls=max_calls, jobs_per_call=2)
    def group(jobs: list[ThreadJobContext]) -> list[None]:
        groups.begin()
        groups.wait()
        groups.end()
        return [None for _ in jobs]

    async with app:
        await app.open_account("ana")
        jobs = [(await app.submit(tool, account="ana")).job_id for tool in app.tools for _ in range(6)]
        assert await burst(app, concurrency=20) == 18
        assert {(await app.job(job_id)).status for job_id in jobs} == {"completed"}
    assert (coroutines.highest, threads.highest, groups.highest) == (max_calls,) * 3


async def test_while_a_call_is_under_way_the_next_is_claimed_and_the_last_ones_results_are_written(url: str) -> None:
    """A device that is busy with one call after the other never waits for the database."""
    app = app_on(url)
    calls: list[list[str]] = []
    may_end = [threading.Event() for _ in range(3)]

    @app.tool(jobs_per_call=4, max_calls=1, linger_ms=5_000)
    def draw(jobs: list[ThreadJobContext]) -> list[str]:
        number = len(calls)
        calls.append([job.id for job in jobs])
        assert may_end[number].wait(20)
        return ["drawn" for _ in jobs]

    async def all_are(status: str, jobs: list[str]) -> bool:
        return all([(await app.job(job_id)).status == status for job_id in jobs])

    async with app, asyncio.timeout(30), working(app, concurrency=8):
        jobs = await submit(app, "draw", 12)
        await until(lambda: all_are("running", jobs[:8]), what="the second four are claimed beside the first call")
        assert calls == [jobs[:4]]
        assert await all_are("queued", jobs[8:])
        may_end[0].set()
        await until(lambda: all_are("completed", jobs[:4]), what="results are written beside the second call")
        await until(lambda: all_are("running", jobs[4:]), what="and the third four are claimed")
        assert calls == [jobs[:4], jobs[4:8]]
        for event in may_end:
            event.set()
        await until(lambda: all_are("completed", jobs))


async def test_a_call_that_is_not_full_collects_jobs_until_it_can_begin() -> None:
    app = app_on()
    calls: list[int] = []
    may_end = threading.Event()

    @app.tool(jobs_per_call=4, max_calls=1, linger_ms=0)
    def draw(jobs: list[ThreadJobContext]) -> list[None]:
        calls.append(len(jobs))
        assert may_end.wait(20)
        return [None for _ in jobs]

    async with app, asyncio.timeout(30), working(app, concurrency=8):
        jobs = await submit(app, "draw", 1)
        await until(lambda: calls == [1])
        for _ in range(3):
            jobs.append((await app.submit("draw", account="ana")).job_id)
            await until(lambda: is_running(app, jobs[-1]))
        may_end.set()
        for job_id in jobs:
            await ended(app, job_id)
    assert calls == [1, 3]


async def is_running(app: Ficha, job_id: str) -> bool:
    return (await app.job(job_id)).status == "running"


@pytest.mark.parametrize("kind", ["plain", "coroutine", "group"])
async def test_a_job_that_is_cancelled_while_it_waits_for_its_turn_never_begins(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ficha.worker")
    app = app_on()
    begun: list[str] = []
    may_end = threading.Event()

    @app.tool(max_calls=1)
    def plain(job: ThreadJobContext) -> None:
        begun.append(job.id)
        assert may_end.wait(20)

    @app.tool(max_calls=1)
    async def coroutine(job: JobContext) -> None:
        begun.append(job.id)
        await asyncio.to_thread(may_end.wait, 20)

    @app.tool(max_calls=1, jobs_per_call=2, linger_ms=0)
    def group(jobs: list[ThreadJobContext]) -> list[None]:
        begun.extend(job.id for job in jobs)
        assert may_end.wait(20)
        return [None for _ in jobs]

    async with app, asyncio.timeout(30), working(app, concurrency=10):
        count = 2 if kind == "group" else 1
        first = await submit(app, kind, count)
        await until(lambda: begun)
        waiting = [(await app.submit(kind, account="ana")).job_id for _ in range(2 * count)]
        await until(lambda: is_running(app, waiting[-1]))
        await app.cancel(waiting[0])
        await until(lambda: [line for line in caplog.records if line.message == "lost" and line.job == waiting[0]])  # type: ignore[attr-defined]
        may_end.set()
        for job_id in (*first, *waiting):
            await ended(app, job_id)
    assert waiting[0] not in begun
    assert sorted(begun) == sorted([*first, *waiting[1:]])


def test_a_worker_holds_enough_jobs_for_the_calls_under_way_and_the_next() -> None:
    app = app_on(pools=[Pool("gpu"), Pool("large")])
    assert app.worker().concurrency == 10
    app.tool(name="small", pool="gpu", jobs_per_call=4)(takes_several)
    assert app.worker().concurrency == 10
    app.tool(name="medium", pool="gpu", jobs_per_call=16, max_calls=2)(takes_several)
    app.tool(name="large", pool="large", jobs_per_call=600)(takes_several)
    assert app.worker(["default"]).concurrency == 10
    assert app.worker(["gpu"]).concurrency == 3 * 16
    assert app.worker().concurrency == app.limits.claim_jobs == 1_000
    assert app.worker(concurrency=7).concurrency == 7


def takes_several(jobs: list[ThreadJobContext]) -> list[None]:
    return [None for _ in jobs]
