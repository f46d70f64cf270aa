"""What a provider took for each job, and what is left of the credits, by tool, plan and day."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ficha import Ficha, InvalidArgument, JobContext, TooLarge
from ficha.engine.views import moment, owner_job_view
from ficha.operations import turns
from tests.support.shop import World, claim_one, state

pytestmark = pytest.mark.long_on("postgresql")


async def test_a_job_keeps_what_its_runs_cost_whether_they_worked_or_not(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("stubborn", account="ana")).job_id
    await app.fail(await claim_one(app, "cpu"), "busy", provider_cost=0.25)
    assert (await app.job(job_id)).provider_cost == 0.25
    world.clock.advance(60)
    await app.sweep()
    await app.fail(await claim_one(app, "cpu"), "busy")
    world.clock.advance(60)
    await app.sweep()
    await app.finish(await claim_one(app, "cpu"), provider_cost=1.000_001)
    view = await app.job(job_id)
    assert (view.status, view.provider_cost) == ("completed", 1.250_001)
    assert owner_job_view(view).provider_cost is None
    assert await app.verify() == []


async def test_of_late_words_the_first_that_names_a_cost_counts_once(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=100)
    job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    await claim_one(app)
    await app.cancel(job_id)
    for _ in range(3):
        await app.finish_job(job_id, app.completed("late", provider_cost=0.5))
    view = await app.job(job_id)
    assert (view.status, view.provider_cost, view.late_finishes) == ("cancelled", 0.5, 3)


@pytest.mark.parametrize("cost", [-0.01, float("nan"), float("inf"), 1e9 + 1, True, "1"])
async def test_a_cost_that_is_none_is_refused(app: Ficha, cost: float) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana")
    lease = await claim_one(app)
    with pytest.raises(InvalidArgument, match="provider_cost must be"):
        await app.finish(lease, provider_cost=cost)
    assert (await app.finish(lease, provider_cost=1e9)).status == "completed"


def declare_costly(app: Ficha) -> None:
    @app.tool(pool="cpu", cost=2, provider_cost=lambda n: 0.01 * n)
    async def counted(job: JobContext, n: int = 1, style: str = "") -> int:
        return n

    @app.tool(pool="cpu", cost=3, provider_cost=0.004)
    async def flat(job: JobContext) -> None: ...

    @app.tool(pool="cpu", cost=1, provider_cost=lambda n: "much")
    async def unsure(job: JobContext, n: int = 1) -> int:
        return n

    @app.tool(pool="cpu", cost=1, provider_cost=1)
    async def failing(job: JobContext) -> None:
        raise ValueError("no")


async def test_a_tool_says_what_the_provider_takes_where_the_provider_does_not(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    app = await world.open(prepare=declare_costly)
    await app.open_account("ana", plan="open", credits=100)
    ids = [
        (await app.submit(tool, payload, account="ana")).job_id
        for tool, payload in (("counted", {"n": 3}), ("flat", {}), ("unsure", {}), ("failing", {}))
    ]
    await app.run_worker(["cpu"], burst=True)
    views = [await app.job(job_id) for job_id in ids]
    assert [view.status for view in views] == ["completed", "completed", "completed", "failed"]
    assert [view.provider_cost for view in views] == [0.03, 0.004, None, None]
    assert "provider cost of tool unsure" in caplog.text


def test_a_provider_cost_is_checked_when_the_tool_is_declared() -> None:
    app = Ficha("memory:")
    with pytest.raises(ValueError, match="provider_cost must be a number from 0 to 1000000000"):
        app.tool(provider_cost=-1)(lambda job: None)
    with pytest.raises(ValueError, match="its provider_cost function has a parameter 'size'"):

        @app.tool(provider_cost=lambda size: 1)
        async def draw(job: JobContext, n: int) -> None: ...


async def test_margins_are_by_day_tool_and_plan(world: World) -> None:
    world.clock.now = int(datetime(2026, 3, 10, 23, 59, 59, tzinfo=UTC).timestamp()) * 1_000_000
    app = await world.open()
    for account, plan in (("ana", "open"), ("bob", "pro")):
        await app.open_account(account, plan=plan, credits=100)

    async def sell(account: str, cost: float | None, *, works: bool = True) -> None:
        await app.submit("upscale", {"image": "x"}, account=account)
        lease = await claim_one(app)
        if works:
            await app.finish(lease, provider_cost=cost)
        else:
            await app.fail(lease, "no", provider_cost=cost)

    await sell("ana", 0.02)
    await sell("ana", None)
    await sell("bob", 0.5)
    world.clock.advance(1)
    await sell("ana", 0.03)
    await sell("ana", 0.04, works=False)
    lines = [(m.day, m.tool, m.plan, m.jobs, m.credits, m.provider_cost) for m in await app.margins()]
    tenth, eleventh = date(2026, 3, 10), date(2026, 3, 11)
    assert lines == [
        (tenth, "upscale", "open", 1, 5, 0.02),
        (tenth, "upscale", "pro", 1, 5, 0.5),
        (eleventh, "upscale", "open", 2, 5, 0.07),
    ]
    assert [m.day for m in await app.margins(since=eleventh)] == [eleventh]
    assert [m.day for m in await app.margins(until=tenth)] == [tenth, tenth]
    assert [m.day for m in await app.margins(until=moment(world.clock.now))] == [tenth, tenth, eleventh]
    assert await app.margins(until=date(2026, 3, 9)) == []
    assert await app.margins(since=date(2026, 3, 12), until=date(2026, 3, 12)) == []
    assert len((await state(app)).jobs) == 5


async def test_margins_are_bounded(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    end = date(2026, 12, 31)
    assert await app.margins(since=end - timedelta(days=365), until=end) == []
    with pytest.raises(InvalidArgument, match="since must be a date"):
        await app.margins(since="2026-12-31")  # type: ignore[arg-type]
    for since in (end - timedelta(days=366), end + timedelta(days=1)):
        with pytest.raises(InvalidArgument, match="at most 366 days"):
            await app.margins(since=since, until=end)
    monkeypatch.setattr(turns, "MARGIN_LINES", 1)
    for tool in ("upscale", "video"):
        await app.submit(tool, {"image": "x"} if tool == "upscale" else {}, account="ana")
        await app.finish(await claim_one(app), provider_cost=1)
        if tool == "upscale":
            assert len(await app.margins()) == 1
    with pytest.raises(TooLarge, match="fewer days"):
        await app.margins()
