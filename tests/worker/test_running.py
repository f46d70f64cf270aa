"""A worker within one process: how it loses a job, how it stops, what it is set by."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ficha import CommitLimits, Ficha, JobContext, Plan, Pool, backoff
from ficha.store.base import CommitUnknown, Unavailable
from ficha.worker import WorkerLoop
from ficha.worker import worker as worker_module
from ficha.worker.run import Run
from tests.support.shop import World, balance
from tests.support.waiting import until
from tests.worker.in_process import app_on, ended, run_one

# Losing a job


async def test_a_cancelled_job_stops_its_handler_and_the_worker_goes_on(url: str) -> None:
    app = app_on(url, heartbeat_s=0.01)
    started, stopped = asyncio.Event(), asyncio.Event()

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @app.tool(cost=5)
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("endless", account="ana")
        worker = asyncio.create_task(app.run_worker())
        await started.wait()
        await app.cancel(receipt.job_id)
        await stopped.wait()
        after = await app.submit("quick", account="ana")
        assert (await ended(app, after.job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
        assert (await app.job(receipt.job_id)).status == "cancelled"
        assert await balance(app) == 95


async def worker_past_its_time(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> "asyncio.Task[int]":
    """A worker whose time is over, and which waits for the jobs that it has begun."""
    waits = asyncio.Event()
    finish_runs = WorkerLoop._finish_runs

    async def finish(worker: WorkerLoop) -> None:
        if not worker._runs.is_idle:
            waits.set()
        await finish_runs(worker)

    monkeypatch.setattr(WorkerLoop, "_finish_runs", finish)
    has_begun = asyncio.create_task(waits.wait())
    while True:
        worker = asyncio.create_task(app.run_worker(max_seconds=0.05))
        await asyncio.wait([worker, has_begun], return_when=asyncio.FIRST_COMPLETED)
        if has_begun.done():
            return worker
        assert await worker == 0, "its time was over before its first claim was answered"


async def test_a_job_cancelled_at_the_end_of_the_workers_time_does_not_cancel_the_worker(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is up and it waits for two jobs; one is taken away, and the other is still let finish."""
    app = app_on(url, heartbeat_s=0.01)
    started: list[str] = []
    both, one_is_gone, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.tool(cost=5)
    async def long(job: JobContext, name: str) -> str:
        started.append(name)
        if len(started) == 2:
            both.set()
        try:
            await may_end.wait()
        except asyncio.CancelledError:
            one_is_gone.set()
            raise
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        gone, stays = [(await app.submit("long", {"name": name}, account="ana")).job_id for name in ("a", "b")]
        worker = await worker_past_its_time(app, monkeypatch)
        await both.wait()
        await app.cancel(gone)
        await one_is_gone.wait()
        may_end.set()
        assert await worker == 2
        assert (await app.job(stays)).status == "completed"


async def test_heartbeats_keep_a_job_that_runs_longer_than_its_lease(world: World) -> None:
    app = await world.open(heartbeat_s=0.005)
    runs: list[int] = []

    @app.tool(name="long", cost=5)
    async def long(job: JobContext) -> str:
        runs.append(1)
        for _ in range(4):
            before = (await app.job(job.id)).last_heartbeat_at
            world.clock.advance(50)
            while (await app.job(job.id)).last_heartbeat_at == before:  # noqa: ASYNC110 (anybody may only look)
                await asyncio.sleep(0.005)
            assert not await app.sweep()
        return "done"

    async with asyncio.timeout(20):
        job = await run_one(app, "long")
    assert (job.status, job.recoveries, runs) == ("completed", 0, [1])
    assert (job.finished_at - job.started_at).total_seconds() == 200


