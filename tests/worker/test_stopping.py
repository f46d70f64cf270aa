"""Stopping: a deploy loses no job and waits for no lease, and no handler keeps a worker beyond its grace."""

import asyncio
import signal
import time
from pathlib import Path

import apsw
import pytest

from ficha import Ficha, JobContext
from ficha.worker import active_runs
from tests.support.shop import history, ledger
from tests.support.waiting import until
from tests.worker.worker_processes import SMALL_PIPE, WorkerProcess, WorkerProcesses, ended, submitted

LEAVE_S = 5.0
SLOW_MACHINE_S = 5.0
"""What a process may take to be noticed as ended on a busy machine."""


async def stopped(worker: WorkerProcess, within_s: float) -> int:
    asked_at = time.monotonic()
    code = await worker.end(within_s + 30)
    assert time.monotonic() - asked_at < within_s + SLOW_MACHINE_S, worker.text[-3_000:]
    return code


@pytest.mark.long_on("postgresql")
@pytest.mark.req("E3", "B10")
async def test_a_deploy_loses_no_job_charges_none_twice_and_waits_for_no_lease(workers: WorkerProcesses) -> None:
    began_at = time.monotonic()
    async with workers.opened_app(lease_s=60.0) as app:
        old = workers.start("--concurrency", "20", "--grace", "2")
        # Half of them end within the grace; the others are handed back: some stop, some raise when they are told to.
        soon = [await submitted(app, "waits", gate="soon") for _ in range(10)]
        late = [await submitted(app, "waits", gate="late") for _ in range(4)]
        late += [await submitted(app, "waits_in_thread", gate="late") for _ in range(3)]
        late += [await submitted(app, "leaves_in_anger", gate="late") for _ in range(3)]
        await until(lambda: len(workers.deeds("began")) == 20)
        old.signal(signal.SIGTERM)
        new = workers.start("--concurrency", "20")
        await until(lambda: old.lines("stopping"))
        # It takes nothing new.
        (after,) = [await submitted(app, "quick")]
        workers.open("soon")
        assert await stopped(old, 2 + LEAVE_S) == 0
        workers.open("late")
        jobs = await ended(app, *soon, *late, after)
        assert [job.status for job in jobs] == ["completed"] * 21
        assert [(job.epoch, job.attempts, job.recoveries) for job in jobs[:10]] == [(1, 0, 0)] * 10
        assert [(job.epoch, job.attempts, job.recoveries) for job in jobs[10:20]] == [(2, 0, 0)] * 10
        await until(lambda: {line["job"] for line in new.lines("completed")} == {*late, after})
        assert "returned" in await history(app, late[0])
        assert [amount for kind, amount, _ in await ledger(app) if kind != "grant"] == [-4] * 20 + [-1]
        assert await app.verify() == []
    assert time.monotonic() - began_at < 60, "a lease had to expire"


async def test_a_worker_leaves_in_time_whatever_its_handlers_do(sqlite_workers: WorkerProcesses) -> None:
    """A thread and a coroutine that do not listen, a blocked loop, and a log that nobody reads."""
    grace_s = 0.5
    async with sqlite_workers.opened_app(lease_s=2.0, heartbeat_s=0.5, sweep_s=0.1) as app:
        # One job for each of the first three.
        processes = [sqlite_workers.start("--grace", str(grace_s), "--concurrency", "1") for _ in range(3)]
        jobs = [await submitted(app, tool) for tool in ("deaf_thread", "deaf_coroutine")]
        jobs.append(await submitted(app, "blocks", seconds=1_000))
        for job_id in jobs:
            await sqlite_workers.did("began", job_id)
        blocked = next(worker for worker in processes if worker.lines("claimed")[0]["job"] == jobs[2])
        unread = sqlite_workers.start("--grace", str(grace_s), "--concurrency", "5", deaf=True)
        await app.submit_batch([("quick", {}) for _ in range(100)], account="ana")
        await until(lambda: unread.unread > SMALL_PIPE - 500)
        for worker in (*processes, unread):
            worker.signal(signal.SIGTERM)
        codes = {worker.name: await stopped(worker, grace_s + LEAVE_S) for worker in (*processes, unread)}
        assert codes[blocked.name] == codes[unread.name] == 1, "only by force"
        # Those that the loop could still speak for were handed back, the others are recovered.
        for job_id in jobs:

            async def is_back(job_id: str = job_id) -> bool:
                return (await app.job(job_id)).status == "queued"

            await until(is_back)
        assert [(await app.job(job_id)).recoveries for job_id in jobs] == [0, 0, 1]
        assert await app.verify() == []


