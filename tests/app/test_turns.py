"""Turns: requests to a provider keep its limits over all processes, and its circuit breaker refuses and recovers."""

from __future__ import annotations

import asyncio
import heapq
import random
import time
from typing import Any

import pytest
from msgspec import Struct

from ficha import Ficha, InvalidArgument, JobContext, NotFound, ProviderDown, RateLimited
from ficha.core import commands as c
from ficha.core.outcomes import Refusal, TurnTaken
from ficha.core.policy import SECOND
from ficha.core.records import ProviderOutage, ProviderState
from ficha.errors import Refused
from ficha.operations import turns
from ficha.operations.turns import terms_of
from ficha.providers import Provider, ProviderCall
from tests.support.shop import World, balance, state
from tests.support.waiting import until


class Breaker(Struct, frozen=True):
    failures: int = 2
    open_s: float = 30.0


class Limited(Struct):
    """What a turn needs of a provider."""

    name: str = "fal"
    rate: str | None = None
    at_once: int | None = None
    timeout_s: float = 30.0
    breaker: Breaker = Breaker()


def declare_drawing(app: Ficha) -> None:
    @app.provider_tool(Provider("fal", rate="600/m", at_once=20), pool="cpu", cost=3)
    async def draw(job: JobContext, n: int = 1) -> ProviderCall:
        return ProviderCall("painter", {"n": n})


async def fail(app: Ficha, provider: Limited, words: str = "502") -> None:
    async with app.turn(provider) as turn:
        turn.is_fault, turn.error = True, words


async def failures(app: Ficha) -> int:
    found = (await state(app)).of(ProviderState).get("fal")
    return 0 if found is None else found.failures


async def test_the_breaker_walks_from_closed_to_open_to_a_probe_and_back(world: World) -> None:
    one, other = await world.open(), await world.open()
    provider = Limited()
    await fail(one, provider)
    async with other.turn(provider):
        pass
    await fail(other, provider)
    assert await failures(one) == 1
    await fail(one, provider)
    with pytest.raises(ProviderDown) as down:
        async with other.turn(provider):
            raise AssertionError("it is down")
    assert (down.value.code, down.value.retryable, down.value.retry_after_s) == ("PROVIDER_DOWN", True, 30)
    world.clock.advance(30)
    async with one.turn(provider) as probe:
        assert probe.is_probe
        with pytest.raises(ProviderDown):
            async with other.turn(provider):
                raise AssertionError("the probe is out")
        probe.is_fault = True
    world.clock.advance(59)
    with pytest.raises(ProviderDown):
        await fail(one, provider)
    world.clock.advance(1)
    async with other.turn(provider) as probe:
        assert probe.is_probe
    async with one.turn(provider) as turn:
        assert not turn.is_probe
    lines = [(line.actor, line.act, line.target) for line in (await one.audit()).items]
    opened, closed = ("system", "open_breaker", "provider fal"), ("system", "close_breaker", "provider fal")
    assert lines == [closed, opened, opened]
    assert await one.verify() == []


async def test_an_exception_frees_the_turn_and_counts_as_it_says(world: World) -> None:
    app = await world.open()
    provider = Limited(at_once=1)
    await fail(app, provider)
    with pytest.raises(ValueError, match="no answer"):
        async with app.turn(provider):
            raise ValueError("no answer")
    assert await failures(app) == 0
    await fail(app, provider)
    started = asyncio.Event()

    async def hangs() -> None:
        async with app.turn(provider):
            started.set()
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hangs())
    await started.wait()
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    assert await failures(app) == 1
    assert (await state(app)).of(ProviderState)["fal"].turns == ()


async def test_a_caller_waits_for_one_of_the_requests_that_are_out(world: World) -> None:
    one, other = await world.open(), await world.open()
    provider = Limited(at_once=1)
    order: list[str] = []

    async def wait() -> None:
        async with other.turn(provider) as turn:
            order.append("second")
            assert turn.waited_s > 0

    async with one.turn(provider):
        with pytest.raises(RateLimited) as refused:
            async with other.turn(provider, longest_wait_s=0):
                raise AssertionError("one is out")
        assert refused.value.details == {"provider": "fal", "at_once": 1}
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["first", "second"]


