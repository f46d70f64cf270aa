"""Wake-ups: whoever waits for work hears of it at once, misses nothing, and is harmed by no hint that is lost."""

import asyncio

import pytest

from ficha.core import commands as c
from ficha.engine import engine as engine_module
from ficha.engine import wakeups
from ficha.engine.engine import Engine
from ficha.engine.wakeups import ANYTHING, EVENTS
from ficha.store.base import StoreError
from tests.engine.engine_setup import StoreSetup, claimed, one, opened, submit, submitted

NEVER = 3_600.0
"""A time that no test waits for: whoever returns was woken."""
SIGN_OF_LIFE = c.RegisterWorker("w1", "host", 1, ("gpu",), 10, "1.0", 10_000)


async def waiting(engine: Engine, *pools: str) -> asyncio.Task:
    """Somebody who waits for work of these pools by now."""
    waiter = asyncio.create_task(engine.wakeups.wait(pools, NEVER))
    await asyncio.sleep(0)
    return waiter


async def test_whoever_waits_is_woken_by_a_submit_in_the_same_process(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    waiters = [await waiting(engine, "gpu"), await waiting(engine, "cpu", "gpu")]
    await submitted(engine)
    async with asyncio.timeout(20):
        assert await asyncio.gather(*waiters) == [True, True]


async def test_a_wake_up_between_the_look_and_the_wait_is_not_missed(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    before_the_look = engine.wakeups.heard(["gpu"])
    assert await claimed(engine) == []
    await submitted(engine)
    async with asyncio.timeout(20):
        assert await engine.wakeups.wait(["gpu"], NEVER, since=before_the_look)
    assert len(await claimed(engine)) == 1


async def test_a_hint_that_does_not_say_what_happened_is_not_missed_by_whoever_never_waited_before(
    memory: StoreSetup,
) -> None:
    engine = await memory.engine()
    before_the_look = engine.wakeups.heard(["new"])
    engine.wakeups._wake(ANYTHING)
    async with asyncio.timeout(20):
        assert await engine.wakeups.wait(["new"], NEVER, since=before_the_look)


async def test_whoever_waits_for_another_pool_is_left_alone(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine())
    await one(engine, c.DeclarePool("cpu", None))
    heard = engine.wakeups.heard(["cpu"])
    waiter = await waiting(engine, "cpu")
    await submitted(engine)
    assert engine.wakeups.heard(["cpu"]) == heard
    assert not waiter.done()
    await submitted(engine, job={"pool": "cpu"})
    assert await waiter


async def test_the_wait_ends_when_its_time_is_up(memory: StoreSetup) -> None:
    engine = await memory.engine()
    assert not await engine.wakeups.wait(["gpu"], 0.0)
    assert not await engine.wakeups.wait(["gpu"], 0.0, since=engine.wakeups.heard(["gpu"]))


async def test_what_may_give_a_claim_something_wakes_and_nothing_else_does(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine(), plan="one")
    await one(engine, c.DeclarePool("gpu", 1))

    async def wakes(command: c.Command) -> bool:
        heard = engine.wakeups.heard(["gpu"])
        await engine.call(command)
        return engine.wakeups.heard(["gpu"]) != heard

    first, second, third = (submit() for _ in range(3))
    assert await wakes(first)
    assert not await wakes(second), "a parked job cannot be claimed"
    assert not await wakes(third)
    assert not await wakes(submit("nobody"))
    assert not await wakes(c.Credit("ana", 1, "grant"))
    assert not await wakes(c.Claim("w1", ("gpu",), 1))
    held = first.jobs[0].id
    assert not await wakes(c.Heartbeat(held, 1, starts=True))
    assert not await wakes(c.Heartbeat(held, 1))
    assert not await wakes(c.SaveCheckpoint(held, 1, "HALF"))
    assert not await wakes(c.Finish(held, c.AcceptedByProvider("ref"), 1)), "a provider holds the slot"
    assert await wakes(c.Finish(held, c.Completed("1"), 1)), "the slot is free and the next job is ready"
    assert not await wakes(c.Finish(held, c.Completed("1"), 1)), "it had ended before"
    assert not await wakes(c.Claim("w1", ("gpu",), 1))
    assert await wakes(c.CancelJob(second.jobs[0].id)), "the slot of a cancelled run is free"
    await claimed(engine)
    assert await wakes(c.Finish(third.jobs[0].id, c.RetryLater(1_000), 1)), "the slot of a retried run is free"
    memory.clock.advance(1)
    assert await wakes(c.Recover(third.jobs[0].id)), "its time has come"
    assert await wakes(c.PausePool("gpu"))
    assert await wakes(c.PausePool("gpu", paused=False))
    assert await wakes(c.ResizePool("gpu", 5))
    assert not await wakes(c.ResizePool("gpu", 5)), "it had that size"


async def test_the_end_wakes_whoever_waits(memory: StoreSetup) -> None:
    engine = await memory.engine()
    waiter = await waiting(engine, "gpu")
    await engine.stop(1.0)
    async with asyncio.timeout(20):
        await waiter


async def test_somebody_who_stopped_waiting_is_forgotten(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine())
    gone, stays = await waiting(engine, "gpu"), await waiting(engine, "gpu")
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await submitted(engine)
    assert await stays


async def test_engines_on_one_postgresql_database_wake_each_other(postgresql: StoreSetup) -> None:
    stores = [await postgresql.watched(), await postgresql.watched()]
    here, there = [await postgresql.engine(store) for store in stores]
    await opened(here)
    async with asyncio.timeout(40):
        for store in stores:
            await store.listens.wait()
        for sender, receiver in ((here, there), (there, here)):
            # Hints of what was done before may still be under way, so the wait is for this job.
            job_id = await submitted(sender)
            found: list[str] = []
            while job_id not in found:
                heard = receiver.wakeups.heard(["gpu"])
                found = [lease.job.id for lease in await claimed(receiver)]
                if not found:
                    assert await receiver.wakeups.wait(["gpu"], NEVER, since=heard)


async def test_a_hint_reaches_somebody_who_waits_in_another_process(postgresql: StoreSetup) -> None:
    store = await postgresql.watched()
    waits, works = await postgresql.engine(store), await postgresql.engine()
    await opened(works)
    await one(works, c.DeclarePool("quiet", None))
    async with asyncio.timeout(40):
        await store.listens.wait()
        waiter = await waiting(waits, "silent")
        await one(works, c.DeclarePool("silent", None))
        assert await waiter


async def test_in_quiet_times_a_hint_goes_out_with_the_commit_and_in_busy_ones_after_it(
    postgresql: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = await postgresql.watched(), await postgresql.watched()
    works, waits = await opened(await postgresql.engine(store)), await postgresql.engine(other)
    async with asyncio.timeout(40):
        await other.listens.wait()
        for is_quiet in (True, False):
            monkeypatch.setattr(wakeups, "COMMIT_HINT_EVERY_S", 0.0 if is_quiet else NEVER)
            await store.until(lambda: not works.wakeups._unsent)
            store.notified.clear()
            heard = waits.wakeups.heard(["gpu"])
            await submitted(works)
            assert await waits.wakeups.wait(["gpu"], NEVER, since=heard)
            assert any("gpu" in names for names in store.notified) is not is_quiet


async def test_a_hint_that_cannot_be_sent_does_no_harm(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FEW", 0)
    store = await setup.watched()
    engine = await opened(await setup.engine(store))
    store.notify_fault = StoreError("no hints today")
    waiter = await waiting(engine, "gpu")
    sent = len(store.notified)
    await submitted(engine)
    async with asyncio.timeout(20):
        assert await waiter
        await store.until(lambda: len(store.notified) > sent)
        store.notify_fault = None
        sent = len(store.notified)
        await submitted(engine)
        await store.until(lambda: len(store.notified) > sent)
    assert len(await claimed(engine, limit=5)) == 2


async def test_hints_that_pile_up_go_out_as_one(memory: StoreSetup) -> None:
    store = await memory.watched()
    engine = await memory.engine(store)
    store.notify_gate.clear()
    names = [f"p{number}" for number in range(5)]
    await one(engine, c.DeclarePool("first", None))
    await store.until(lambda: len(store.notified) == 1)
    for name in names:
        await one(engine, c.DeclarePool(name, None))
    store.notify_gate.set()
    await store.until(lambda: len(store.notified) == 2)
    assert store.notified == [{"first"}, set(names)]


async def test_hints_go_out_no_more_often_than_their_pace(memory: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "HINTS_PER_S", 1 / NEVER)
    monkeypatch.setattr(wakeups, "HINTS_AT_ONCE", 3.0)
    store = await memory.watched()
    engine = await opened(await memory.engine(store))
    for _ in range(50):
        await submitted(engine)
        await asyncio.sleep(0)
    assert store.notified == [{"gpu"}, {"gpu", EVENTS}, {"gpu", EVENTS}]


async def test_whoever_follows_events_is_woken_by_every_commit_group_that_writes_some_and_by_no_other(
    memory: StoreSetup,
) -> None:
    engine = await opened(await memory.engine())

    async def wakes(command: c.Command) -> bool:
        heard = engine.wakeups.heard([EVENTS])
        await engine.call(command)
        return engine.wakeups.heard([EVENTS]) != heard

    first = submit()
    held = first.jobs[0].id
    assert await wakes(first)
    assert await wakes(c.Claim("w1", ("gpu",), 1))
    assert await wakes(c.Heartbeat(held, 1, starts=True))
    assert await wakes(c.SaveCheckpoint(held, 1, "HALF"))
    assert await wakes(c.Note(held, 1, "so far"))
    assert not await wakes(c.Heartbeat(held, 1))
    assert not await wakes(SIGN_OF_LIFE)
    assert not await wakes(c.Elect("sweeping", "us", 1_000))
    assert not await wakes(c.Credit("ana", 1, "grant"))
    assert not await wakes(c.Claim("w1", ("gpu",), 1)), "nothing was there"
    assert await wakes(c.Finish(held, c.Completed("1"), 1))


async def test_a_hint_of_events_wakes_no_worker_of_another_process(postgresql: StoreSetup) -> None:
    store = await postgresql.watched()
    waits, works = await postgresql.engine(store), await opened(await postgresql.engine())
    job_id = await submitted(works)
    await claimed(works)
    async with asyncio.timeout(40):
        await store.listens.wait()
        # Hints come in their order, so after this one all that were sent before have been heard.
        await one(works, c.DeclarePool("last", None))
        await waits.wakeups.wait(["last"], NEVER, since=0)
        at_work = waits.wakeups.heard(["gpu"])
        heard = waits.wakeups.heard([EVENTS])
        follower, worker = await waiting(waits, EVENTS), await waiting(waits, "gpu")
        await one(works, c.Note(job_id, 1, "so good"))
        await waits.wakeups.wait([EVENTS], NEVER, since=heard)
        assert await follower
        assert waits.wakeups.heard(["gpu"]) == at_work
        assert not worker.done()
        worker.cancel()


async def test_hints_of_events_alone_go_out_at_their_own_pace_and_ride_along_with_others(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "EVENTS_EVERY_S", NEVER)
    store = await memory.watched()
    engine = await opened(await memory.engine(store))
    job_id = await submitted(engine)
    await store.until(lambda: {"gpu", EVENTS} in store.notified)
    sent = len(store.notified)
    for number in range(5):
        await one(engine, c.Claim("w1", ("gpu",), 1))
        await one(engine, c.Note(job_id, 1, f"line {number}"))
        await asyncio.sleep(0)
    assert len(store.notified) == sent
    await one(engine, c.Finish(job_id, c.Completed("1"), 1))
    await store.until(lambda: len(store.notified) > sent)
    assert store.notified[sent:] == [{"gpu", EVENTS}]
    monkeypatch.setattr(wakeups, "EVENTS_EVERY_S", 0.001)
    held = await submitted(engine)
    await claimed(engine)
    await one(engine, c.Note(held, 1, "alone"))
    await store.until(lambda: store.notified[-1] == {EVENTS})


async def test_a_process_that_only_gives_signs_of_life_sends_no_hint(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "EVENTS_EVERY_S", 0.0)
    store = await memory.watched()
    engine = await opened(await memory.engine(store))
    job_id = await submitted(engine)
    await claimed(engine)
    await store.until(lambda: store.notified[-1:] == [{EVENTS}])
    sent = len(store.notified)
    for command in (SIGN_OF_LIFE, c.Elect("sweeping", "us", 1_000), c.Heartbeat(job_id, 1), c.Claim("w1", ("gpu",), 1)):
        await one(engine, command)
        await asyncio.sleep(0)
    await engine.sweep()
    assert len(store.notified) == sent
