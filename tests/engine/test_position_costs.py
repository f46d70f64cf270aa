"""Positions are cheap however many ask, and say how long it will take and why."""

import asyncio

import pytest

from ficha.core import commands as c
from ficha.engine import positions
from ficha.engine.drain_rate import WINDOW_S
from ficha.engine.engine import Engine
from ficha.engine.positions import QueueStanding
from ficha.engine.queries import Queries
from ficha.store.base import GetWaiting, Unavailable
from tests.engine.engine_setup import StoreSetup, claimed, one, opened, submit, submitted
from tests.engine.position_setup import Seconds, looking, looks, places


async def test_many_who_ask_at_once_share_one_look(setup: StoreSetup, seconds: Seconds) -> None:
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds))
    jobs = [await submitted(engine) for _ in range(5)]
    for _ in range(3):
        seconds.now += 1
        before = store.reads.total()
        store.read_gate.clear()
        polls = [asyncio.create_task(engine.positions.of(job)) for job in jobs for _ in range(100)]
        await store.until(lambda before=before: store.reads.total() > before)
        store.read_gate.set()
        standings = await asyncio.gather(*polls)
        assert {standing.position for standing in standings} == {1, 2, 3, 4, 5}
        assert store.reads.total() == before + 1
    for _ in range(100):
        await places(engine, *jobs)
    assert store.reads.total() == before + 1


@pytest.mark.parametrize(
    ("cost_s", "pace_s"),
    [(0.0, positions.SHORTEST_S), (0.0001, positions.SHORTEST_S), (0.01, 0.5), (0.05, 2.5), (0.3, 15.0), (5.0, 30.0)],
)
async def test_a_look_is_taken_again_at_a_pace_that_its_cost_sets(
    memory: StoreSetup, seconds: Seconds, cost_s: float, pace_s: float
) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    job = await submitted(engine)
    read = store.inner.read

    async def dear(query: object) -> object:
        if isinstance(query, GetWaiting):
            seconds.now += cost_s
        return await read(query)

    store.inner.read = dear
    await engine.positions.of(job)
    await _settled(engine)
    assert looks(store) == 1
    seconds.now += pace_s * 0.99
    await engine.positions.of(job)
    await _settled(engine)
    assert looks(store) == 1
    seconds.now += pace_s * 0.02
    await engine.positions.of(job)
    await _settled(engine)
    assert looks(store) == 2


async def _settled(engine: Engine) -> None:
    """After any look that goes on in the background."""
    looking = [task for task in asyncio.all_tasks() if task.get_name() == "ficha positions"]
    await asyncio.gather(*looking)