async def test_a_turn_that_would_come_too_late_is_refused_with_the_time_to_come_back(world: World) -> None:
    app = await world.open()
    provider = Limited(rate="1/h")
    async with app.turn(provider):
        pass
    with pytest.raises(RateLimited) as refused:
        async with app.turn(provider, longest_wait_s=5):
            raise AssertionError("one was sent this hour")
    assert refused.value.retryable
    assert refused.value.retry_after_s is not None
    assert 3_595 <= refused.value.retry_after_s <= 3_606


async def test_a_caller_that_is_cancelled_while_it_waits_gives_its_turn_back(world: World) -> None:
    app = await world.open()
    provider = Limited(rate="3/m", at_once=2)
    async with app.turn(provider):
        pass
    waiting = asyncio.create_task(app.turn(provider).__aenter__())

    async def is_held() -> bool:
        return len((await state(app)).of(ProviderState)["fal"].turns) == 1

    await until(is_held)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert (await state(app)).of(ProviderState)["fal"].turns == ()


async def test_a_turn_whose_time_was_missed_is_taken_anew(world: World) -> None:
    """A request that goes out long after it was planned could meet too many others in its minute."""
    app = await world.open()
    provider = Limited(rate="50/s")
    terms = terms_of(provider)
    async with app.turn(provider):
        pass
    before = (await state(app)).of(ProviderState)["fal"].next_at
    # The first callback that runs once the turn has been asked for blocks the event loop for longer than the slack.
    asyncio.get_running_loop().call_soon(time.sleep, terms.slack_ms / 1_000 + 0.05)
    async with app.turn(provider):
        pass
    assert (await state(app)).of(ProviderState)["fal"].next_at == before + 2 * terms.interval_us


async def test_without_a_rate_too_a_turn_whose_hold_may_end_before_its_request_is_taken_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "GRACE_S", 0.1)
    app = await world.open()
    provider = Limited(at_once=1, timeout_s=1.5)
    taken: list[str] = []

    async def asking(command: Any, outcome: Any) -> Any:
        said = await ask(command, outcome)
        if isinstance(said, TurnTaken):
            taken.append(said.turn_id)
            if len(taken) == 1:
                await asyncio.sleep(0.15)
        return said

    ask = app._ask
    monkeypatch.setattr(app, "_ask", asking)
    async with app.turn(provider) as turn:
        assert turn.turn_id == taken[-1]
    assert len(taken) >= 2


