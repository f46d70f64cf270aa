"""Provider tools within their provider's limits: requests at once, outages, and what the work cost."""

import asyncio
from typing import Any

import pytest

from ficha import Ficha, JobContext, ProviderDown
from ficha.providers import Breaker, ProviderCall
from tests.provider_tools.loopback import (
    OUR_SECRET,
    LoopbackProvider,
    LoopbackServer,
    ended,
    studio,
    submitted,
    working,
)
from tests.support.receiver import Reply
from tests.support.waiting import until


def application(url: str, provider: LoopbackProvider, **options: Any) -> Ficha:
    app = Ficha(url, sweep_s=0.02, secret=OUR_SECRET)
    given: dict[str, Any] = {"cost": 5, "timeout": 60, "attempts": 3, "backoff": 0.01, "backoff_max": 0.01} | options

    @app.provider_tool(provider, **given)
    async def draw(job: JobContext, n: int = 1) -> ProviderCall:
        return ProviderCall("painter", {"n": n})

    return app


async def test_no_more_requests_are_out_at_once_than_the_provider_takes(url: str, server: LoopbackServer) -> None:
    out: list[int] = [0]
    most: list[int] = [0]

    async def slowly(what: str, ref: str) -> None:
        out[0] += 1
        most[0] = max(most[0], out[0])
        await asyncio.sleep(0.01)
        out[0] -= 1

    server.answering = slowly
    async with studio(url, LoopbackProvider(server.url(), at_once=1)) as app, working(app):
        ids = [await submitted(app) for _ in range(3)]
        await until(lambda: len(server.starts) == 3)
        for start in server.starts:
            server.succeed(start["ref"])
        assert len(ids) == 3
        assert most == [1]


async def test_submits_are_refused_or_wait_during_an_outage_as_the_tool_says(url: str, server: LoopbackServer) -> None:
    """One tool refuses, the other waits; they share the provider and its breaker."""
    server.faults["start"] = [Reply(503)] * 2
    provider = LoopbackProvider(server.url(), breaker=Breaker(failures=2, open_s=600), poll_s=0.05)
    app = application(url, provider)

    @app.provider_tool(provider, when_down="wait", timeout=60, attempts=3, backoff=0.01)
    async def wait(job: JobContext) -> ProviderCall:
        return ProviderCall("painter", {})

    async with app, working(app):
        await app.open_account("ana", credits=100)
        first = (await app.submit("draw", account="ana")).job_id

        async def is_down() -> bool:
            return (await app.provider_states())[0].breaker == "open"

        await until(is_down)
        with pytest.raises(ProviderDown):
            await app.submit("draw", account="ana")
        second = (await app.submit("wait", account="ana")).job_id
        assert (await app.account("ana")).balance == 95
        assert len(server.starts) == 2
        [state] = await app.provider_states()
        assert (state.error, state.trips) == ("the provider answered 503", 1)
        await app.reset_breaker("loopback")
        # The jobs come back when they were told to; nobody waits for that here.
        for job_id in (first, second):
            assert (await app.cancel(job_id)).status == "cancelled"
        assert (await app.account("ana")).balance == 100
        third = (await app.submit("draw", account="ana")).job_id
        # (The starts of a cancelled job may be repeated under its key, to find out what to cancel.)
        start = await until(lambda: next((one for one in server.starts if one["key"] == f"{third}:0"), None))
        server.succeed(start["ref"], cost=0.25)
        assert (await ended(app, third)).provider_cost == 0.25


@pytest.mark.parametrize(
    ("said", "declared", "expected"),
    [(0.125, 0.5, 0.125), (None, 0.5, 0.5), (None, lambda n: n / 100, 0.03), (None, None, None), (-1.0, None, None)],
)
async def test_a_success_costs_what_the_provider_says_or_else_the_tool(
    server: LoopbackServer, said: float | None, declared: Any, expected: float | None
) -> None:
    provider = LoopbackProvider(server.url(), poll_s=0.05)
    async with application("memory:", provider, provider_cost=declared) as app, working(app):
        await app.open_account("ana", credits=100)
        job_id = (await app.submit("draw", {"n": 3}, account="ana")).job_id
        await until(lambda: server.starts)
        server.succeed(server.starts[0]["ref"], cost=said)
        job = await ended(app, job_id)
        assert (job.status, job.provider_cost) == ("completed", expected)


async def test_runs_that_the_provider_failed_and_charged_add_up(url: str, server: LoopbackServer) -> None:
    provider = LoopbackProvider(server.url(), poll_s=0.05)
    async with application(url, provider, provider_cost=9) as app, working(app):
        await app.open_account("ana", credits=100)
        job_id = (await app.submit("draw", account="ana")).job_id
        for number, cost in enumerate((0.25, 0.5)):
            await until(lambda number=number: len(server.starts) > number)
            server.fail(server.starts[number]["ref"], "out of memory", final=False, cost=cost)
        await until(lambda: len(server.starts) == 3)
        server.fail(server.starts[2]["ref"], "no", final=True)
        job = await ended(app, job_id)
        assert (job.status, job.provider_cost, job.refunded) == ("failed", 0.75, 5)
        [line] = await app.margins()
        assert (line.jobs, line.credits, line.provider_cost) == (1, 0, 0.75)
