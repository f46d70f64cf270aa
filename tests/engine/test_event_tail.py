"""Live: whoever follows a job or an account gets every event once, in order, wherever it was written."""

from __future__ import annotations

import asyncio

import pytest

from ficha.core import commands as c
from ficha.engine import event_tail
from ficha.engine.engine import Engine
from ficha.engine.event_tail import Closed
from ficha.store.base import GetHorizon, ListCommits, NumberedEvent, Query, StoreError, Unavailable
from tests.engine.engine_setup import POLICY, QUICK, StoreSetup, one, opened, submitted
from tests.engine.followers import NEVER, kinds, lines, listed, next_events, running, say
from tests.engine.instrumented_store import InstrumentedStore


async def test_a_follower_gets_what_was_there_and_then_what_comes(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await running(engine)
    async with engine.live.follow(job_id=job_id) as follower:
        assert kinds(await next_events(follower, 2)) == ["submitted", "claimed"]
        assert await follower.next(0) == []
        for line in ("one", "two", "three"):
            await say(engine, job_id, line)
            [numbered] = await next_events(follower, 1)
            assert lines([numbered]) == [line]
            assert follower.cursor == numbered.number
        await one(engine, c.Finish(job_id, c.Completed("1"), 1))
        assert kinds(await next_events(follower, 2)) == ["started", "completed"]


async def test_a_follower_hears_of_nobody_elses_events(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), "ana", "bob")
    hers, other, his = await running(engine), await running(engine), await running(engine, "bob")
    follow = engine.live.follow
    async with follow(job_id=hers) as job, follow(account_id="ana") as account, follow(account_id="eva") as nobody:
        assert len(await next_events(job, 2)) == 2
        assert len(await next_events(account, 4)) == 4
        for job_id in (his, other, hers):
            await say(engine, job_id, job_id)
        assert lines(await next_events(job, 1)) == [hers]
        assert lines(await next_events(account, 2)) == [other, hers]
        assert await nobody.next(0) == []


