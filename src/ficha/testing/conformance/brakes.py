"""Brakes: a closed tool refuses, a paused one starts nothing, and every row reads back."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import BrakeChanged, Claimed, HeldBack, Refusal, Submitted
from ...core.records import Parked, Ready
from ...store.base import ListBrakes
from ..driver import Driver
from .scenes import new_job, open_house, submit


class BrakeConformance:
    """What an operator has stopped is seen by every submit and every claim."""

    async def test_a_closed_tool_or_pool_refuses_submits_until_it_is_open(self, driver: Driver) -> None:
        await open_house(driver)
        for kind, name in (("tool", "upscale"), ("pool", "gpu")):
            await driver.one(c.CloseSubmits(kind, name, "Not now."), BrakeChanged)  # type: ignore[arg-type]
            refusal = await driver.one(c.Submit("ana", (new_job(driver.new_id()),)), Refusal)
            assert (refusal.code, refusal.details[kind]) == ("TOOL_CLOSED", name)
            await driver.one(c.Submit("ana", (new_job(driver.new_id(), tool="other", pool="cpu"),)), Submitted)
            [brake] = await driver.read(ListBrakes())
            assert (brake.name, brake.closed, brake.paused) == (f"{kind} {name}", "Not now.", False)
            await driver.check()
            # Closed and opened in the group of a submit, which sees what came before it.
            outcomes = await driver.run(
                c.CloseSubmits(kind, name, None),  # type: ignore[arg-type]
                c.Submit("ana", (new_job(driver.new_id()),)),
            )
            assert isinstance(outcomes[1], Submitted)
            assert await driver.read(ListBrakes()) == []
            await driver.check()

    async def test_a_claim_parks_the_jobs_of_a_paused_tool_and_takes_those_behind_them(self, driver: Driver) -> None:
        await open_house(driver)
        held = [await submit(driver, tool="train") for _ in range(2)]
        other = await submit(driver, tool="upscale")
        await driver.one(c.PauseTool("train", ("gpu", "cpu")), BrakeChanged)
        first = await driver.one(c.Claim("w1", ("gpu",), limit=2), Claimed)
        assert (first.leases, sorted(first.held_back)) == ((), sorted((job_id, "gpu") for job_id in held))
        await driver.check()
        outcomes = await driver.run(*(c.HoldBack(job_id, "gpu") for job_id in held))
        assert outcomes == [HeldBack(changed=True)] * 2
        await driver.check()
        second = await driver.one(c.Claim("w1", ("gpu",), limit=2), Claimed)
        assert [lease.job.id for lease in second.leases] == [other]
        rows = await driver.rows()
        assert all(isinstance(place := rows[job_id].job.place, Parked) and place.is_held_back for job_id in held)
        await driver.one(c.PauseTool("train", ("gpu", "cpu"), paused=False), BrakeChanged)
        assert await driver.run(*(c.HoldBack(job_id, "gpu") for job_id in held)) == [HeldBack(changed=True)] * 2
        [brake] = await driver.read(ListBrakes())
        await driver.one(c.SettleTool("train", brake.since_at, False), BrakeChanged)
        assert await driver.read(ListBrakes()) == []
        rows = await driver.rows()
        assert all(isinstance(rows[job_id].job.place, Ready) for job_id in held)
        await driver.check()
