"""The figures of workers: who is there, and what became of all that anybody claimed."""

import asyncio
import os
import signal
import socket
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace

from ficha import Accepted, Cancel, Ficha, FinalError, InvalidArgument, JobContext, Pool, Retry, WorkerView
from ficha.core.commands import RegisterWorker
from tests.support.processes import ForkedProcess
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")

WORD = RegisterWorker("w1", "host", 7, ("gpu",), 4, "1.0", heartbeat_ms=10_000)


async def the_worker(app: Ficha, name: str) -> WorkerView:
    [found] = [worker for worker in (await app.workers()).items if worker.name == name]
    return found


def runs(worker: WorkerView) -> dict[str, int]:
    """What is not zero."""
    names = ("claimed", "completed", "failed", "cancelled", "retried", "recovered", "returned", "accepted", "running")
    return {name: count for name in names if (count := getattr(worker, name))}


@pytest.mark.req("B8")
async def test_a_worker_shows_who_it_is_and_what_became_of_its_runs(url: str) -> None:
    app = Ficha(url, pools=[Pool("gpu", slots=3)])

    @app.tool()
    async def act(job: JobContext, how: str) -> Any:
        if how == "fail":
            raise FinalError("no")
        if how == "again":
            raise ValueError("not yet")
        return {"retry": Retry(3_600), "cancel": Cancel("no"), "accept": Accepted("ref-1")}.get(how, how)

    @app.tool(attempts=2, backoff=300)
    async def fragile(job: JobContext) -> None:
        raise ValueError("not yet")

    async with app:
        await app.open_account("ana", credits=100)
        assert (await app.workers()).items == []
        for how in ("well", "fine", "good", "fail", "again", "retry", "cancel", "accept"):
            await app.submit("act", {"how": how}, account="ana")
        await app.submit("fragile", {}, account="ana")
        assert await app.run_worker(burst=True, worker="w7", concurrency=2) == 9
        worker = await the_worker(app, "w7")
        assert runs(worker) == {
            **{"claimed": 9, "completed": 3, "failed": 2, "retried": 2, "cancelled": 1, "accepted": 1},
        }
        assert (worker.state, worker.host, worker.pid) == ("stopped", socket.gethostname(), os.getpid())
        assert (worker.pools, worker.concurrency) == (("default", "gpu"), 2)
        assert worker.started_at is not None
        assert worker.started_at <= worker.seen_at == worker.stopped_at
        assert worker.average_duration_s is not None
        assert 0 < worker.average_duration_s < 20
        # A second life under the same name goes on counting, from another start.
        await app.submit("act", {"how": "well"}, account="ana")
        await app.run_worker(["gpu"], burst=True, worker="w7")
        again = await the_worker(app, "w7")
        assert again.started_at > worker.started_at
        assert (again.pools, runs(again)) == (("gpu",), runs(worker))
        assert await app.verify() == []


@pytest.mark.req("B8")
async def test_a_worker_is_seen_with_every_heartbeat_idle_or_not(url: str) -> None:
    app = Ficha(url, heartbeat_s=0.02, lease_s=5)
    started, go = asyncio.Event(), asyncio.Event()

    @app.tool()
    async def wait(job: JobContext) -> None:
        started.set()
        await go.wait()

    async def seen_three_times() -> WorkerView:
        moments = set()
        async with asyncio.timeout(20):
            while len(moments) < 3:
                await app.wait_for_work("default", 0.005)
                if found := [worker for worker in (await app.workers()).items if worker.name == "w1"]:
                    moments.add(found[0].seen_at)
        return found[0]

    async with app:
        await app.open_account("ana")
        working = asyncio.create_task(app.run_worker(worker="w1"))
        idle = await seen_three_times()
        assert (idle.state, idle.stopped_at, idle.claimed, idle.running) == ("alive", None, 0, 0)
        await app.submit("wait", {}, account="ana")
        await started.wait()
        busy = await seen_three_times()
        assert (busy.state, runs(busy), busy.stuck) == ("alive", {"claimed": 1, "running": 1}, 0)
        assert (busy.started_at, busy.pid) == (idle.started_at, idle.pid)
        # What it holds when it is stopped it hands back.
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        gone = await the_worker(app, "w1")
        assert (gone.state, runs(gone)) == ("stopped", {"claimed": 1, "returned": 1})