async def test_nobody_waits_for_a_look_that_is_dear(memory: StoreSetup, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    job = await submitted(engine)
    read = store.inner.read

    async def dear(query: object) -> object:
        seconds.now += 1.0
        return await read(query)

    store.inner.read = dear
    await engine.positions.of(job)
    seconds.now += 100
    store.read_gate.clear()
    async with asyncio.timeout(20):
        assert await places(engine, job) == [1]
    await store.until(lambda: looks(store) == 2)
    store.read_gate.set()
    await _settled(engine)


async def test_a_submit_does_not_wait_for_a_look_that_is_due(memory: StoreSetup, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    await engine.positions.of(await submitted(engine))
    seconds.now += 100
    store.read_gate.clear()
    async with asyncio.timeout(20):
        outcome = await one(engine, submit())
        standing = await engine.positions.of_new(outcome.job_id)
    assert standing == QueueStanding(2, None)
    store.read_gate.set()
    await _settled(engine)


async def busy(engine: Engine, jobs: int) -> list[str]:
    """Jobs that wait, after twice as many came and the half of them went."""
    await one(engine, submit(jobs=2 * jobs))
    for lease in await claimed(engine, limit=jobs):
        await one(engine, c.Finish(lease.job.id, c.Completed("1"), lease.epoch))
    return [await submitted(engine) for _ in range(jobs)]


async def test_much_that_nobody_asked_about_is_looked_at_once(
    setup: StoreSetup, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MIN_PENDING", 8)
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds))
    assert await places(engine, await submitted(engine)) == [1]
    jobs = await busy(engine, 10)
    assert engine.positions._is_behind
    assert engine.positions._pending == []
    assert looks(store) == 1
    assert (await engine.positions.of_new(jobs[-1])).position == 21
    assert await places(engine, *jobs[:3]) == [12, 13, 14]
    assert looks(store) == 2
    await claimed(engine)
    assert await places(engine, *jobs[:3]) == [11, 12, 13]
    assert looks(store) == 2


async def test_a_look_that_is_dear_is_followed_however_much_happens(
    memory: StoreSetup, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MIN_PENDING", 8)
    monkeypatch.setattr(positions, "MAX_PENDING", 12)
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    first, read = await submitted(engine), store.inner.read

    async def dear(query: object) -> object:
        seconds.now += 1.0
        return await read(query)

    store.inner.read = dear
    assert await places(engine, first) == [1]
    seconds.now += 100
    jobs = await busy(engine, 10)
    assert len(engine.positions._pending) <= 12
    store.read_gate.clear()
    async with asyncio.timeout(20):
        assert await places(engine, *jobs[:3], jobs[-1]) == [12, 13, 14, 21]
    store.read_gate.set()
    await _settled(engine)


async def test_a_place_that_no_look_can_tell_is_not_made_up(
    memory: StoreSetup, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "MIN_PENDING", 8)
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    assert await places(engine, await submitted(engine)) == [1]
    jobs = await busy(engine, 10)
    store.read_fault = Unavailable("the database is away")
    assert await engine.positions.of_new(jobs[0]) is None
    with pytest.raises(Unavailable):
        await places(engine, jobs[0])
    store.read_fault = None
    assert await places(engine, jobs[0]) == [12]


async def test_a_look_that_fails_leaves_the_places_as_they_were_known(memory: StoreSetup, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    jobs = [await submitted(engine), await submitted(engine)]
    assert await places(engine, *jobs) == [1, 2]
    store.read_fault = Unavailable("the database is away")
    seconds.now += 1
    await claimed(engine)
    assert await places(engine, jobs[1]) == [1]
    with pytest.raises(Unavailable):
        # It may have come back; nobody can tell now.
        await places(engine, jobs[0])
    store.read_fault = None
    seconds.now += 1
    assert await places(engine, *jobs) == [None, 1]


async def test_somebody_who_stops_asking_does_not_take_the_look_from_the_others(
    memory: StoreSetup, seconds: Seconds
) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    job = await submitted(engine)
    store.read_gate.clear()
    leaves, stays = (asyncio.create_task(engine.positions.of(job)) for _ in range(2))
    await store.until(lambda: looks(store) == 1)
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    store.read_gate.set()
    assert await stays == QueueStanding(1, None)
    assert looks(store) == 1


async def test_the_end_does_not_cancel_somebody_who_asks(memory: StoreSetup, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    job = await submitted(engine)
    store.read_gate.clear()
    asked = asyncio.create_task(engine.positions.of(job))
    await store.until(lambda: looks(store) == 1)
    await engine.stop(1.0)
    assert await asked is None


# How long it will take


async def test_the_estimated_wait_follows_the_pace_at_which_the_pool_takes_jobs(
    setup: StoreSetup, seconds: Seconds
) -> None:
    engine = await opened(await looking(setup, await setup.watched(), seconds), credits=10_000)
    job_id = await submitted(engine)
    await one(engine, submit(jobs=200))
    last = (await setup.job(await submitted(engine))).id
    assert await engine.positions.of(job_id) == QueueStanding(1, None), "nothing is known of the pool's pace yet"
    for _ in range(5):
        await claimed(engine, limit=4)
        seconds.now += 1
        await engine.positions.of(last)
    standing = await engine.positions.of(last)
    assert standing == QueueStanding(202 - 20, round((202 - 20) / 4, 1))
    # Twice the pace pulls the estimate down, step by step.
    for _ in range(10):
        await claimed(engine, limit=8)
        seconds.now += 1
        await engine.positions.of(last)
    faster = await engine.positions.of(last)
    assert faster.position == 202 - 100
    assert faster.position / 8 < faster.estimated_wait_s < faster.position / 4


async def test_a_long_silence_says_nothing_about_the_pace(memory: StoreSetup, seconds: Seconds) -> None:
    engine = await opened(await looking(memory, await memory.watched(), seconds))
    jobs = [await submitted(engine) for _ in range(20)]
    await engine.positions.of(jobs[-1])
    await claimed(engine, limit=10)
    seconds.now += 10 * WINDOW_S + 1
    assert await engine.positions.of(jobs[-1]) == QueueStanding(10, None)


# Why it waits


async def test_a_job_says_why_it_waits(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), "ana", plan="one")
    await one(engine, c.OpenAccount("ben", "free", 100))
    await one(engine, c.DeclarePool("gpu", 1))

    async def reason(job_id: str) -> str | None:
        view = await Queries(setup.store, engine.positions).job(job_id)
        assert view is not None
        return view.waiting_for

    first, limited = await submitted(engine), await submitted(engine)
    scheduled, next_one = await submitted(engine, "ben", delay_ms=1_000), await submitted(engine, "ben")
    assert await reason(first) == "place"
    assert await reason(limited) == "account_limit"
    assert await reason(scheduled) == "schedule"
    assert await reason(next_one) == "place"
    (lease,) = await claimed(engine)
    assert lease.job.id == first
    assert await reason(first) is None
    assert await reason(next_one) == "pool_full"
    await one(engine, c.PausePool("gpu"))
    assert await reason(next_one) == "pool_paused"
    assert await reason(limited) == "account_limit"
    await one(engine, c.PausePool("gpu", paused=False))
    await one(engine, c.ResizePool("gpu", 2))
    assert await reason(next_one) == "place"
    await one(engine, c.Finish(first, c.Completed("1"), lease.epoch))
    assert await reason(limited) == "place"
    setup.clock.advance(1)
    await engine.sweep()
    assert await reason(scheduled) == "place"
    assert await reason(first) is None
