"""The overview of an operator: what happened over time, how things stand, and what to look at."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ficha import Ficha, InvalidArgument, Overview
from ficha.core import commands as c
from ficha.engine import queries
from ficha.engine.views import RANGES, OverviewSteps, moment
from tests.support.shop import World, claim_one

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture(autouse=True)
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "OVERVIEW_S", -1.0)


def charts(overview: Overview) -> dict[str, dict[tuple[str, str], list[int]]]:
    names = ("depth", "submitted", "completed", "failed", "cancelled")
    return {name: {(line.plan, line.tool): line.values for line in getattr(overview, name)} for name in names}


def codes(overview: Overview) -> list[str]:
    return [alert.code for alert in overview.alerts]


async def open_shop(world: World) -> Ficha:
    app = await world.open(sweep_by_itself=False)
    await app.open_account("ana", plan="open", credits=100)
    return app


async def test_a_day_of_a_shop_is_told_in_figures(world: World) -> None:
    app = await open_shop(world)
    begins_at = world.clock()
    jobs = [(await app.submit("upscale", {"image": f"{n}"}, account="ana")).job_id for n in range(4)]
    world.clock.advance(20)
    await app.finish(await claim_one(app), {"image": "y"}, provider_cost=0.25)
    await app.fail(await claim_one(app), "model 7 is busy")
    await app.cancel(jobs[3])
    for is_folded in (False, True):
        found = await app.overview("1h")
        lines = charts(found)
        name = ("open", "upscale")
        assert {chart: sum(values[name]) for chart, values in lines.items() if chart != "depth"} == {
            **{"submitted": 4, "completed": 1, "failed": 1, "cancelled": 1}
        }
        assert lines["depth"][name][-1] == 1
        cost = -sum(entry.amount for entry in (await app.ledger("ana")).items if entry.kind == "charge")
        assert (sum(found.charged), sum(found.refunded), sum(found.granted)) == (cost, cost // 2, 100)
        assert sum(found.provider_cost) == 0.25
        assert [(failure.reason, failure.count) for failure in found.failures] == [("model … is busy", 1)]
        assert [wait for wait in found.wait_p50 if wait is not None] == [pytest.approx(20, rel=0.07)]
        assert [run for run in found.run_p95 if run is not None] == [pytest.approx(0, abs=0.0011)]
        assert (found.dead_letters, found.dead_letters_more) == (1, False)
        assert {pool.name: (pool.ready, pool.busy) for pool in found.pools}["gpu"] == (1, 0)
        assert found.as_of == moment(world.clock())
        if not is_folded:
            await app.sweep()
    world.clock.advance(3_600)
    assert charts(await app.overview("1h"))["submitted"] == {}
    assert charts(await app.overview("6h"))["depth"][name][-12:] == [1] * 12
    day = await app.overview("24h")
    index = next(n for n, at in enumerate(day.times) if at <= moment(begins_at) < at + timedelta(seconds=day.step_s))
    assert charts(day)["submitted"][name][index] == 4
    assert await app.verify() == []


@pytest.mark.parametrize("asked", RANGES)
async def test_every_list_has_one_value_for_each_step(world: World, asked: str) -> None:
    app = await open_shop(world)
    await app.submit("upscale", {"image": "x"}, account="ana")
    found = await app.overview(asked)
    spans = {"1h": 3_600, "6h": 6 * 3_600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
    assert len(found.times) * found.step_s == spans[asked]
    assert found.times[-1] <= found.as_of < found.times[-1] + timedelta(seconds=found.step_s)
    lists: list[Any] = [found.wait_p50, found.wait_p95, found.run_p50, found.run_p95, found.charged, found.refunded]
    lists += [found.granted, found.provider_cost, *(line.values for line in (*found.depth, *found.submitted))]
    assert {len(values) for values in lists} == {len(found.times)}
    assert charts(found)["depth"]["open", "upscale"] == [0] * (len(found.times) - 1) + [1]


@pytest.mark.parametrize("asked", ["", "2h", "1H", None, 1])
async def test_a_range_that_is_none_is_refused(app: Ficha, asked: Any) -> None:
    with pytest.raises(InvalidArgument, match="range must be one of 1h, 6h, 24h, 7d, 30d"):
        await app.overview(asked)


async def test_an_empty_database_has_an_overview(world: World) -> None:
    app = await world.open(sweep_by_itself=False)
    found = await app.overview()
    assert (found.range, found.depth, found.failures, found.alerts) == ("24h", [], [], [])


def test_a_time_that_is_still_to_come_belongs_to_the_last_step() -> None:
    steps = OverviewSteps.of("1h", 7_200_000_000)
    assert (steps.begins_at, steps.count) == (3_660_000_000, 60)
    assert [steps.index(at) for at in (3_659_999_999, 3_660_000_000, 7_200_000_000, 9_999_999_999)] == [None, 0, 59, 59]


# Alerts


async def test_jobs_that_nobody_serves_are_told_until_somebody_takes_one(world: World) -> None:
    app = await open_shop(world)
    for n in range(2):
        await app.submit("upscale", {"image": f"{n}"}, account="ana")
    [alert] = (await app.overview("1h")).alerts
    assert (alert.code, alert.severity, alert.link) == ("POOL_WITHOUT_WORKER", "critical", "/workers")
    assert alert.text.startswith("2 jobs wait in the pool gpu, and no live worker serves it.")
    await claim_one(app)
    assert codes(await app.overview("1h")) == []
    world.clock.advance(400)
    await app.sweep()
    assert codes(await app.overview("1h")) == ["POOL_WITHOUT_WORKER"]
    await app.pause_pool("gpu")
    assert codes(await app.overview("1h")) == ["POOL_PAUSED"]


async def test_an_open_breaker_is_told(world: World) -> None:
    app = await open_shop(world)
    await app.engine.call(c.OpenBreaker("fal", 600_000, is_declared=True, reason="it is slow"))
    found = await app.overview("1h")
    assert (codes(found), found.providers_down) == (["PROVIDER_DOWN"], ["fal"])
    assert "it is slow" in found.alerts[0].text
