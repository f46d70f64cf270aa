"""Cancelling a job wherever it is: refunded once, and its handler really stopped, soon."""

import asyncio
import time

import pytest

from tests.support.shop import ledger
from tests.support.waiting import until
from tests.worker.worker_processes import WorkerProcesses, submitted

# Nothing here may wait for a heartbeat or for a lease to expire.
LONG = {"lease_s": 120.0, "heartbeat_s": 40.0}
KINDS = ("ticks", "ticks_in_thread", "ticks_in_process")
QUIET_S = 0.4


@pytest.mark.long_on("postgresql")
@pytest.mark.req("A7")
async def test_a_job_is_cancelled_where_it_is_refunded_once_and_its_handler_stopped(workers: WorkerProcesses) -> None:
    async with workers.opened_app(**LONG) as app:
        queued, starting = await submitted(app, "quick"), await submitted(app, "next_one")
        (lease,) = await app.claim("single", worker="somebody")
        assert lease.job_id == starting
        for job_id in (queued, starting):
            await app.cancel(job_id)
        worker = workers.start()
        running = [await submitted(app, kind) for kind in KINDS]
        for job_id in running:
            await workers.did("tick", job_id, 1)
        cancelled_at = time.monotonic()
        for job_id in running:
            await app.cancel(job_id)

        async def is_quiet() -> bool:
            before = len(workers.deeds("tick"))
            await asyncio.sleep(QUIET_S)
            return len(workers.deeds("tick")) == before

        await until(is_quiet, 15)
        assert time.monotonic() - cancelled_at < LONG["heartbeat_s"] / 2
        await until(lambda: len(worker.lines("lost")) == 3)
        assert {(line["job"], line["status"]) for line in worker.lines("lost")} == {
            (job, "cancelled") for job in running
        }

        # Whoever asks again, or finishes late, changes nothing.
        for job_id in (queued, starting, *running):
            await app.cancel(job_id)
            job = await app.job(job_id)
            assert (job.status, job.refunded, job.locked_by) == ("cancelled", job.charged, None)
        lines = await ledger(app)
        assert sorted(amount for kind, amount, _ in lines if kind == "refund") == [1, 1, 6, 6, 6]
        assert (await app.account("ana")).balance == 1_000
        # The worker has its slots again.
        after = await submitted(app, "quick")
        await until(lambda: worker.lines("completed"))
        assert worker.lines("completed")[0]["job"] == after
        assert await app.verify() == []
