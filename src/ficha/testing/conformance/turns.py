"""External providers: turns under one lock, the states of a circuit breaker, and what jobs earned and cost."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import Refusal, TurnEnded, TurnTaken
from ...core.policy import DAY, TurnTerms
from ...core.records import ProviderOutage, ProviderState
from ...store.base import GetMargins, ListProviders, MarginLine
from ..driver import Driver
from .scenes import finish, lease, new_job, open_house

TERMS = TurnTerms(interval_us=1_000_000, at_once=8, longest_wait_ms=60_000, failures=2, open_ms=10_000)


class TurnConformance:
    """The limits of providers and the queries about them."""

    async def test_turns_taken_at_once_get_instants_of_their_own(self, driver: Driver) -> None:
        """Also the first ones, when there is no row to lock yet."""
        outcomes = await driver.race(*([c.TakeTurn("fal", f"t{number}", TERMS)] for number in range(10)))
        waits = sorted(taken.wait_ms for (taken,) in outcomes if isinstance(taken, TurnTaken))
        assert waits == [1_000 * number for number in range(8)]
        assert sum(isinstance(taken, Refusal) for (taken,) in outcomes) == 2
        await driver.check()

    async def test_a_breaker_opens_once_lets_one_probe_through_and_closes(self, driver: Driver) -> None:
        ends = [c.EndTurn("fal", f"t{number}", TERMS, is_fault=True, error="502 ☔") for number in range(6)]
        await driver.race(*([end] for end in ends))
        [row] = await driver.read(ListProviders())
        outage = ProviderOutage("fal", row.now, row.now + 10_000_000, error="502 ☔")
        assert (row.outage, row.now) == (outage, driver.clock.now)
        driver.clock.advance(10)
        outcomes = await driver.race(*([c.TakeTurn("fal", f"p{number}", TERMS)] for number in range(6)))
        taken = [outcome for (outcome,) in outcomes if isinstance(outcome, TurnTaken)]
        assert [turn.is_probe for turn in taken] == [True]
        assert {outcome.code for (outcome,) in outcomes if isinstance(outcome, Refusal)} == {"PROVIDER_DOWN"}
        assert await driver.one(c.EndTurn("fal", taken[0].turn_id, TERMS), TurnEnded) == TurnEnded(is_open=False)
        [row] = await driver.read(ListProviders())
        assert row.outage is None
        assert [line.act for line in await driver.audit()] == ["open_breaker", "close_breaker"]
        await driver.check()

    async def test_providers_are_listed_by_name_with_what_is_stored_of_each(self, driver: Driver) -> None:
        assert await driver.read(ListProviders()) == []
        await driver.run(c.TakeTurn("own", "t1", TERMS), c.OpenBreaker("down", 5, is_declared=True))
        down, own = await driver.read(ListProviders())
        assert (down.name, down.state, down.outage) == (
            "down",
            None,
            ProviderOutage("down", down.now, down.now + 5_000, trips=0),
        )
        held = (("t1", own.now + TERMS.hold_ms * 1_000),)
        assert (own.state, own.outage) == (ProviderState("own", own.now + 1_000_000, held), None)
        assert [row.name for row in await driver.read(ListProviders(limit=1))] == ["down"]
        await driver.run(c.CloseBreaker("down"))
        assert [row.name for row in await driver.read(ListProviders())] == ["own"]
        await driver.check()

    async def test_a_submit_is_refused_by_the_outage_that_is_stored(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.OpenBreaker("fal", 1_000, is_declared=True))
        asked = c.Submit("ana", (new_job(driver.new_id(), provider="fal"),))
        refused = await driver.one(asked, Refusal)
        assert (refused.code, refused.retry_after_s) == ("PROVIDER_DOWN", 1)
        driver.clock.advance(1)
        await driver.run(asked)
        await driver.check()

    async def test_what_providers_took_reads_back_and_is_summed_by_day_tool_and_plan(self, driver: Driver) -> None:
        await open_house(driver)
        driver.clock.now = 100 * DAY - 1
        first = await lease(driver, max_attempts=2)
        await finish(driver, first, c.Failed("again", provider_cost=7))
        await driver.check()
        await finish(driver, await lease(driver), c.Completed("1", provider_cost=2**40))
        await finish(driver, await lease(driver, "bob"), c.Completed("1"))
        driver.clock.now = 100 * DAY
        await finish(driver, await lease(driver, tool="draw"), c.Failed("no", final=True, provider_cost=0))
        late = await lease(driver)
        await driver.run(c.CancelJob(late.job.id))
        await finish(driver, late, c.Completed("1", provider_cost=5))
        await driver.check()
        assert await driver.read(GetMargins(0, 2**50)) == [
            MarginLine(99, "upscale", "pro", 2, 10, 7 + 2**40),
            MarginLine(100, "draw", "pro", 1, 0, 0),
            MarginLine(100, "upscale", "pro", 1, 0, 5),
        ]
        assert [line.day_number for line in await driver.read(GetMargins(100 * DAY, 2**50, 1))] == [100]
        assert [line.day_number for line in await driver.read(GetMargins(0, 100 * DAY))] == [99]
