"""The sandbox: an application on memory whose jobs run to their end without waiting, and break where a test says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ficha import Accepted, Ficha, JobContext, Plan, Pool, Retry, ThreadJobContext
from ficha.testing import ManualClock, Sandbox
from tests.support.shop import history


def shop(calls: list[str]) -> Ficha:
    app = Ficha("sqlite:///never-made.db", plans=[Plan("free", max_running=1)], pools=[Pool("gpu", slots=1)])

    def paid(name: str) -> str:
        calls.append(name)
        return name.upper()

    @app.tool(cost=5, attempts=3, backoff=60)
    async def draw(job: JobContext, name: str) -> str:
        return await job.step("paid", paid, name)

    @app.tool(cost=1, pool="gpu")
    async def order(job: JobContext) -> Accepted:
        return Accepted(f"ref-{job.account}")

    @app.tool()
    async def patient(job: JobContext) -> Retry | int:
        calls.append("patient")
        return Retry(after=3_600) if len(calls) < 3 else len(calls)

    @app.tool()
    def plain(job: ThreadJobContext, name: str) -> str:
        return job.step("paid", paid, name)

    return app


async def test_everything_ends_and_schedules_and_retries_are_skipped() -> None:
    calls: list[str] = []
    app = shop(calls)
    async with Sandbox(app, ManualClock()) as sandbox:
        began_at = sandbox.clock.now
        await app.open_account("ana", credits=100)
        late = await app.submit("draw", {"name": "late"}, account="ana", delay_s=86_400)
        soon = await app.submit("draw", {"name": "soon"}, account="ana", delay_s=60)
        patient = await app.submit("patient", {}, account="ana")
        assert await sandbox.run() == []
        assert [(await app.job(one.job_id)).result for one in (late, soon, patient)] == ["LATE", "SOON", 3]
        assert sandbox.clock.now - began_at == 86_400_000_000
        assert await app.verify() == []
    assert not app.is_open


async def test_a_job_that_waits_for_its_provider_is_left_and_goes_on_when_it_calls_back() -> None:
    app = shop([])
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=100)
        first = await app.submit("order", {}, account="ana")
        await app.open_account("bob", credits=100)
        second = await app.submit("order", {}, account="bob")
        left = await sandbox.run()
        assert {job.id for job in left} == {first.job_id, second.job_id}
        await app.finish_job((await app.job_by_ref("ref-ana")).id, app.completed("done"))
        assert [job.id for job in await sandbox.run()] == [second.job_id]
        assert (await app.job(first.job_id)).result == "done"


async def test_a_paused_pool_and_a_pool_that_nobody_serves_are_left_alone() -> None:
    app = shop([])
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=100)
        job_id = (await app.submit("draw", {"name": "x"}, account="ana")).job_id
        assert [job.id for job in await sandbox.run(["gpu"])] == [job_id]
        await app.pause_pool("default")
        assert [job.id for job in await sandbox.run()] == [job_id]
        await app.resume_pool("default")
        assert await sandbox.run() == []


@pytest.mark.parametrize(("stored", "paid"), [(False, 2), (True, 1)])
@pytest.mark.parametrize("tool", ["draw", "plain"])
async def test_a_process_that_dies_at_a_step_resumes_there(tool: str, stored: bool, paid: int) -> None:
    calls: list[str] = []
    app = shop(calls)
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=100)
        job_id = (await app.submit(tool, {"name": "x"}, account="ana")).job_id
        sandbox.fault("paid", stored=stored)
        assert await sandbox.run() == []
        job = await app.job(job_id)
        assert (job.status, job.result, job.recoveries, job.attempts) == ("completed", "X", 1, 0)
        assert len(calls) == paid
        assert "recovered" in await history(app, job_id)


async def test_a_fault_with_an_error_fails_the_run_of_its_tool_alone() -> None:
    app = shop([])
    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=100)
        plain = (await app.submit("plain", {"name": "x"}, account="ana")).job_id
        drawn = (await app.submit("draw", {"name": "x"}, account="ana")).job_id
        sandbox.fault("paid", ValueError("no"), tool="draw")
        assert await sandbox.run() == []
        assert (await app.job(plain)).attempts == 0
        assert ((await app.job(drawn)).status, (await app.job(drawn)).attempts) == ("completed", 1)


async def test_the_application_is_as_before_afterwards() -> None:
    app = shop([])
    before = dict(vars(app))
    async with Sandbox(app):
        with pytest.raises(RuntimeError, match="open already"):
            await Sandbox(app).__aenter__()
    assert vars(app) == before


def reporting(**options: Any) -> Ficha:
    app = Ficha(plans=[Plan("free")])

    @app.cron("0 9 * * *", name="report", **options)
    async def report(job: JobContext) -> str | None:
        return job.correlation_id.removeprefix("cron:report:")

    @app.tool()
    async def draw(job: JobContext) -> None: ...

    return app


async def reports(app: Ficha) -> list[str]:
    return sorted(str(job.result) for job in (await app.jobs(tool="report", include=["result"])).items)


NINE = int(datetime(2026, 11, 16, 9, 0, tzinfo=UTC).timestamp()) * 1_000_000
HOUR = 3_600


async def test_a_cron_fires_at_each_slot_that_the_clock_is_moved_over() -> None:
    app = reporting()
    async with Sandbox(app, ManualClock(NINE - 3_600_000_000)) as sandbox:
        assert await sandbox.run() == []
        assert (await reports(app), sandbox.clock.now) == ([], NINE - 3_600_000_000), "its slots have no end"
        await sandbox.advance(HOUR - 0.000001)
        assert await sandbox.run() == []
        assert await reports(app) == []
        await sandbox.advance(0.000001)
        await sandbox.run()
        assert await reports(app) == ["2026-11-16T09:00Z"]
        await sandbox.advance(72 * HOUR)
        assert sandbox.clock.now == NINE + 72 * 3_600_000_000
        await sandbox.run()
        assert await reports(app) == [f"2026-11-{day}T09:00Z" for day in (16, 17, 18, 19)]
        await app.open_account("ana")
        await app.submit("draw", account="ana", delay_s=30 * HOUR)
        await sandbox.run()
        assert await reports(app) == [f"2026-11-{day}T09:00Z" for day in (16, 17, 18, 19, 20)]
        assert await app.verify() == []


@pytest.mark.parametrize(("missed", "days"), [("once", [18]), ("skip", []), ("all", [16, 17, 18])])
async def test_slots_that_a_test_jumps_over_were_missed(missed: str, days: list[int]) -> None:
    app = reporting(missed=missed)
    async with Sandbox(app, ManualClock(NINE - 3_600_000_000)) as sandbox:
        sandbox.clock.advance(72 * HOUR)
        await sandbox.run()
        assert await reports(app) == [f"2026-11-{day}T09:00Z" for day in days]


async def test_a_retry_days_later_ends_a_job_as_it_does_in_production() -> None:
    app = Ficha(plans=[Plan("free")], max_age_s=24 * HOUR)

    @app.tool(cost=2)
    async def sleeper(job: JobContext, days: float) -> Retry | str:
        return "awake" if job.facts.epoch > 1 else Retry(after=days * 24 * HOUR)

    async with Sandbox(app) as sandbox:
        await app.open_account("ana", credits=9)
        began_at = sandbox.clock.now
        too_late, in_time = [(await app.submit("sleeper", {"days": days}, account="ana")).job_id for days in (3, 0.5)]
        await sandbox.run()
        job = await app.job(too_late)
        assert (job.status, job.refunded) == ("failed", 2)
        assert job.user_error == "asked to be retried later than 24 hours after its first start"
        assert (await app.job(in_time)).result == "awake"
        assert sandbox.clock.now - began_at < 24 * HOUR * 1_000_000