async def test_whoever_resumes_goes_on_after_the_cursor(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await running(engine)
    for of in ({"job_id": job_id}, {"account_id": "ana"}):
        cursor = 0
        seen: list[NumberedEvent] = []
        for turn in range(5):
            async with engine.live.follow(**of, after=cursor) as follower:
                await say(engine, job_id, f"{turn} while here")
                seen += await next_events(follower, 1)
                cursor = follower.cursor
            await say(engine, job_id, f"{turn} while away")
        async with engine.live.follow(**of, after=cursor) as follower:
            seen += await next_events(follower, len(await listed(setup, **of)) - len(seen))
        assert seen == await listed(setup, **of)


async def test_somebody_who_begins_in_the_middle_of_a_burst_misses_nothing(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_tail, "PACE_S", 0.001)
    engine = await opened(await setup.engine())
    jobs, said = [await running(engine) for _ in range(4)], 40
    seen: list[list[NumberedEvent]] = []

    async def begin(number: int) -> None:
        job_id = jobs[number % len(jobs)]
        of, count = ({"account_id": "ana"}, len(jobs)) if number % 2 else ({"job_id": job_id}, 1)
        async with engine.live.follow(**of) as follower:
            seen.append(await next_events(follower, count * (2 + said)))

    async with asyncio.TaskGroup() as tasks:
        for number in range(said):
            await asyncio.gather(*(say(engine, job_id, str(number)) for job_id in jobs))
            if number % 3 == 0:
                tasks.create_task(begin(number))
    everything = await listed(setup)
    for found in seen:
        who = {numbered.event.job_id for numbered in found}
        assert found == (everything if len(who) > 1 else await listed(setup, job_id=who.pop()))


@pytest.mark.parametrize("of", ["job", "account"])
async def test_a_history_longer_than_the_buffer_is_read_page_by_page(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr(event_tail, "BUFFER", 4)
    engine = await opened(await setup.engine())
    job_id = await running(engine)
    await say(engine, job_id, *map(str, range(18)))
    whose = {"job_id": job_id} if of == "job" else {"account_id": "ana"}
    async with engine.live.follow(**whose) as follower:
        found = await next_events(follower, 20)
        assert found == await listed(setup, **whose)
        await say(engine, job_id, "live")
        assert lines(await next_events(follower, 1)) == ["live"]


@pytest.mark.parametrize("of", ["job", "account"])
async def test_a_follower_that_takes_nothing_keeps_little_and_loses_nothing(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    monkeypatch.setattr(event_tail, "BUFFER", 4)
    monkeypatch.setattr(event_tail, "PACE_S", 0.0)
    engine = await opened(await setup.engine())
    job_id = await running(engine)
    whose = {"job_id": job_id} if of == "job" else {"account_id": "ana"}
    async with engine.live.follow(**whose) as slow, engine.live.follow(job_id=job_id) as quick:
        seen = await next_events(slow, 2)
        await next_events(quick, 2)
        for number in range(20):
            await say(engine, job_id, str(number))
            await next_events(quick, 1)  # so the tail has handed it to both
            assert len(slow._buffer) <= 4
        assert lines(await next_events(slow, 20)) == [str(number) for number in range(20)]
        await say(engine, job_id, "on time again")
        assert lines(await next_events(slow, 1)) == ["on time again"]
    assert len(seen) == 2


async def test_what_another_process_writes_is_heard_of(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    if type(setup.store).__name__ == "MemoryStore":
        # Two engines on one memory store know nothing of each other.
        monkeypatch.setattr(event_tail, "POLL_S", 0.01)
    else:
        monkeypatch.setattr(event_tail, "POLL_S", NEVER)
    store = await setup.watched()
    here, there = await setup.engine(store), await opened(await setup.engine())
    job_id = await running(there)
    async with here.live.follow(job_id=job_id) as job, here.live.follow(account_id="ana") as account:
        for follower in (job, account):
            assert len(await next_events(follower, 2)) == 2
        for line in ("one", "two"):
            await say(there, job_id, line)
            for follower in (job, account):
                assert lines(await next_events(follower, 1)) == [line]


async def test_what_no_hint_told_of_is_found_by_looking(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "POLL_S", 0.01)
    deaf = Engine(await setup.watched(), POLICY, QUICK)
    await deaf.start(sweep=False, listen=False)
    there = await opened(await setup.engine())
    job_id = await running(there)
    async with deaf.live.follow(job_id=job_id) as job, deaf.live.follow(account_id="ana") as account:
        for follower in (job, account):
            assert len(await next_events(follower, 2)) == 2
        await say(there, job_id, "quietly")
        for follower in (job, account):
            assert lines(await next_events(follower, 1)) == ["quietly"]
    await deaf.stop()


async def test_what_is_written_between_a_followers_reading_and_the_tails_first_look_is_not_missed(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await setup.watched()
    engine = await opened(await setup.engine(store))
    job_id = await running(engine)
    read, may_look = store.inner.read, asyncio.Event()

    async def look_later(query: Query) -> object:
        if isinstance(query, GetHorizon):
            await may_look.wait()
        return await read(query)

    monkeypatch.setattr(store.inner, "read", look_later)
    async with engine.live.follow(job_id=job_id) as job:
        assert len(await job.next(NEVER)) == 2
        await say(engine, job_id, "meanwhile")
        may_look.set()
        assert lines(await next_events(job, 1)) == ["meanwhile"]


async def test_all_who_follow_are_served_by_one_question(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await setup.watched()
    engine = await opened(await setup.engine(store), "ana", "bob")
    jobs = [await running(engine) for _ in range(20)]
    followers = [engine.live.follow(job_id=job_id) for job_id in jobs]
    followers += [engine.live.follow(account_id=account) for account in ("ana", "bob")]
    for follower in followers:
        await follower.__aenter__()
    for follower in followers[:-1]:
        await next_events(follower, 2)
    assert await followers[-1].next(0) == []
    # Whoever came before the tail's first look reads once more; all are served by then.
    await looked(store)
    await asyncio.gather(*(follower.next(0) for follower in followers))
    before = store.reads.copy()
    for turn in range(3):
        await asyncio.gather(*(say(engine, job_id, str(turn)) for job_id in jobs))
        for follower in followers[:-2]:
            assert lines(await next_events(follower, 1)) == [str(turn)]
    assert len(await next_events(followers[-2], 60)) == 60
    asked = store.reads - before
    assert asked["ListCommits"] <= asked["GetHorizon"] < 3 * len(jobs) / 2
    assert asked["GetHistory"] == 0
    for follower in followers:
        await follower.__aexit__(None, None, None)


async def looked(store: InstrumentedStore) -> None:
    """Once the tail has looked again."""
    looks = store.reads["GetHorizon"]
    await store.until(lambda: store.reads["GetHorizon"] > looks)


async def test_nothing_is_asked_while_nobody_follows(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "POLL_S", 0.01)
    store = await setup.watched()
    engine = await opened(await setup.engine(store))
    job_id = await running(engine)
    assert store.reads["GetHorizon"] == 0
    for turn in range(2):
        async with engine.live.follow(job_id=job_id) as follower:
            await next_events(follower, 2 + turn)
        assert engine.live._task is not None
        async with asyncio.timeout(40):
            await engine.live._task
        before = store.reads.copy()
        await say(engine, job_id, "to nobody")
        assert store.reads == before


async def test_quiet_followers_cost_one_small_question_at_a_time(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_tail, "POLL_S", 0.001)
    monkeypatch.setattr(event_tail, "PACE_S", 0.0)
    store = await setup.watched()
    engine = await opened(await setup.engine(store))
    async with engine.live.follow(job_id=await running(engine)) as job, engine.live.follow(account_id="ana") as account:
        for follower in (job, account):
            await next_events(follower, 2)
        await looked(store)
        for follower in (job, account):
            assert await follower.next(0) == []
        before = store.reads.copy()
        await store.until(lambda: store.reads["GetHorizon"] > before["GetHorizon"] + 20)
        assert [store.reads[name] for name in ("ListCommits", "GetHistory")] == [
            before[name] for name in ("ListCommits", "GetHistory")
        ]


async def test_while_the_database_is_away_nothing_is_lost(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_tail, "PACE_S", 0.001)
    monkeypatch.setattr(event_tail, "POLL_S", 0.001)
    store = await setup.watched()
    engine, there = await setup.engine(store), await opened(await setup.engine())
    job_id = await running(there)
    async with engine.live.follow(job_id=job_id) as job, engine.live.follow(account_id="ana") as account:
        for follower in (job, account):
            await next_events(follower, 2)
        store.read_fault = Unavailable("gone for a moment")
        looks = store.reads["GetHorizon"]
        await say(there, job_id, "meanwhile")
        await store.until(lambda: store.reads["GetHorizon"] > looks + 3)
        async with engine.live.follow(job_id=job_id) as another:
            with pytest.raises(StoreError, match="gone for a moment"):
                await another.next(NEVER)
            store.read_fault = None
            for follower, count in ((job, 1), (account, 1), (another, 3)):
                assert lines(await next_events(follower, count)) == ["meanwhile"]
    assert sum("new events could not be read" in record.message for record in caplog.records) == 1


async def test_a_look_that_failed_half_way_is_made_again(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "PACE_S", 0.001)
    monkeypatch.setattr(event_tail, "POLL_S", 0.001)
    store = await setup.watched()
    engine, there = await setup.engine(store), await opened(await setup.engine())
    job_id = await running(there)
    async with engine.live.follow(job_id=job_id) as job, engine.live.follow(account_id="ana") as account:
        for follower in (job, account):
            await next_events(follower, 2)
        await looked(store)
        read, failed = store.inner.read, 0

        async def fails_at_events(query: Query) -> object:
            nonlocal failed
            if isinstance(query, ListCommits) and query.telling_of is None and failed < 3:
                failed += 1
                raise Unavailable("lost on the way")
            return await read(query)

        monkeypatch.setattr(store.inner, "read", fails_at_events)
        await say(there, job_id, "at last")
        for follower in (job, account):
            assert lines(await next_events(follower, 1)) == ["at last"]
        assert failed == 3


async def test_the_end_tells_everybody_to_follow_on_elsewhere(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine)

    async def follow(**of: str) -> None:
        async with engine.live.follow(**of) as follower:
            await next_events(follower, 1)
            waiting.release()
            await follower.next(NEVER)

    waiting = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(follow(**of)) for of in ({"job_id": job_id}, {"account_id": "ana"})]
    async with asyncio.timeout(40):
        for _ in tasks:
            await waiting.acquire()
        await engine.stop(0.0)
        for task in tasks:
            with pytest.raises(Closed, match="another one"):
                await task
    async with engine.live.follow(job_id=job_id) as late:
        with pytest.raises(Closed):
            await late.next(0)


async def test_somebody_who_stops_waiting_can_ask_again(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine())
    job_id = await running(engine)
    async with engine.live.follow(job_id=job_id) as follower:
        await next_events(follower, 2)
        assert await follower.next(0.001) == []
        asked = asyncio.create_task(follower.next(NEVER))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await say(engine, job_id, "after that")
        assert lines(await next_events(follower, 1)) == ["after that"]
