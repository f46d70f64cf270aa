"""Many jobs and several worker processes, counted by what their handlers did and not by our own tables."""

import asyncio
import random
import signal
import subprocess
from typing import Any

import pytest

from ficha import Ficha
from tests.support.shop import ledger
from tests.support.waiting import until
from tests.worker.worker_processes import COMMAND, ROOT, WorkerProcess, WorkerProcesses

JOBS = 100


async def all_ended(app: Ficha, batch: str) -> Any:
    """How many jobs of the batch are in which final state, once all are."""

    async def look() -> Any:
        view = await app.batch(batch)
        return view.by_status if view.progress == 100 else None

    return await until(look, 60)


@pytest.mark.long_on("sqlite")
@pytest.mark.req("B10")
async def test_three_workers_run_each_of_a_hundred_jobs_exactly_once(workers: WorkerProcesses) -> None:
    async with workers.opened_app() as app:
        processes = [workers.start("--concurrency", "4", installed=True) for _ in range(3)]
        for worker in processes:
            await worker.started()
        batch = await app.submit_batch([("count", {"number": n, "workers": 3}) for n in range(JOBS)], account="ana")
        assert await all_ended(app, batch.batch_id) == {"completed": JOBS}
        for worker in processes:
            worker.signal(signal.SIGTERM)
        assert [await worker.end() for worker in processes] == [0, 0, 0]
        runs = workers.deeds("count")
        assert sorted(int(number) for number, _ in runs) == list(range(JOBS))
        assert {worker for _, worker in runs} == {"w1", "w2", "w3"}
        assert sum(len(worker.lines("completed")) for worker in processes) == JOBS
        assert [kind for kind, _, _ in await ledger(app)].count("charge") == JOBS
        assert (await app.account("ana")).balance == 1_000 - JOBS
        assert await app.verify() == []


@pytest.mark.long_on("postgresql")
@pytest.mark.req("B10", "B3", "E3")
@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.long)])
async def test_workers_that_are_killed_again_and_again_lose_no_job_and_repeat_no_stored_step(
    workers: WorkerProcesses, kills: int
) -> None:
    choice = random.Random(20)
    settings = {"lease_s": 1.0, "heartbeat_s": 0.25, "sweep_s": 0.1, "max_recoveries": 50}
    async with workers.opened_app(credits=100_000, **settings) as app:
        payloads = [{"moments": [choice.uniform(0.0, 0.2) for _ in range(2)]} for _ in range(JOBS)]
        batches = [await app.submit_batch([("steps", payload) for payload in payloads], account="ana")]
        processes: list[WorkerProcess] = [workers.start("--concurrency", "3") for _ in range(4)]
        for _ in range(kills):
            # A moment is so many deeds later, whoever did them: so each kill strikes workers in the middle of work.
            later = workers.trace_size + choice.randint(1, 1_000)
            await until(lambda later=later: workers.trace_size >= later)
            await until(lambda: any(worker.lines("claimed") for worker in processes))
            victim = choice.choice([worker for worker in processes if worker.lines("claimed")])
            victim.kill()
            processes.remove(victim)
            processes.append(workers.start("--concurrency", "3"))
            if (await app.account("ana")).active < 30:
                batches.append(await app.submit_batch([("steps", payload) for payload in payloads[:30]], account="ana"))
        jobs = 0
        for batch in batches:
            ended = await all_ended(app, batch.batch_id)
            assert list(ended) == ["completed"]
            jobs += ended["completed"]
        stored: set[tuple[str, ...]] = set()
        for what, *step in workers.deeds():
            if what == "stored":
                stored.add(tuple(step))
            else:
                assert tuple(step) not in stored, "a step with a stored result ran again"
        assert len(stored) == 2 * jobs
        views = (await app.jobs(account="ana", limit=1_000)).items
        assert sum(job.recoveries for job in views) >= kills, "a kill struck a worker that had nothing to lose"
        lines = await ledger(app)
        assert [(kind, amount) for kind, amount, _ in lines[1:]] == [("charge", -3)] * jobs
    command = [*COMMAND, "verify", "--database", workers.url]
    verified = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


@pytest.mark.long_on("postgresql")
@pytest.mark.req("E6", "B3")
@pytest.mark.parametrize("jobs", [200, pytest.param(10_000, marks=(pytest.mark.long, pytest.mark.timeout(900)))])
async def test_a_batch_whose_workers_are_killed_three_times_and_that_is_resumed_has_every_result_and_exact_money(
    workers: WorkerProcesses, jobs: int
) -> None:
    settings = {"lease_s": 1.0, "heartbeat_s": 0.25, "sweep_s": 0.1, "max_recoveries": 50}
    async with workers.opened_app(credits=2 * jobs, **settings) as app:
        items = (("quick", {"word": str(number)}) for number in range(jobs))
        batch = (await app.submit_batch(items, account="ana")).batch_id
        assert batch is not None
        for kill in range(1, 4):
            processes = [workers.start("--concurrency", "5") for _ in range(2)]
            await until(lambda part=kill: _is_done(app, batch, jobs * part // 5), 300)
            for worker in processes:
                worker.kill()
            # Jobs whose leases have not run out are resumed by the sweeper a second later.
            assert (await app.resume_batch(batch)).refused == 0
        workers.start("--concurrency", "5")
        await until(lambda: _is_done(app, batch, jobs), 300)
        results = [(job.status, job.result) async for job in app.batch_results(batch)]
        assert results == [("completed", str(number)) for number in range(jobs)]
        account = await app.account("ana")
        assert (account.balance, account.active) == (jobs, 0)
        assert await app.verify() == []


async def _is_done(app: Ficha, batch: str, least: int) -> bool:
    return (await app.batch(batch)).by_status.get("completed", 0) >= least