async def test_a_worker_that_missed_three_heartbeats_is_silent_until_it_speaks_again(world: World) -> None:
    app = await world.open()
    first = await app.register_worker(WORD)
    for after_s, state in ((0, "alive"), (30, "alive"), (0.000_001, "silent"), (3_600, "silent")):
        world.clock.advance(after_s)
        assert (await the_worker(app, "w1")).state == state
    await app.register_worker(replace(WORD, started_at=first.started_at))
    back = await the_worker(app, "w1")
    assert (back.state, back.seen_at > back.started_at) == ("alive", True)
    await app.register_worker(replace(WORD, stops=True))
    world.clock.advance(3_600)
    assert (await the_worker(app, "w1")).state == "stopped"


@pytest.mark.req("B8", "E4")
async def test_whoever_only_claims_is_listed_with_what_it_did_and_what_is_stuck(world: World) -> None:
    app = await world.open(stuck_s=90)
    await app.open_account("ana", plan="open", credits=100)
    for _ in range(3):
        await app.submit("upscale", {"image": "cat"}, account="ana")
    leases = [await claim_one(app, worker="by hand") for _ in range(3)]
    world.clock.advance(2)
    await app.finish(leases[0], {})
    await app.hand_back(leases[1], "its process died", lost=True)
    worker = await the_worker(app, "by hand")
    assert runs(worker) == {"claimed": 3, "completed": 1, "recovered": 1, "running": 1}
    assert (worker.state, worker.host, worker.pools, worker.started_at, worker.seen_at) == (None,) * 5
    assert (worker.average_duration_s, worker.stuck) == (2.0, 0)
    world.clock.advance(88.000_001)
    assert (await the_worker(app, "by hand")).stuck == 1
    assert (await app.recover(leases[2].job_id)).act == "requeued"
    after = await the_worker(app, "by hand")
    assert (runs(after), after.stuck) == ({"claimed": 3, "completed": 1, "recovered": 2}, 0)


async def test_workers_are_listed_in_pages_by_name(app: Ficha) -> None:
    for name in ("c", "a", "b"):
        await app.register_worker(replace(WORD, name=name))
    first = await app.workers(limit=2)
    assert ([worker.name for worker in first.items], first.next) == (["a", "b"], "b")
    second = await app.workers(after=first.next, limit=2)
    assert ([worker.name for worker in second.items], second.next) == (["c"], None)
    with pytest.raises(InvalidArgument):
        await app.workers(limit=0)


PROGRAM = """
import asyncio, sys
from ficha import Ficha

app = Ficha(sys.argv[1], lease_s=1)

@app.tool()
async def hang(job):
    print(job.id, flush=True)
    await asyncio.sleep(600)

async def main():
    async with app:
        await app.run_worker(worker="killed")

asyncio.run(main())
"""


@pytest.mark.req("B8")
@pytest.mark.parametrize("url", ["sqlite", "postgresql"], indirect=True)
async def test_the_figures_of_a_worker_that_was_killed_are_exact(url: str) -> None:
    app = Ficha(url, lease_s=1, sweep_s=0.05)

    @app.tool()
    async def hang(job: JobContext) -> str:
        return "done"

    async with app:
        await app.open_account("ana")
        jobs = [(await app.submit("hang", {}, account="ana")).job_id for _ in range(3)]
        process = ForkedProcess("tests.support.program", [PROGRAM, url], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            lines = [await asyncio.to_thread(process.stdout.readline) for _ in jobs]
            assert {line.strip() for line in lines} == set(jobs)
            async with asyncio.timeout(20):
                while (await the_worker(app, "killed")).pid is None:
                    await app.wait_for_work("default", 0.01)
            process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait)
        finally:
            process.kill()
            process.communicate()
        killed = await the_worker(app, "killed")
        assert (killed.pid, runs(killed)["claimed"]) == (process.pid, 3)
        async with asyncio.timeout(30):
            while [job_id for job_id in jobs if (await app.job(job_id)).finished_at is None]:
                await app.run_worker(burst=True, worker="heir", max_seconds=0.1)
        assert runs(await the_worker(app, "killed")) == {"claimed": 3, "recovered": 3}
        assert runs(await the_worker(app, "heir")) == {"claimed": 3, "completed": 3}