async def test_what_the_provider_said_stands_although_the_end_of_the_turn_cannot_be_written(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    app = await world.open()
    async with app.turn(Limited()):
        await app.engine.stop(grace_s=0)
        answer = "paid"
    assert answer == "paid"
    assert "could not be written" in caplog.text


async def test_a_submit_for_a_provider_that_is_down_is_refused_and_charges_nothing(world: World) -> None:
    app = await world.open(prepare=declare_drawing)
    await app.open_account("ana", plan="open", credits=100)
    first = await app.submit("draw", account="ana", idempotency_key="k1")
    for _ in range(2):
        await fail(app, Limited())
    with pytest.raises(ProviderDown) as down:
        await app.submit("draw", account="ana")
    assert down.value.retry_after_s == 30
    quote = await app.quote("draw", account="ana")
    assert (quote.admitted, quote.refusal and quote.refusal.code, quote.cost) == (False, "PROVIDER_DOWN", 3)
    with pytest.raises(ProviderDown):
        await app.submit_batch([("draw", {}), ("anything", {})], account="ana")
    with pytest.raises(ProviderDown):
        await app.submit_batch([("draw", {"n": n}) for n in range(150)], account="ana")
    again = await app.submit("draw", account="ana", idempotency_key="k1")
    assert (again.job_id, again.idempotent_hit) == (first.job_id, True)
    assert (await app.submit("anything", account="ana")).status == "queued"
    assert await balance(app) == 97
    world.clock.advance(30)
    assert (await app.submit("draw", account="ana")).new_balance == 94


class Caller(Struct, order=True):
    """One of many who send requests: when it acts next, and what it does then."""

    at: int
    number: int
    turn_id: str | None = None
    sends_at: int = 0


async def test_no_minute_has_more_requests_than_the_rate_and_no_more_are_out_at_once(world: World) -> None:
    """Many callers in several processes, each with its own connections, in virtual time. Each request goes out a little
    late, takes its time, and one in ten callers dies with its request out."""
    apps = [await world.open() for _ in range(3)]
    provider = Limited(rate="60/m", at_once=4, timeout_s=1.0, breaker=Breaker(failures=0))
    terms = terms_of(provider)
    chance = random.Random(14)
    start_at = world.clock.now
    callers = [Caller(start_at + chance.randrange(2 * SECOND), number) for number in range(12)]
    heapq.heapify(callers)
    sent: list[int] = []
    out: list[tuple[int, int]] = []
    refused = 0
    while len(sent) < 75:
        world.clock.now = callers[0].at
        due = [heapq.heappop(callers)]
        # Those who come at about the same time race, each through its own process. A request ends exactly when it does.
        while callers and callers[0].at < world.clock.now + SECOND // 20 and callers[0].turn_id is None:
            due.append(heapq.heappop(callers))
        outcomes = await asyncio.gather(*(act(apps[caller.number % 3], caller, terms) for caller in due))
        for caller, outcome in zip(due, outcomes, strict=True):
            if isinstance(outcome, TurnTaken):
                planned_at = world.clock.now + outcome.wait_ms * 1_000
                late_us = chance.randrange(terms.slack_ms * 1_000 + 1)
                sends_at, took_us = planned_at + late_us, chance.randrange(SECOND)
                sent.append(sends_at)
                dies = chance.random() < 0.1
                ends_at = sends_at + (terms.hold_ms * 1_000 - late_us if dies else took_us)
                out.append((sends_at, ends_at))
                turn_id = None if dies else outcome.turn_id
                heapq.heappush(callers, Caller(ends_at, caller.number, turn_id))
            else:
                refused += isinstance(outcome, Refusal)
                heapq.heappush(callers, Caller(world.clock.now + chance.randrange(SECOND), caller.number))
    sent.sort()
    minute = 60 * SECOND
    assert max(sum(at <= other < at + minute for other in sent) for at in sent) <= 60
    assert max(sum(begins <= at < ends for begins, ends in out) for at, _ in out) <= 4
    assert refused
    # The limits are used, not only kept, although the dead hold turns for a while.
    assert len(sent) >= 0.4 * (sent[-1] - sent[0]) / terms.interval_us
    assert (await state(apps[0])).of(ProviderOutage) == {}


async def act(app: Ficha, caller: Caller, terms: Any) -> object:
    if caller.turn_id is None:
        return await app.engine.call(c.TakeTurn("fal", f"{caller.number}-{caller.at}", terms))
    return await app.engine.call(c.EndTurn("fal", caller.turn_id, terms))


@pytest.mark.parametrize("rate", ["60", "0/m", "60/d", "-1/s", "60 / m", "a/m"])
def test_a_rate_that_is_none_is_named(rate: str) -> None:
    with pytest.raises(ValueError, match='such as "60/m"'):
        terms_of(Limited(rate=rate))


def test_provider_down_is_a_refusal_with_its_own_class() -> None:
    raised = Refused.of(Refusal("PROVIDER_DOWN", "down", 3.0))
    assert isinstance(raised, ProviderDown)
    assert raised.retryable


async def test_an_operator_sees_opens_and_resets_breakers(world: World) -> None:
    app = await world.open(prepare=declare_drawing)
    (unused,) = await app.provider_states()
    assert (unused.name, unused.breaker, unused.turns, unused.wait_s) == ("fal", "closed", 0, 0.0)
    boss = app.acting("boss")
    opened = await boss.open_breaker("fal", seconds=60, reason="maintenance")
    assert (opened.breaker, opened.error, opened.trips) == ("open", "maintenance", 0)
    assert opened.down_until is not None
    assert opened.down_since is not None
    assert (opened.down_until - opened.down_since).total_seconds() == 60
    with pytest.raises(ProviderDown):
        await fail(app, Limited())
    world.clock.advance(60)
    assert (await app.provider_states())[0].breaker == "probing"
    assert (await boss.reset_breaker("fal")).breaker == "closed"
    async with app.turn(Limited(rate="1/m", at_once=3)) as turn:
        (out,) = await app.provider_states()
        assert (out.turns, out.wait_s, out.failures) == (1, 61.0, 0)
        assert (out.rate, out.at_once) == (unused.rate, unused.at_once) == ("600/m", 20)
        turn.is_fault = True
    (after,) = await app.provider_states()
    assert (after.turns, after.failures) == (0, 1)
    with pytest.raises(NotFound):
        await boss.reset_breaker("unheard-of")
    for seconds in (0, 31 * 86_400):
        with pytest.raises(InvalidArgument):
            await boss.open_breaker("fal", seconds=seconds)
    assert [line.act for line in (await app.audit()).items] == ["close_breaker", "open_breaker"]
