"""Sessions of pages: due from the exact microsecond, with their queued jobs, until they end."""

from __future__ import annotations

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import SessionChanged, SessionEnded
from ...core.records import PageSessions
from ...store.base import GetDue, GetPageSessions, ListSessionJobs
from ..driver import Driver
from .scenes import lease, open_house, submit

NEVER_MS = 10**9


async def due(driver: Driver, limit: int = 500) -> list[str]:
    return (await driver.read(GetDue(NEVER_MS, NEVER_MS, limit))).sessions


class SessionConformance:
    """The sweeper's queries, and the record."""

    async def test_sessions_read_back_after_every_change(self, driver: Driver) -> None:
        await open_house(driver)
        assert await driver.read(GetPageSessions("ana")) is None
        changes = [c.ChangeSession("ana", name, to) for name in ("s 1", 'it\'s \\ "é"') for to in ("open", "left")]
        for change in changes:
            await driver.run(change)
            await driver.check()
        found = await driver.read(GetPageSessions("ana"))
        assert found == driver.expected.of(PageSessions)["ana"]
        assert [(session.name, session.is_left) for session in found.sessions] == [
            ("s 1", True),
            ('it\'s \\ "é"', True),
        ]
        driver.clock.advance(60)
        await driver.run(*(c.EndSession("ana", session.name) for session in found.sessions))
        await driver.check()
        assert await driver.read(GetPageSessions("ana")) is None

    async def test_an_account_is_due_when_the_first_of_its_sessions_ends(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.ChangeSession("ana", "s1", "open"))
        left = await driver.one(c.ChangeSession("ana", "s2", "left"), SessionChanged)
        driver.clock.now = left.session.ends_at - 1
        assert await due(driver) == []
        driver.clock.now += 1
        assert await due(driver) == ["ana"]
        await driver.one(c.EndSession("ana", "s2"), SessionEnded)
        assert await due(driver) == []
        driver.clock.advance(600)
        await driver.run(c.ChangeSession("bob", "s1", "left"))
        driver.clock.advance(60)
        assert (await due(driver), await due(driver, limit=1)) == (["ana", "bob"], ["ana"])

    async def test_the_queued_jobs_of_a_session_are_found_and_no_others(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, session="s1")
        ended = await submit(driver, session="s1")
        await driver.run(c.CancelJob(ended))
        await submit(driver, session="s2")
        await submit(driver)
        await submit(driver, "bob", session="s1")
        queued = [await submit(driver, session="s1") for _ in range(3)]
        assert await driver.read(ListSessionJobs("ana", "s1")) == sorted(queued)
        assert await driver.read(ListSessionJobs("ana", "s1", 2)) == sorted(queued)[:2]
        assert await driver.read(ListSessionJobs("ana", "none")) == []
        await driver.run(c.Finish(held.job.id, c.RetryLater(1_000), held.epoch))
        assert held.job.id in await driver.read(ListSessionJobs("ana", "s1"))

    async def test_a_session_that_ends_cancels_its_queued_jobs_once(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, session="s1")
        jobs = [await submit(driver, "bob", session="s1") for _ in range(2)]
        jobs += [await submit(driver, session="s1") for _ in range(2)]
        await driver.run(c.ChangeSession("ana", "s1", "left"), c.ChangeSession("bob", "s1", "left"))
        driver.clock.advance(60)
        for account in ("ana", "bob"):
            end = c.EndSession(account, "s1", (*jobs, held.job.id))
            outcomes = await driver.run(end, end)
            assert outcomes == [SessionEnded(2), SessionEnded(changed=False)]
            await driver.check()
        assert {driver.expected.jobs[job_id].refunded for job_id in jobs} == {5}
        assert driver.expected.jobs[held.job.id].status == "starting"

    async def test_a_submit_of_a_session_that_was_left_keeps_it_open(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.ChangeSession("ana", "s1", "left"))
        await submit(driver, session="s1")
        await driver.check()
        known = await driver.read(GetPageSessions("ana"))
        assert known is not None
        assert known.sessions == (replace(known.sessions[0], ends_at=driver.clock() + 600_000_000, is_left=False),)
