"""Bulk acts: due from the exact microsecond, done once per job, listed newest first."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import BulkActChanged, BulkActHeld
from ...core.records import BulkAct, BulkVerb
from ...store.base import ListBulkActs, ListDueBulkActs
from ..driver import Driver
from .scenes import finish, lease, open_house, submit

LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"


async def begin(driver: Driver, act: BulkVerb = "requeue", floor_id: str | None = None) -> str:
    command = c.BeginBulkAct(driver.new_id(), act, "dead:yes é", "it's \\ why", "boss", 2, 10, LAST, floor_id)
    return (await driver.one(command, BulkActChanged)).act.id


async def due(driver: Driver, limit: int = 50) -> list[str]:
    return [act.id for act in await driver.read(ListDueBulkActs(limit))]


class BulkActConformance:
    """The record, and the queries of the process that works on acts."""

    async def test_a_bulk_act_reads_back_after_every_step(self, driver: Driver) -> None:
        await open_house(driver)
        held = [await lease(driver, max_attempts=1) for _ in range(2)]
        for one in held:
            await finish(driver, one, c.Failed("it broke"))
        waiting = await submit(driver, "bob")
        act_id = await begin(driver, floor_id=held[0].job.id)
        await driver.check()
        taken = await driver.one(c.HoldBulkAct(act_id, 30_000), BulkActHeld)
        assert taken.act is not None
        await driver.check()
        jobs = tuple((job_id, driver.new_id()) for job_id in (held[1].job.id, waiting))
        step = c.AdvanceBulkAct(act_id, 1, 30_000, LAST, jobs, held[1].job.id)
        await driver.run(step, step)
        await driver.check()
        await driver.run(
            c.AdvanceBulkAct(act_id, 1, 30_000, held[1].job.id, ((held[0].job.id, driver.new_id()),), None)
        )
        await driver.check()
        [act] = await driver.read(ListBulkActs(act_id))
        assert act == driver.expected.of(BulkAct)[act_id]
        assert (act.state, act.done, act.failed, act.floor_id) == ("done", 2, 1, held[0].job.id)
        assert [(failure.job_id, failure.code) for failure in act.failures] == [(waiting, "INVALID_STATE")]
        assert len(driver.expected.audit) == 2

    async def test_a_refund_of_a_part_is_due_and_held_like_any_act_and_reads_back(self, driver: Driver) -> None:
        await open_house(driver)
        shares, amounts = driver.new_id(), driver.new_id()
        words = ("state:completed", "why", "boss", 2, 10, LAST)
        await driver.run(c.BeginBulkAct(shares, "refund", *words, share="0.25"))
        driver.clock.advance(1)
        await driver.run(c.BeginBulkAct(amounts, "refund", *words, amount=10**12))
        whole = await begin(driver, "refund")
        assert await due(driver) == [shares, *sorted((amounts, whole))]
        await driver.run(c.HoldBulkAct(shares, 30_000), c.StopBulkAct(amounts))
        await driver.check()
        assert await due(driver) == [whole]
        driver.clock.advance(30)
        assert await due(driver) == [whole, shares]
        [act] = await driver.read(ListBulkActs(amounts))
        assert (act.state, act.amount, act.share) == ("stopped", 10**12, None)

    async def test_acts_are_due_until_they_are_held_and_again_when_the_hold_is_over(self, driver: Driver) -> None:
        await open_house(driver)
        first = await begin(driver)
        driver.clock.advance(1)
        second = await begin(driver, "cancel")
        assert (await due(driver), await due(driver, 1)) == ([first, second], [first])
        await driver.run(c.HoldBulkAct(first, 30_000), c.StopBulkAct(second))
        assert await due(driver) == []
        driver.clock.advance(30)
        driver.clock.now -= 1
        assert await due(driver) == []
        driver.clock.now += 1
        assert await due(driver) == [first]
        await driver.check()

    async def test_acts_are_listed_newest_first(self, driver: Driver) -> None:
        await open_house(driver)
        acts = [await begin(driver) for _ in range(3)]
        listed = [act.id for act in await driver.read(ListBulkActs())]
        assert listed == acts[::-1]
        assert [act.id for act in await driver.read(ListBulkActs(before=acts[2], limit=1))] == [acts[1]]
        assert await driver.read(ListBulkActs(driver.new_id())) == []
