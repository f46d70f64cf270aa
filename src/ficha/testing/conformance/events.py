"""What happened: a job's history, and the commits that bring it to followers."""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

from ...core import commands as c
from ...core.needs import Needs
from ...core.records import Event
from ...core.snapshot import Changes, Snapshot
from ...store import base
from ...store.base import Commit, Decision, GetFirstSearched, GetHistory, GetHorizon, Horizon, ListAccepted, ListCommits
from ...store.commits import EVENTS_PER_COMMIT, placed
from ..comparing import comparable
from ..driver import Driver
from .listings import assert_pages
from .scenes import finish, lease, one_in_each_place, open_house, submit

KEPT_MS = 86_400_000


class EventConformance:
    """Histories and commits."""

    async def test_the_history_of_a_job_is_whole_in_pages_of_any_size(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        await driver.run(c.Finish(places.partial, c.Completed("1"), 9), c.Finish(places.ready, c.Failed("no"), 9))
        for job_id in (*driver.expected.jobs, driver.new_id(), "no id"):
            expected = [event for event in driver.expected.events if event.job_id == job_id]

            def page(last: Event | None, limit: int, job_id: str = job_id) -> GetHistory:
                return GetHistory(job_id, 0 if last is None else last.number, limit)

            await assert_pages(driver, expected, page)
            assert await driver.read(GetHistory(job_id, len(expected) + 1)) == []

    async def test_the_jobs_of_a_provider_are_found_by_its_reference_newest_first(self, driver: Driver) -> None:
        await open_house(driver)
        taken = []
        for ref in ('p "1"', "p-2", 'p "1"'):
            held = await lease(driver)
            await driver.run(c.Finish(held.job.id, c.AcceptedByProvider(ref), held.epoch))
            driver.clock.advance(1)
            taken.append(held.job.id)
        await driver.run(c.Finish(taken[0], c.Completed("1")), c.CancelJob(taken[1]))
        found = await driver.read(ListAccepted('p "1"'))
        assert [(event.job_id, event.kind) for event in found] == [(taken[2], "accepted"), (taken[0], "accepted")]
        assert [event.job_id for event in await driver.read(ListAccepted("p-2"))] == [taken[1]]
        assert await driver.read(ListAccepted("accepted")) == []

    async def test_commits_are_listed_oldest_first_with_numbers_that_rise(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        everything = await driver.read(ListCommits(limit=1_000))
        numbers = [commit.number for commit in everything]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        told = [event for commit in everything for event in commit.events]
        assert comparable(told) == comparable(driver.expected.events)

        def page(last: Commit | None, limit: int) -> ListCommits:
            return ListCommits(0 if last is None else last.number, limit)

        await assert_pages(driver, everything, page)

    async def test_the_commits_of_an_account_are_all_that_tell_of_it(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        strange = 'a "b" \\ é'
        await driver.run(c.OpenAccount(strange, "pro", 1_000))
        await submit(driver, strange)
        everything = await driver.read(ListCommits(limit=1_000))
        for account_id in ("ana", "bob", "an", strange, "nobody"):
            mine = [commit for commit in everything if any(one.account_id == account_id for one in commit.events)]

            def page(last: Commit | None, limit: int, account_id: str = account_id) -> ListCommits:
                return ListCommits(0 if last is None else last.number, limit, account_id)

            await assert_pages(driver, mine, page)
            assert mine or account_id in ("an", "nobody")

    async def test_the_newest_commits_are_searched_until_they_have_enough_events(self, driver: Driver) -> None:
        assert await driver.read(GetFirstSearched()) == 0
        await one_in_each_place(driver)
        everything = await driver.read(ListCommits(limit=1_000))
        told = sum(len(commit.events) for commit in everything)
        for searched in (1, 2, 5, told - 1, told, told + 1, 1_000):
            with patch.object(base, "EVENTS_SEARCHED", searched):
                first = await driver.read(GetFirstSearched())
            newer = sum(len(commit.events) for commit in everything if commit.number > first)
            newest = [commit for commit in everything if commit.number >= first]
            if len(newest) < len(everything):
                assert newer < searched <= newer + len(newest[0].events)
            else:
                assert newer < searched

    async def test_the_horizon_is_the_number_of_the_last_commit(self, driver: Driver) -> None:
        assert await driver.read(GetHorizon()) == Horizon(0)
        await open_house(driver)
        for _ in range(2):
            await submit(driver)
            last = (await driver.read(ListCommits(limit=1_000)))[-1].number
            assert await driver.read(GetHorizon()) == Horizon(last)

    async def test_commits_are_kept_for_their_time_and_histories_for_ever(self, driver: Driver) -> None:
        await open_house(driver)
        await finish(driver, await lease(driver), c.Completed("1"))
        old = [commit.number for commit in await driver.read(ListCommits())]
        driver.clock.advance(10)
        await submit(driver)
        new = [commit.number for commit in await driver.read(ListCommits()) if commit.number not in old]
        driver.clock.advance(KEPT_MS / 1_000 - 10)
        assert not await driver.store.tidy(KEPT_MS)
        assert [commit.number for commit in await driver.read(ListCommits())] == old + new
        driver.clock.advance(0.000_001)
        with patch.object(base, "COMMITS_PRUNED", 1):
            assert await driver.store.tidy(KEPT_MS), "there is more to clear away"
        assert [commit.number for commit in await driver.read(ListCommits())] == old[1:] + new
        assert not await driver.store.tidy(KEPT_MS)
        assert [commit.number for commit in await driver.read(ListCommits())] == new
        driver.clock.advance(KEPT_MS)
        await driver.store.tidy(KEPT_MS)
        # The newest stays, so that no follower believes that the numbers begin anew.
        assert [commit.number for commit in await driver.read(ListCommits())] == new[-1:]
        assert await driver.read(GetHorizon()) == Horizon(new[-1])
        await submit(driver)
        assert (await driver.read(GetHorizon())).last > new[-1]
        await driver.check()

    async def test_a_commit_that_tells_very_much_takes_several_rows_and_is_marked_once(self, driver: Driver) -> None:
        await open_house(driver)
        job_id = await submit(driver)
        first = (await driver.read(ListCommits()))[-1].number
        for sequence, (count, sizes) in enumerate(
            ((EVENTS_PER_COMMIT, [EVENTS_PER_COMMIT]), (EVENTS_PER_COMMIT + 1, [EVENTS_PER_COMMIT, 1]))
        ):
            events = [Event(job_id, "ana", number, "log", driver.clock()) for number in range(2, count + 2)]
            committer, changes = driver.new_id(), Changes(events=events)
            await driver.store.transact(committer, sequence, Needs(), partial(_given, changes))
            assert await driver.store.committed(committer, sequence)
            found = await driver.read(ListCommits(first))
            assert [len(commit.events) for commit in found] == sizes
            assert [event for commit in found for event in commit.events] == events
            places = [numbered.number for commit in found for numbered in placed(commit)]
            assert places == sorted(set(places))
            first = found[-1].number


def _given(changes: Changes, snapshot: Snapshot) -> Decision:
    return changes, []
