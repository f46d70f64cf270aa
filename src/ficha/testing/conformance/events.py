"""Events: listed by job and by account, and their last number."""

from __future__ import annotations

from unittest.mock import patch

from ...core import commands as c
from ...store import base
from ...store.base import GetHorizon, Horizon, ListEvents, NumberedEvent
from ..comparing import comparable
from ..driver import Driver
from .listings import assert_pages
from .scenes import one_in_each_place, open_house, submit


class EventConformance:
    """Queries of events."""

    async def test_events_are_listed_oldest_first_with_numbers_that_rise(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        events = driver.expected.events
        everything = await driver.read(ListEvents(limit=1_000))
        numbers = [found.number for found in everything]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0
        assert comparable([found.event for found in everything]) == comparable(events)
        for job_id, account_id in (
            (None, None),
            (places.running, None),
            (None, "ana"),
            (None, "bob"),
            (places.partial, "ana"),
            (places.partial, "bob"),
            (driver.new_id(), None),
            (None, "nobody"),
        ):
            expected = [
                found
                for found in everything
                if job_id in (None, found.event.job_id) and account_id in (None, found.event.account_id)
            ]

            def page(
                last: NumberedEvent | None, limit: int, job_id: str | None = job_id, account_id: str | None = account_id
            ) -> ListEvents:
                after = 0 if last is None else last.number
                return ListEvents(job_id=job_id, account_id=account_id, after=after, limit=limit)

            await assert_pages(driver, expected, page)

    async def test_events_of_any_of_several_jobs_and_accounts_are_listed_in_one(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        everything = await driver.read(ListEvents(limit=1_000))
        several = (places.running, places.partial, driver.new_id(), "no id")
        for jobs, accounts in (
            (several, ()),
            (several, ("bob",)),
            ((places.running,), ("ana",)),
            ((), ("bob", "eva", "nobody")),
            ((driver.new_id(),), ()),
            ((), ("nobody", 'a {"b", c}')),
            (tuple(driver.new_id() for _ in range(1_000)), ("ana",)),
        ):
            expected = [
                found for found in everything if found.event.job_id in jobs or found.event.account_id in accounts
            ]

            def page(
                last: NumberedEvent | None,
                limit: int,
                jobs: tuple[str, ...] = jobs,
                accounts: tuple[str, ...] = accounts,
            ) -> ListEvents:
                return ListEvents(after=0 if last is None else last.number, limit=limit, jobs=jobs, accounts=accounts)

            await assert_pages(driver, expected, page)
        both = await driver.read(ListEvents(account_id="ana", jobs=several, accounts=("bob",), limit=1_000))
        assert both == [found for found in everything if found.event.job_id in several]

    async def test_of_all_events_the_newest_are_searched_for_those_of_an_account(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        everything = await driver.read(ListEvents(limit=1_000))
        mine = [found for found in everything if found.event.account_id == "ana"]
        for searched in (1, 5, len(everything) - 1, len(everything)):
            newest = everything[-searched].number
            with patch.object(base, "EVENTS_SEARCHED", searched):
                found = await driver.read(ListEvents(account_id="ana", limit=1_000))
                of_job = await driver.read(ListEvents(job_id=places.running, account_id="ana", limit=1_000))
            assert found == [one for one in mine if one.number >= newest]
            # A job has its own, however old they are.
            assert of_job == [one for one in mine if one.event.job_id == places.running]

    async def test_the_horizon_is_the_number_of_the_last_event(self, driver: Driver) -> None:
        assert await driver.read(GetHorizon()) == Horizon(0)
        await open_house(driver)
        last = 0
        for _ in range(2):
            await submit(driver)
            last = (await driver.read(ListEvents(limit=1_000)))[-1].number
            assert await driver.read(GetHorizon()) == Horizon(last)
        await driver.run(c.Elect("sweeping", "us", 1_000), c.Cancel(driver.new_id()))
        assert await driver.read(GetHorizon()) == Horizon(last)
