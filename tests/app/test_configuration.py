"""A start with other prices, plans or limits leaves a line in the audit log; a repeat, a command and a sweep none."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ficha import Ficha, Limits, Plan, Retention
from tests.support.shop import World

pytestmark = pytest.mark.long_on("postgresql")


PRO = Plan("pro")


def by_size(size: int) -> int:
    return size * 2


def by_size_and_more(size: int) -> int:
    return size * 3


def application(world: World, cost: int | Callable[..., int] = 5, plan: Plan = PRO, **settings: Any) -> Ficha:
    app = Ficha(store=world._store(world.clock), plans=[plan], **settings)

    @app.tool(cost=cost)
    async def draw(job: Any, size: int = 1) -> None: ...

    return app


async def told(app: Ficha) -> list[dict[str, Any]]:
    """What the lines that its start left say, newest first."""
    async with app:
        return [line.details for line in (await app.audit()).items if line.act == "configure"]


async def test_a_changed_price_plan_or_limit_is_told_once_by_whoever_starts_first(world: World) -> None:
    assert await told(application(world)) == []
    assert await told(application(world)) == []
    [line] = await told(application(world, 6, Plan("pro", per_hour=9), limits=Limits(batch_jobs=7)))
    assert line == {
        "tool draw": "price 5 → 6",
        "plan pro": "per_hour none → 9",
        "limits": "batch_jobs 10000 → 7",
    }
    again = [application(world, 6, Plan("pro", per_hour=9), limits=Limits(batch_jobs=7)) for _ in range(3)]
    assert [len(lines) for lines in await asyncio.gather(*map(told, again))] == [1, 1, 1]
    [line, _] = await told(
        application(world, 6, Plan("pro", per_hour=9), limits=Limits(batch_jobs=7), retention=Retention(jobs=30))
    )
    assert line == {"retention": "jobs none → 30"}


async def test_a_price_by_a_function_is_named_and_compared_by_its_text(world: World) -> None:
    await told(application(world))
    [line] = await told(application(world, by_size))
    assert line["tool draw"].startswith("price 5 → by by_size (code ")
    assert len(await told(application(world, by_size))) == 1
    [line, _] = await told(application(world, by_size_and_more))
    assert "→ by by_size_and_more (code " in line["tool draw"]
    [line, *_] = await told(application(world, lambda size: size))
    assert line["tool draw"].endswith("<lambda>, whose code is not compared")


async def test_a_command_of_the_terminal_is_no_start(world: World) -> None:
    await told(application(world))
    async with Ficha(store=world._store(world.clock)).separate_operations(sweeps=False) as operations:
        assert [line.act for line in (await operations.audit()).items] == []
    assert await told(application(world)) == []