async def test_a_tool_that_the_worker_does_not_know_is_handed_back_for_another(url: str) -> None:
    app = app_on(url)

    @app.tool(cost=5)
    async def newer(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana", credits=100)
        receipt = await app.submit("newer", account="ana")
        worker = WorkerLoop(app, {}, pools=["default"], concurrency=1, name="an older release", heartbeat_s=10)
        assert await worker.run(burst=True) == 1
        job = await app.job(receipt.job_id)
        assert (job.status, job.attempts, job.recoveries, job.waiting_for) == ("queued", 0, 0, "schedule")
        assert (await app.events(job=job.id))[-1].data["error"] == "this worker has no tool newer"
        assert await balance(app) == 95


# When it stops


async def test_a_stopped_worker_hands_its_jobs_back_at_once(url: str) -> None:
    app = app_on(url)
    started = asyncio.Event()
    begun: list[str] = []

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        begun.append(job.id)
        if len(begun) == 2:
            started.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        jobs = [(await app.submit("endless", account="ana")).job_id for _ in range(2)]
        worker = asyncio.create_task(app.run_worker())
        await started.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        for job_id in jobs:
            job = await app.job(job_id)
            assert (job.status, job.attempts, job.recoveries, job.locked_by) == ("queued", 0, 0, None)
        while not (found := await app.claim("default", limit=2, worker="w2")):
            await app.sweep()
        assert {lease.job_id for lease in found} <= set(jobs)
        assert await balance(app) == 90


async def test_a_worker_that_is_stopped_while_it_waits_for_its_last_jobs_hands_them_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on(url)
    started = asyncio.Event()

    @app.tool(cost=5)
    async def endless(job: JobContext) -> None:
        started.set()
        await asyncio.Event().wait()

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("endless", account="ana")
        worker = await worker_past_its_time(app, monkeypatch)
        await started.wait()
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker
        assert (await app.job(receipt.job_id)).status == "queued"


async def test_a_worker_can_empty_the_queue_and_leave(url: str) -> None:
    app = app_on(url)

    @app.tool(cost=1, pool="gpu")
    async def quick(job: JobContext, number: int) -> int:
        return number

    async with app:
        await app.open_account("ana", credits=100)
        batch = await app.submit_batch([("quick", {"number": n}) for n in range(25)], account="ana")
        async with asyncio.timeout(20):
            assert await app.run_worker(["gpu"], concurrency=2, burst=True) == 25
            assert await app.run_worker(["gpu"], burst=True) == 0
        assert (await app.batch(batch.batch_id)).by_status == {"completed": 25}


@pytest.mark.long_on("memory", "postgresql")
async def test_nothing_that_was_made_for_a_run_outlives_it(url: str) -> None:
    """Without the collector, which would otherwise look at all that lives to find what thousands of runs left."""
    app = app_on(url)

    @app.tool(cost=5)
    async def one(job: JobContext) -> str:
        return "done"

    @app.tool(cost=5, jobs_per_call=2)
    async def many(jobs: list[JobContext]) -> list[str]:
        return ["done"] * len(jobs)

    def alive() -> int:
        return sum(isinstance(found, (Run, JobContext)) for found in gc.get_objects())

    gc.collect()
    gc.disable()
    before = alive()
    try:
        async with app, asyncio.timeout(20):
            await app.open_account("ana", credits=100)
            for name in ("one", "one", "many", "many", "many"):
                await app.submit(name, account="ana")
            assert await app.run_worker(burst=True) == 5
        assert alive() <= before
    finally:
        gc.enable()


async def test_a_worker_can_run_in_a_time_budget(url: str) -> None:
    app = app_on(url)
    begun = 0

    @app.tool(cost=1)
    async def chain(job: JobContext) -> None:
        """Each job submits the next: there is always work."""
        nonlocal begun
        begun += 1
        await app.submit("chain", account="ana")

    async with app:
        await app.open_account("ana", credits=100_000)
        await app.submit("chain", account="ana")
        async with asyncio.timeout(20):
            assert await app.run_worker(concurrency=1, max_seconds=0.3) == begun
        stats = await app.stats()
        assert stats.by_status == {"queued": 1}, "what it began it finished"


async def test_it_runs_no_more_at_a_time_than_it_was_told(url: str) -> None:
    app = app_on(url, pools=[])
    running = most = 0

    @app.tool()
    async def counted(job: JobContext) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    async with app, asyncio.timeout(20):
        await app.open_account("ana")
        await app.submit_batch([("counted", {}) for _ in range(30)], account="ana")
        assert await app.run_worker(concurrency=4, burst=True) == 30
        assert most == 4


async def test_a_worker_hears_of_work_at_once(url: str) -> None:
    """It waits for five seconds between its looks; twenty jobs one after another would take it a hundred."""
    app = app_on(url)

    @app.tool()
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(40):
        await app.open_account("ana")
        worker = asyncio.create_task(app.run_worker())
        for _ in range(20):
            assert (await ended(app, (await app.submit("quick", account="ana")).job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.parametrize("fault", [Unavailable("away"), CommitUnknown("lost")], ids=lambda fault: type(fault).__name__)
async def test_a_worker_outlives_a_database_that_is_away(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "POLL_S", 0.01)
    monkeypatch.setattr(backoff, "AWAY_S", 0.01)
    app = app_on("memory:", commit_limits=CommitLimits(give_up_s=0.0), sweep_by_itself=False, sweep_s=3_600)

    @app.tool(cost=5)
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("quick", account="ana")
        store = app.engine.store
        failed = asyncio.Event()

        async def broken(*args: object) -> None:
            failed.set()
            raise fault

        with monkeypatch.context() as broken_store:
            broken_store.setattr(store, "transact", broken)
            broken_store.setattr(store, "committed", broken)
            worker = asyncio.create_task(app.run_worker())
            for _ in range(3):
                failed.clear()
                await failed.wait()
        assert (await ended(app, receipt.job_id)).result == "done"
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_a_worker_outlives_a_database_that_goes_away_while_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application is open, and the connection that renews leases is not yet."""
    monkeypatch.setattr(backoff, "AWAY_S", 0.01)
    app = app_on(f"sqlite:///{tmp_path}/ficha.db")
    open_operations, tries = app.separate_operations, 0

    @asynccontextmanager
    async def away_at_first(**options: bool) -> AsyncIterator[object]:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise Unavailable("away")
        async with open_operations(**options) as operations:
            yield operations

    @app.tool(cost=5)
    async def quick(job: JobContext) -> str:
        return "done"

    async with app, asyncio.timeout(20):
        await app.open_account("ana", credits=100)
        receipt = await app.submit("quick", account="ana")
        monkeypatch.setattr(app, "separate_operations", away_at_first)
        assert await app.run_worker(burst=True) == 1
        assert tries == 4
        assert (await app.job(receipt.job_id)).result == "done"
        tries = -1_000
        worker = asyncio.create_task(app.run_worker())
        await until(lambda: tries > -998)
        worker.cancel()
        with pytest.raises(asyncio.CancelledError):
            await worker


async def test_three_workers_at_once_run_each_of_a_hundred_jobs_exactly_once(url: str) -> None:
    app = app_on(url, pools=[])
    runs: list[int] = []

    @app.tool(cost=1)
    async def count(job: JobContext, number: int) -> int:
        runs.append(number)
        await asyncio.sleep(0)
        return number

    async with app:
        await app.open_account("ana", credits=100)
        batch = await app.submit_batch([("count", {"number": n}) for n in range(100)], account="ana")
        async with asyncio.timeout(30):
            ran = await asyncio.gather(*(app.run_worker(concurrency=10, burst=True, worker=f"w{n}") for n in range(3)))
        assert sum(ran) == 100
        assert sorted(runs) == list(range(100))
        assert (await app.batch(batch.batch_id)).by_status == {"completed": 100}
        assert await balance(app) == 0
        assert await app.verify() == []


@pytest.mark.req("B7")
async def test_equal_jobs_are_run_once_however_many_workers_there_are(world: World) -> None:
    runs: list[int] = []
    apps = [await world.open(sweep_by_itself=True, sweep_s=1.0) for _ in range(3)]
    for app in apps:

        @app.tool(cost=2, dedupe=True)
        async def square(job: JobContext, number: int) -> int:
            runs.append(number)
            await asyncio.sleep(0.02)
            return number * number

    app = apps[0]
    for account in ("ana", "ben"):
        await app.open_account(account, plan="open", credits=100)
        await app.submit_batch([("square", {"number": number % 4}) for number in range(20)], account=account)
    async with asyncio.timeout(30):
        workers = (one.run_worker(concurrency=3, burst=True, worker=f"w{n}") for n, one in enumerate(apps))
        assert sum(await asyncio.gather(*workers)) == 8
    assert sorted(runs) == [0, 0, 1, 1, 2, 2, 3, 3], "once for each account"
    jobs = (await app.jobs(limit=100, include=["payload", "result"])).items
    assert {(job.status, job.result == job.payload["number"] ** 2) for job in jobs} == {("completed", True)}
    assert await balance(app) + await balance(app, "ben") == 200 - 8 * 2
    assert await app.verify() == []


# Settings


@pytest.mark.req("B2")
async def test_the_environment_sets_lease_heartbeat_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Ficha("memory:")
    assert (app.lease_s, app.heartbeat_s) == (60.0, 10.0)
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "45000")
    monkeypatch.setenv("JOB_HEARTBEAT_INTERVAL_MS", "1500")
    monkeypatch.setenv("WORKER_ID", "instance-3")
    app = Ficha("memory:")
    assert (app.lease_s, app.heartbeat_s) == (45.0, 1.5)
    names: list[str | None] = []
    leases: list[Any] = []

    @app.tool()
    async def look(job: JobContext) -> None:
        view = await app.job(job.id)
        names.append(view.locked_by)
        leases.append((view.lock_expires_at - view.last_heartbeat_at).total_seconds())

    async with app:
        await run_one(app, "look")
        await app.submit("look", account="ana")
        await app.run_worker(burst=True, worker="named")
        monkeypatch.delenv("WORKER_ID")
        await app.submit("look", account="ana")
        await app.run_worker(burst=True)
    assert names[:2] == ["instance-3", "named"]
    assert names[2] not in (None, "", "instance-3")
    assert leases == [45.0] * 3
    # What the code says stands above the environment.
    assert Ficha("memory:", lease_s=5, heartbeat_s=1).lease_s == 5


@pytest.mark.parametrize("variable", ["JOB_LOCK_TTL_MS", "JOB_HEARTBEAT_INTERVAL_MS"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "10s", "1e3", " ", "NaN"])
def test_a_setting_that_is_no_number_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=f"{variable} must be a whole number of milliseconds"):
        Ficha("memory:")


async def test_a_worker_serves_only_its_pools(url: str) -> None:
    app = app_on(url, pools=[Pool("gpu"), Pool("cpu")], plans=[Plan("all")])

    @app.tool(pool="gpu")
    async def on_gpu(job: JobContext) -> None: ...

    @app.tool(pool="cpu")
    async def on_cpu(job: JobContext) -> None: ...

    async with app:
        await app.open_account("ana")
        left, done = await app.submit("on_gpu", account="ana"), await app.submit("on_cpu", account="ana")
        assert await app.run_worker(["cpu"], burst=True) == 1
        assert (await app.job(done.job_id)).status == "completed"
        assert (await app.job(left.job_id)).status == "queued"
        assert await app.run_worker(burst=True) == 1
