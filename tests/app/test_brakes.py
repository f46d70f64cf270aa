"""Brakes: a tool is paused, or a tool or a pool takes no submits, and the rest goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ficha import Ficha, JobContext, NotFound, Refused, ToolClosed
from ficha.core.commands import PauseTool
from ficha.engine.brakes import settle
from ficha.operations.schedules import ScheduleFirer
from tests.support.shop import World, balance, state


async def submitted(app: Ficha, tool: str, count: int = 1, account: str = "ana", **options: Any) -> list[str]:
    payload = {"image": "x"} if tool == "upscale" else {}
    return [(await app.submit(tool, payload, account=account, **options)).job_id for _ in range(count)]


async def claimed(app: Ficha, pool: str = "cpu", limit: int = 100) -> list[str]:
    return [lease.job_id for lease in await app.claim(pool, limit=limit, worker="w1")]


async def waits_for(app: Ficha, job_id: str) -> tuple[str | None, int | None]:
    job = await app.job(job_id)
    return job.waiting_for, job.position


async def test_a_paused_tool_starts_nothing_and_others_of_its_pool_go_on(app: Ficha) -> None:
    before = await submitted(app, "anything", 3)
    other = await submitted(app, "stubborn")
    running = await claimed(app, limit=1)
    assert running == before[:1]
    told = await app.pause_tool("anything")
    assert (told.kind, told.name, told.paused, told.closed) == ("tool", "anything", True, None)
    later = await submitted(app, "anything", 2)
    assert await claimed(app) == other
    assert await claimed(app) == []
    for job_id in (*before[1:], *later):
        assert await waits_for(app, job_id) == ("tool_paused", None)
        assert (await app.job(job_id)).scheduled_at is None
    [mine] = [pool for pool in await app.pools() if pool.name == "cpu"]
    assert (mine.ready, mine.parked, mine.paused, mine.paused_tools) == (0, 4, False, ("anything",))
    assert (await app.job(running[0])).status in ("starting", "running")
    assert await app.verify() == []

    told = await app.resume_tool("anything")
    assert (told.paused, told.since) == (False, None)
    assert await app.brakes() == []
    assert await claimed(app) == [*before[1:], *later]
    assert await app.verify() == []


async def test_jobs_held_back_do_not_take_their_accounts_places(app: Ficha) -> None:
    await app.open_account("bea", plan="single", credits=10)
    [held] = await submitted(app, "anything", account="bea")
    await app.pause_tool("anything")
    assert (await app.account("bea")).active == 1
    assert await waits_for(app, held) == ("tool_paused", None)
    await app.cancel(held)
    assert (await app.job(held)).status == "cancelled"
    assert await app.verify() == []


async def test_a_claim_that_meets_jobs_of_a_paused_tool_reaches_those_behind_them(app: Ficha) -> None:
    """As when they became ready after the pause: a retry, or a job whose account was at its limit."""
    held = await submitted(app, "anything", 7)
    other = await submitted(app, "stubborn", 2)
    await app.engine.call(PauseTool("anything", ("cpu", "gpu")))
    assert await claimed(app, limit=2) == other
    assert [await waits_for(app, job_id) for job_id in held] == [("tool_paused", None)] * 7
    assert await app.verify() == []
    await app.resume_tool("anything")
    assert await claimed(app) == held


async def test_a_process_that_dies_after_the_pause_leaves_the_rest_to_the_sweeper(app: Ficha) -> None:
    jobs = await submitted(app, "anything", 3)
    await app.engine.call(PauseTool("anything", ("cpu", "gpu")))
    assert await settle(app.engine) == 3
    assert await settle(app.engine) == 0
    await app.engine.call(PauseTool("anything", ("cpu", "gpu"), paused=False))
    assert (await app.brakes(), await claimed(app)) == ([], [])
    assert await settle(app.engine) == 3
    assert (await app.brakes(), await settle(app.engine)) == ([], 0)
    assert await claimed(app) == jobs


async def test_a_held_back_job_that_waits_too_long_is_cancelled_and_refunded(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="open", credits=10)
    [job] = await submitted(app, "hasty")
    await app.pause_tool("hasty")
    world.clock.advance(6)
    await app.sweep()
    assert ((await app.job(job)).status, await balance(app)) == ("cancelled", 10)
    assert await app.verify() == []


async def test_a_closed_tool_refuses_with_the_operators_sentence_and_charges_nothing(app: Ficha) -> None:
    [first] = await submitted(app, "anything", idempotency_key="k1")
    before = await balance(app)
    told = await app.close_tool("anything", reason="We mend it until noon")
    assert (told.closed, told.paused) == ("We mend it until noon.", False)
    with pytest.raises(ToolClosed, match="anything takes no jobs now: We mend it until noon") as no:
        await submitted(app, "anything")
    assert (no.value.refusal.details, no.value.refusal.retryable) == (
        {"tool": "anything", "reason": "We mend it until noon."},
        False,
    )
    again = await app.submit("anything", {}, account="ana", idempotency_key="k1")
    assert (again.job_id, again.idempotent_hit) == (first, True)
    quote = await app.quote("anything", {}, account="ana")
    assert (quote.admitted, quote.refusal and quote.refusal.code) == (False, "TOOL_CLOSED")
    with pytest.raises(ToolClosed):
        await app.submit_batch([("stubborn", {}), ("anything", {})], account="ana")
    with pytest.raises(ToolClosed):
        await app.submit_batch([("stubborn", {}), ("anything", {})], account="ana", as_far_as_credits=True)
    assert await balance(app) == before
    assert await claimed(app) == [first], "what was accepted goes on"
    assert (await app.open_tool("anything")).closed is None
    await submitted(app, "anything")
    assert await app.verify() == []


async def test_a_closed_pool_refuses_all_its_tools_and_no_other(app: Ficha) -> None:
    await app.pause_pool("cpu")
    await app.close_pool("cpu", reason="The machines move.")
    for tool in ("anything", "stubborn"):
        with pytest.raises(ToolClosed, match="the pool cpu takes no jobs now: The machines move"):
            await submitted(app, tool)
    await submitted(app, "upscale")
    with pytest.raises(NotFound):
        await app.close_pool("none", reason="x")
    await app.open_pool("cpu")
    await submitted(app, "anything")


async def test_pausing_and_closing_one_tool_are_apart(app: Ficha) -> None:
    await app.pause_tool("anything")
    await app.close_tool("anything", reason="Bad deploy.")
    [both] = await app.brakes()
    assert (both.paused, both.closed) == (True, "Bad deploy.")
    await app.resume_tool("anything")
    [one] = await app.brakes()
    assert (one.paused, one.closed) == (False, "Bad deploy.")
    assert (await app.open_tool("anything")).since is None
    assert await app.brakes() == []


async def test_each_act_is_audited_and_a_repeat_changes_nothing(app: Ficha) -> None:
    boss = app.acting("boss")
    for _ in range(2):
        await boss.pause_tool("anything")
        await boss.close_tool("anything", reason="Why.")
    await boss.open_tool("anything")
    await boss.resume_tool("anything")
    await boss.close_pool("cpu", reason="Why not.")
    await boss.open_pool("cpu")
    lines = [line for line in reversed((await app.audit()).items) if line.actor == "boss"]
    assert [(line.act, line.target, line.details.get("reason"), line.details.get("changed")) for line in lines] == [
        ("pause_tool", "tool anything", None, None),
        ("close_tool", "tool anything", "Why.", None),
        ("pause_tool", "tool anything", None, False),
        ("close_tool", "tool anything", "Why.", False),
        ("open_tool", "tool anything", None, None),
        ("resume_tool", "tool anything", None, None),
        ("close_pool", "pool cpu", "Why not.", None),
        ("open_pool", "pool cpu", None, None),
    ]


@pytest.mark.parametrize("bad", ["", " ", None, 5])
async def test_a_reason_is_a_sentence(app: Ficha, bad: Any) -> None:
    with pytest.raises(Refused) as no:
        await app.close_tool("anything", reason=bad)
    assert no.value.code == "INVALID_ARGUMENT"
    for act in (app.pause_tool, app.resume_tool, app.open_tool):
        with pytest.raises(Refused) as no:
            await act("nothing")
        assert no.value.code == "UNKNOWN_TOOL"


async def test_a_recurring_job_of_a_closed_tool_is_refused_and_its_next_slot_fires(world: World) -> None:
    def minutely(app: Ficha) -> None:
        @app.cron("* * * * *", account="ana")
        @app.tool(pool="cpu", cost=1)
        async def tidy(job: JobContext) -> None: ...

    app = await world.open(minutely)
    await app.open_account("ana", plan="open", credits=10)
    await app.close_tool("tidy", reason="Broken.")
    firer = ScheduleFirer(app)
    await firer.fire()
    world.clock.advance(60)
    await firer.fire()
    [told] = await app.schedules()
    assert (told.refused, told.fired, told.last and told.last.code) == (1, 0, "TOOL_CLOSED")
    await app.open_tool("tidy")
    world.clock.advance(60)
    await firer.fire()
    [told] = await app.schedules()
    assert (told.refused, told.fired, told.last and told.last.code) == (1, 1, None)


async def test_a_user_does_not_run_a_dead_letter_of_a_closed_tool_again_and_an_operator_does(app: Ficha) -> None:
    batch = await app.submit_batch([("anything", {})], account="ana")
    [lease] = await app.claim("cpu", worker="w1")
    await app.fail(lease, "no")
    for close in (app.close_tool("anything", reason="x"), app.close_pool("cpu", reason="x")):
        await close
        told = await app.resume_batch(str(batch.batch_id), account="ana")
        assert (told.resumed, told.refusal and told.refusal.code) == (0, "TOOL_CLOSED")
        await app.open_tool("anything")
    await app.requeue(lease.job_id)


async def test_submits_and_closing_at_once_leave_no_job_charged_and_refused(app: Ficha) -> None:
    async def one() -> str:
        try:
            return (await app.submit("anything", {}, account="ana")).job_id
        except ToolClosed:
            return ""

    before = await balance(app)
    done = await asyncio.gather(*(one() for _ in range(20)), app.close_tool("anything", reason="x"))
    jobs = [job for job in done[:20] if job]
    charged = [(await app.job(str(job))).charged for job in jobs]
    assert await balance(app) == before - sum(charged)
    assert len((await state(app)).jobs) == len(jobs)
    assert await app.verify() == []
