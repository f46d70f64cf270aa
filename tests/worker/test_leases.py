"""Leases under strain: a worker that was frozen, handlers that block the loop, and handlers that hang."""

import asyncio
import signal

import pytest

from tests.support.shop import history, ledger
from tests.support.waiting import until
from tests.worker.worker_processes import WorkerProcesses, ended, submitted

SHORT = {"lease_s": 1.0, "heartbeat_s": 0.25, "sweep_s": 0.05}


@pytest.mark.req("B5")
async def test_a_worker_that_was_frozen_past_its_lease_writes_nothing(workers: WorkerProcesses) -> None:
    async with workers.opened_app(**SHORT) as app:
        first = workers.start("--concurrency", "2")
        job_id = await submitted(app, "frozen")
        await workers.did("began", job_id)
        await workers.freeze(first)
        second = workers.start()
        (job,) = await ended(app, job_id)
        assert (job.result, job.epoch, job.recoveries) == ("second", 2, 1)
        before = [*await ledger(app), *await history(app, job_id)]
        second.signal(signal.SIGTERM)
        assert await second.end() == 0

        workers.open("thaw")
        first.signal(signal.SIGCONT)
        await until(lambda: len(workers.deeds("refused")) == 5)
        assert workers.deeds("refused") == [
            [verb, "LEASE_LOST"] for verb in ("step", "checkpoint", "partial", "log", "progress")
        ]
        assert workers.deeds("wrote") in ([], [["nothing"]])
        await until(lambda: first.lines("lost"))
        # It goes on with other work, and what its late run came to has changed nothing.
        (after,) = await ended(app, await submitted(app, "quick"))
        assert after.status == "completed"
        # Its line follows the commit that the test has seen.
        await until(lambda: [line["job"] for line in first.lines("completed")] == [after.id])
        job = await app.job(job_id)
        assert (job.status, job.result, job.checkpoint, job.progress, job.partial) == (
            "completed",
            "second",
            None,
            100,
            None,
        )
        assert list(await app.steps(job_id)) == []
        now = [*await ledger(app), *[kind for kind in await history(app, job_id) if kind != "late"]]
        assert [line for line in now if line not in before] == [("charge", -1, 995)]
        assert await app.verify() == []


async def test_a_worker_that_takes_its_own_lost_job_again_ends_the_run_it_had(workers: WorkerProcesses) -> None:
    """It was frozen, its lease recovered, and when it goes on it claims the job before it hears that it lost it."""
    async with workers.opened_app(**SHORT | {"heartbeat_s": 1.0}) as app:
        worker = workers.start("--concurrency", "2")
        job_id = await submitted(app, "ticks")
        await workers.did("tick", job_id, 1)
        await workers.freeze(worker)

        async def is_recovered() -> bool:
            return (await app.job(job_id)).status == "queued"

        await until(is_recovered)
        worker.signal(signal.SIGCONT)
        await until(lambda: len(worker.lines("claimed")) == 2)
        # One of the two goes on.
        await until(lambda: len({epoch for _, epoch in workers.deeds("tick")[-10:]}) == 1)
        job = await app.job(job_id)
        assert (job.status, job.epoch) == ("running", 2)
        assert workers.deeds("tick")[-1] == [job_id, "2"]


async def test_a_worker_that_was_frozen_past_a_jobs_timeout_is_not_taken_for_hung(
    sqlite_workers: WorkerProcesses,
) -> None:
    """Its loop was silent for as long as the whole process was; the jobs beside that one go on."""
    async with sqlite_workers.opened_app(heartbeat_s=0.25, sweep_s=0.05) as app:
        worker = sqlite_workers.start("--concurrency", "2")
        neighbour, late = await submitted(app, "waits", gate="go"), await submitted(app, "overstays")
        for job_id in (neighbour, late):
            await sqlite_workers.did("began", job_id)
        await sqlite_workers.freeze(worker)
        await asyncio.sleep(2.5)  # By now its run is beyond its time by more than a loop may be late.
        worker.signal(signal.SIGCONT)
        # While it waits for that handler to stop, the run is still beyond its time.
        await until(lambda: worker.lines("does not stop; given up"))
        sqlite_workers.open("go")
        done, too_late = await ended(app, neighbour, late)
        assert (done.status, done.epoch, worker.is_alive) == ("completed", 1, True)
        assert (too_late.error, too_late.recoveries) == ("timed out after 1 s", 0)