async def test_a_second_signal_ends_a_worker_at_once(sqlite_workers: WorkerProcesses) -> None:
    async with sqlite_workers.opened_app(lease_s=60.0) as app:
        worker = sqlite_workers.start("--grace", "300")
        jobs = [await submitted(app, "waits", gate="never"), await submitted(app, "deaf_thread")]
        for job_id in jobs:
            await sqlite_workers.did("began", job_id)
        worker.signal(signal.SIGTERM)
        await until(lambda: worker.lines("stopping"))
        assert worker.is_alive
        worker.signal(signal.SIGINT)
        assert await stopped(worker, 1.0) == 1
        # What could stop within that second was handed back.
        assert (await app.job(jobs[0])).status == "queued"
        assert await app.verify() == []


@pytest.mark.long_on("postgresql")
@pytest.mark.req("D8")
async def test_a_burst_ends_with_the_queue_and_a_time_box_with_the_time(workers: WorkerProcesses) -> None:
    async with workers.opened_app(sweep_s=0.1) as app:
        batch = await app.submit_batch([("count", {"number": n}) for n in range(30)], account="ana")
        # A handler that never ends was given up long ago, and does not keep the worker.
        hung = await submitted(app, "hangs_in_thread")
        began_at = time.monotonic()
        burst = workers.start("--burst", "--max-seconds", "45", "--json")
        assert await burst.end() == 0
        assert time.monotonic() - began_at < 40
        assert (await app.batch(batch.batch_id)).by_status == {"completed": 30}
        assert (await app.job(hung)).status == "failed"
        assert burst.lines("worker stopped")[0]["jobs"] == 31

        for _ in range(40):
            await submitted(app, "blocks", seconds=0.2)
        boxed = workers.start("--max-seconds", "1", "--concurrency", "1")
        assert await boxed.end() == 0
        done = boxed.lines("worker stopped")[0]["jobs"]
        stats = await app.stats()
        assert 0 < done < 40
        assert stats.by_status["queued"] == 40 - done, "what it began it finished"
        assert "running" not in stats.by_status


@pytest.mark.long_on("0.0005")
@pytest.mark.parametrize("pause_s", [0.0, 0.0005])
async def test_a_worker_that_is_cancelled_at_any_moment_leaves_no_job_behind(
    sqlite_workers: WorkerProcesses, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of its start, of a claim, before a handler's first step: the job is back in the queue at once."""
    monkeypatch.setattr(active_runs, "STOPPING_S", 40.0)
    app = Ficha("memory:" if pause_s == 0.0 else sqlite_workers.url, lease_s=60)
    runs = 0

    @app.tool(cost=1)
    async def endless(job: JobContext) -> None:
        nonlocal runs
        runs += 1
        await asyncio.Event().wait()

    async with app:
        await app.open_account("ana", credits=100)
        job_id = await submitted(app, "endless")
        for moments in range(60):
            worker = asyncio.create_task(app.run_worker())
            for _ in range(moments):
                await asyncio.sleep(pause_s)
            began_at = time.monotonic()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            assert (await app.job(job_id)).status == "queued", f"cancelled after {moments} moments"
            assert time.monotonic() - began_at < 20, "it waited for a handler that had not begun"
        assert runs > 0
        assert (await app.job(job_id)).recoveries == 0
        assert await app.verify() == []


@pytest.mark.long
async def test_whoever_cancels_a_worker_again_leaves_nothing_that_still_writes(tmp_path: Path) -> None:
    app = Ficha(f"sqlite:///{tmp_path / 'ficha.db'}")
    began = asyncio.Event()

    @app.tool(cost=1)
    async def endless(job: JobContext) -> None:
        began.set()
        await asyncio.Event().wait()

    def writing() -> list[asyncio.Task[object]]:
        return [task for task in asyncio.all_tasks() if task.get_name() == "ficha completer"]

    async with app:
        await app.open_account("ana", credits=100)
        await submitted(app, "endless")
        worker = asyncio.create_task(app.run_worker())
        await began.wait()
        somebody = apsw.Connection(str(tmp_path / "ficha.db"))
        somebody.set_busy_timeout(20_000)
        somebody.execute("BEGIN IMMEDIATE")
        try:
            # The job is to be handed back, and somebody has the database to themselves.
            worker.cancel()
            await until(lambda: writing() != [])
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            assert all(task.cancelling() for task in writing())
        finally:
            somebody.close(True)
