"""Jobs that kill their worker, beside jobs that do not: no innocent one ends for it."""

import asyncio

import pytest

from ficha.operations.suspects import makes_room
from ficha.worker import suspect_room
from tests.support.waiting import until
from tests.worker.in_process import app_on
from tests.worker.worker_processes import WorkerProcesses, ended, submitted

SHORT = {"lease_s": 0.6, "heartbeat_s": 0.15, "sweep_s": 0.05}


@pytest.mark.req("B4", "B6")
async def test_jobs_that_kill_their_workers_take_no_other_job_with_them(workers: WorkerProcesses) -> None:
    async with workers.opened_app(**SHORT) as app:
        innocent = [await submitted(app, "takes_a_while") for _ in range(6)]
        guilty = [await submitted(app, "kills") for _ in range(2)]
        innocent += [await submitted(app, "takes_a_while") for _ in range(6)]
        running = [workers.start("--concurrency", "6") for _ in range(2)]

        async def supervise() -> None:
            while True:
                for place, worker in enumerate(running):
                    if not worker.is_alive:
                        running[place] = workers.start("--concurrency", "6")
                await asyncio.sleep(0.05)

        supervisor = asyncio.create_task(supervise())
        try:
            for job in await ended(app, *innocent):
                assert (job.status, job.result) == ("completed", "done")
            for job in await ended(app, *guilty):
                assert (job.status, job.recoveries, job.is_dead_letter) == ("failed", 3, True)
                assert "taken for poison" in job.error
        finally:
            supervisor.cancel()
        assert (await app.account("ana")).balance == 1_000 - 12
        assert await app.verify() == []


@pytest.mark.req("B4")
async def test_a_busy_worker_makes_room_for_a_job_with_a_lost_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """It claims nothing more until it has run it, and nothing beside it; then it goes on."""
    monkeypatch.setattr(suspect_room, "LOOK_S", 0.05)
    app = app_on("memory:")
    beside: list[tuple[str, int]] = []
    running: set[str] = set()
    suspect = ""

    @app.tool
    async def work(job) -> None:  # type: ignore[no-untyped-def]
        running.add(job.id)
        most = len(running)
        for _ in range(5):
            await asyncio.sleep(0.004)
            most = max(most, len(running))
        beside.append((job.id, most))
        running.discard(job.id)
        if job.id != suspect:
            # There is always more to do.
            await app.submit("work", {}, account="ana")

    async with app:
        await app.open_account("ana", credits=0)
        suspect = (await app.submit("work", {}, account="ana")).job_id
        (lease,) = await app.claim("default", worker="dead")
        await app.end_many([(lease, app.interrupted("it died", lost=True))])
        for _ in range(8):
            await app.submit("work", {}, account="ana")
        worker = asyncio.create_task(app.run_worker(concurrency=3))
        try:
            await until(lambda: suspect in dict(beside))
            assert dict(beside)[suspect] == 1
            so_far = len(beside)
            await until(lambda: len(beside) > so_far + 9)
            assert max(count for _, count in beside[so_far:]) > 1
            # Nobody makes room any more.
            assert not await makes_room(app.engine, ["default"], "other")
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


@pytest.mark.req("B4")
async def test_a_worker_that_is_known_by_its_name_gets_nothing_beside_a_job_with_a_lost_run(url: str) -> None:
    app = app_on(url, lease_s=60)

    @app.tool
    def work(job) -> None: ...  # type: ignore[no-untyped-def]

    async with app:
        await app.open_account("ana", credits=0)
        for _ in range(5):
            await app.submit("work", {}, account="ana")
        lost = await app.claim("default", limit=2, worker="dead")
        assert len(await app.claim("default", worker="busy")) == 1
        await app.end_many([(lease, app.interrupted("it died", lost=True)) for lease in lost])
        suspects = {lease.job_id for lease in lost}
        # It makes room; another that is idle takes the suspects together, and nothing beside them.
        assert await app.claim("default", limit=9, worker="busy") == []
        taken = await app.claim("default", limit=9, worker="idle")
        assert {lease.job_id for lease in taken} == suspects
        assert await app.claim("default", limit=9, worker="idle") == []
        for lease in taken:
            await app.finish(lease, None)
        assert len(await app.claim("default", limit=1, worker="idle")) == 1
        assert len(await app.claim("default", limit=9, worker="busy")) == 1


@pytest.mark.req("B4")
async def test_a_job_with_a_lost_run_that_an_equal_one_answers_does_not_run_again() -> None:
    app = app_on()
    calls: list[str] = []

    @app.tool(dedupe=True)
    def draw(job) -> str:  # type: ignore[no-untyped-def]
        calls.append(job.id)
        return "drawn"

    async with app:
        await app.open_account("ana", credits=0)
        first, second = [(await app.submit("draw", {}, account="ana")).job_id for _ in range(2)]
        (lease,) = await app.claim("default", worker="dead")
        await app.end_many([(lease, app.interrupted("it died", lost=True))])
        async with asyncio.timeout(20):
            await app.run_worker(burst=True)
        assert [(await app.job(job_id)).result for job_id in (first, second)] == ["drawn"] * 2
        assert calls == [second]


@pytest.mark.req("B4")
async def test_a_tool_says_how_many_lost_runs_its_jobs_may_have() -> None:
    app = app_on()

    @app.tool(max_recoveries=0)
    def once(job) -> None: ...  # type: ignore[no-untyped-def]

    @app.tool
    def again(job) -> None: ...  # type: ignore[no-untyped-def]

    async with app:
        await app.open_account("ana", credits=0)
        jobs = [(await app.submit(tool, {}, account="ana")).job_id for tool in ("once", "again")]
        leases = await app.claim("default", limit=2, worker="dead")
        await app.end_many([(lease, app.interrupted("it died", lost=True)) for lease in leases])
        assert [(await app.job(job_id)).status for job_id in jobs] == ["failed", "queued"]
        error = (await app.job(jobs[0])).error
        assert error == "its run was lost with its process, and is not repeated (max_recoveries=0): it died"