@pytest.mark.req("B4")
async def test_jobs_of_a_killed_worker_are_done_by_another_though_their_timeout_is_shorter_than_the_lease(
    workers: WorkerProcesses,
) -> None:
    async with workers.opened_app(lease_s=3.0, heartbeat_s=1.0, sweep_s=0.05) as app:
        victim = workers.start("--concurrency", "2")
        jobs = [await submitted(app, "waits_briefly", gate="go") for _ in range(2)]
        for job_id in jobs:
            await workers.did("began", job_id)
        victim.kill()
        workers.open("go")
        workers.start("--concurrency", "2")
        for job in await ended(app, *jobs):
            assert (job.status, job.result, job.epoch, job.recoveries, job.error) == ("completed", "done", 2, 1, None)
        assert (await app.account("ana")).balance == 1_000 - 2 * 4
        assert await app.verify() == []


@pytest.mark.long_on("postgresql")
@pytest.mark.req("B4")
async def test_a_handler_that_blocks_the_loop_keeps_its_lease_and_that_of_its_neighbour(
    workers: WorkerProcesses,
) -> None:
    async with workers.opened_app(**SHORT) as app:
        worker = workers.start("--concurrency", "2")
        await worker.started()
        neighbour = await submitted(app, "waits", gate="go")
        await workers.did("began", neighbour)
        blocked = await submitted(app, "blocks", seconds=3.2)
        await workers.did("began", blocked)
        workers.open("go")
        # This process sweeps twenty times a second meanwhile, and finds nothing to recover.
        jobs = await ended(app, blocked, neighbour)
        assert [(job.status, job.epoch, job.recoveries) for job in jobs] == [("completed", 1, 0)] * 2
        assert (jobs[0].finished_at - jobs[0].started_at).total_seconds() > 3 * SHORT["lease_s"]


@pytest.mark.req("A6", "B6")
async def test_a_handler_that_hangs_is_ended_by_its_timeout_refunded_and_its_slot_freed(
    sqlite_workers: WorkerProcesses,
) -> None:
    """The pool has one slot and the worker runs one job at a time: the next one runs, or nothing would."""
    # This process does not sweep: the workers end the runs themselves.
    async with sqlite_workers.opened_app(**SHORT | {"sweep_s": 3_600, "sweep_by_itself": False, "lease_s": 60}) as app:
        worker = sqlite_workers.start("--concurrency", "1")
        for tool in ("hangs", "hangs_in_thread"):
            jobs = await ended(app, await submitted(app, tool), await submitted(app, "next_one"))
            assert [job.status for job in jobs] == ["failed", "completed"]
            assert (jobs[0].error, jobs[0].refunded, jobs[0].epoch) == ("timed out after 1 s", 2, 1)
        blocked = await submitted(app, "hangs_the_loop")
        await sqlite_workers.did("began", blocked)
        after = await submitted(app, "next_one")
        assert await worker.end() == 70
        assert "has blocked the event loop" in worker.text
        sqlite_workers.start("--concurrency", "1", "--burst")
        jobs = await ended(app, blocked, after)
        assert [(job.status, job.error, job.refunded) for job in jobs] == [
            ("failed", "timed out after 1 s", 2),
            ("completed", None, 0),
        ]
        assert (await app.account("ana")).balance == 1_000 - 3
        assert await app.verify() == []
