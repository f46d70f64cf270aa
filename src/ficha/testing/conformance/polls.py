"""Jobs that external providers have: when each is polled, and what was kept of call-backs."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import CallbackNoted, PollHeld
from ...store.base import DuePoll, ListJobEvents, ListPolls
from ..driver import Driver
from .scenes import finish, lease, open_house

POLL_MS = 30_000


async def away(driver: Driver, ref: str, poll_ms: int | None = POLL_MS) -> str:
    """A job that a provider has."""
    held = await lease(driver)
    await finish(driver, held, c.AcceptedByProvider(ref, poll_ms))
    return held.job.id


class PollConformance:
    """The collector's queries."""

    async def test_providers_are_asked_in_the_order_in_which_they_are_due(self, driver: Driver) -> None:
        await open_house(driver)
        tool = (await lease(driver)).job.spec.tool
        first, second = await away(driver, "r1"), await away(driver, "r2", 2 * POLL_MS)
        await away(driver, "r3", None)
        asked = ListPolls((tool, "another"))
        assert await driver.read(asked) == [DuePoll(first, POLL_MS), DuePoll(second, 2 * POLL_MS)]
        assert await driver.read(ListPolls((tool,), 1)) == [DuePoll(first, POLL_MS)]
        assert await driver.read(ListPolls(("another",))) == []
        driver.clock.advance(POLL_MS / 1_000 - 0.000_001)
        assert [due.wait_ms for due in await driver.read(asked)] == [1, POLL_MS + 1]
        driver.clock.advance(0.000_001)
        assert [due.wait_ms for due in await driver.read(asked)] == [0, POLL_MS]
        assert (await driver.one(c.HoldPoll(first, 2 * POLL_MS), PollHeld)).job is not None
        assert [due.job_id for due in await driver.read(asked)] == [second, first]
        await driver.run(c.CancelJob(first))
        assert [due.job_id for due in await driver.read(asked)] == [second]
        await driver.check()

    async def test_call_backs_are_kept_with_the_job_while_it_is_active_and_after_its_end(self, driver: Driver) -> None:
        await open_house(driver)
        job_id = await away(driver, "r1")
        note = c.NoteCallback(
            job_id, 0, "verified", "r1", {"webhook-id": "m1"}, '{"é": "\u2028"}', '{"type": "working"}'
        )
        assert (await driver.one(note, CallbackNoted)).asks
        await driver.run(c.Finish(job_id, c.Completed("1"), attempt=0))
        assert not (await driver.one(note, CallbackNoted)).asks
        kept = await driver.read(ListJobEvents(job_id, "callback"))
        assert [event.data for event in kept] == [
            {
                "verdict": "verified",
                "attempt": 0,
                "body": note.body,
                "about": "r1",
                "headers": {"webhook-id": "m1"},
                "told": '{"type": "working"}',
            }
        ] * 2
        assert await driver.read(ListJobEvents(job_id, "late")) == []
        assert driver.expected.jobs[job_id].callbacks == 2
        await driver.check()
