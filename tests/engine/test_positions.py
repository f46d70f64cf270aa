"""Positions: right at once for what this process did, and soon for what others did."""

import asyncio
import random

import pytest

from ficha.core import commands as c
from ficha.core.dataset import State
from ficha.core.records import Job, Parked, Ready
from ficha.core.snapshot import Changes, JobChange
from ficha.engine import positions
from ficha.engine.positions import QueueStanding
from ficha.ids import new_id
from tests.engine.engine_setup import StoreSetup, claimed, one, opened, submitted
from tests.engine.position_setup import Seconds, looking, looks, places


def counted(state: State, job: Job) -> int | None:
    """A job's position by its definition, counted over all jobs: those of its pool that are ready and come before it,
    and, where it waits for its account, those of the account that do so too and come before it."""
    if not isinstance(job.place, Ready | Parked) or (isinstance(job.place, Parked) and job.place.due_at is not None):
        return None
    mine = (job.place.rank, job.id)
    ahead = 1
    for other in state.jobs.values():
        if isinstance(other.place, Ready) and other.spec.pool == job.spec.pool:
            ahead += (other.place.rank, other.id) < mine
        elif isinstance(other.place, Parked) and isinstance(job.place, Parked) and other.place.due_at is None:
            ahead += other.account_id == job.account_id and (other.place.rank, other.id) < mine
    return ahead


@pytest.mark.req("A2")
async def test_positions_are_right_after_each_act_of_this_process_without_another_look(
    setup: StoreSetup, seconds: Seconds
) -> None:
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds), "ana", "ben")
    one_, two, three = [await submitted(engine) for _ in range(3)]
    assert await places(engine, one_, two, three) == [1, 2, 3]
    reads = store.reads.copy()
    four = await submitted(engine, "ben")
    assert await places(engine, one_, two, three, four) == [1, 2, 3, 4]
    (lease,) = await claimed(engine)
    assert await places(engine, one_, two, three, four) == [None, 1, 2, 3]
    await one(engine, c.CancelJob(three))
    assert await places(engine, two, three, four) == [1, None, 2]
    await one(engine, c.Finish(one_, c.RetryLater(60_000), lease.epoch))
    assert await places(engine, one_, two, four) == [None, 1, 2]
    setup.clock.advance(60)
    await one(engine, c.Recover(one_))
    assert await places(engine, one_, two, four) == [1, 2, 3], "it keeps the place of the time it was made"
    for lease in await claimed(engine, limit=3):
        await one(engine, c.Finish(lease.job.id, c.Completed("1"), lease.epoch))
    assert await places(engine, one_, two, four) == [None, None, None]
    assert store.reads - reads == {"GetJobs": 6}, "only those that do not wait were read, to make sure"


async def test_a_better_priority_goes_before_whoever_waits(setup: StoreSetup, seconds: Seconds) -> None:
    engine = await opened(await looking(setup, await setup.watched(), seconds), "ana", plan="free")
    await one(engine, c.OpenAccount("pat", "pro", 100))
    late = await submitted(engine)
    assert await places(engine, late) == [1]
    better = await submitted(engine, "pat")
    worse = await submitted(engine, "pat", job={"priority": 60})
    assert await places(engine, better, late, worse) == [1, 2, 3]


async def test_parked_jobs_stand_behind_the_others_of_their_account(setup: StoreSetup, seconds: Seconds) -> None:
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds), "ana", plan="one")
    await one(engine, c.OpenAccount("ben", "free", 100))
    jobs = []
    for account in ("ana", "ana", "ben", "ana", "ben"):
        setup.clock.advance(1)
        jobs.append(await submitted(engine, account))
    first, second, bens, third, bens_next = jobs
    assert await places(engine, *jobs) == [1, 2, 2, 4, 3]
    assert looks(store) == 1
    (lease,) = await claimed(engine)
    assert lease.job.id == first
    assert await places(engine, *jobs) == [None, 1, 1, 3, 2]
    await one(engine, c.Finish(first, c.Completed("1"), lease.epoch))
    assert isinstance((await setup.job(second)).place, Ready)
    assert await places(engine, second, bens, third, bens_next) == [1, 2, 3, 3]
    assert looks(store) == 1


async def test_jobs_of_one_instant_stand_in_the_order_of_their_ids(setup: StoreSetup, seconds: Seconds) -> None:
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds))
    ids = sorted(new_id() for _ in range(6))
    for job_id in random.Random(1).sample(ids, 6):
        await submitted(engine, job={"id": job_id})
    assert await places(engine, *ids) == [1, 2, 3, 4, 5, 6]
    assert [lease.job.id for lease in await claimed(engine, limit=6)] == ids


async def test_positions_that_are_followed_are_those_that_are_counted(setup: StoreSetup, seconds: Seconds) -> None:
    """Whatever happens, one look and what was committed since say the same as counting all jobs."""
    store = await setup.watched()
    engine = await opened(await looking(setup, store, seconds), "ana", "ben", plan="free")
    for account in ("cleo", "dora"):
        await one(engine, c.OpenAccount(account, "one", 1_000))
    await one(engine, c.DeclarePool("cpu", None))
    chance = random.Random(11)
    await engine.positions.of(new_id())
    held: list[tuple[str, int]] = []
    for turn in range(90):
        setup.clock.advance(chance.choice([0, 0, 1]))
        account, pool = chance.choice(["ana", "ben", "cleo", "dora"]), chance.choice(["gpu", "cpu"])
        waiting = [job.id for job in (await setup.state()).jobs.values() if job.status == "queued"]
        match chance.choice(["submit", "submit", "submit", "claim", "finish", "retry", "cancel", "sweep"]):
            case "submit":
                delay = chance.choice([0, 0, 0, 3_000])
                await submitted(engine, account, job={"pool": pool, "priority": turn % 3}, delay_ms=delay)
            case "claim":
                held += [(lease.job.id, lease.epoch) for lease in await claimed(engine, limit=2, pool=pool)]
            case "finish" if held:
                job_id, epoch = held.pop(0)
                await one(engine, c.Finish(job_id, c.Completed("1"), epoch))
            case "retry" if held:
                job_id, epoch = held.pop(0)
                await one(engine, c.Finish(job_id, c.RetryLater(2_000), epoch))
            case "cancel" if waiting:
                await one(engine, c.CancelJob(chance.choice(waiting)))
            case "sweep":
                await engine.sweep()
    state = await setup.state()
    assert len({type(job.place) for job in state.jobs.values()}) >= 4
    assert {job.id: (await places(engine, job.id))[0] for job in state.jobs.values()} == {
        job.id: counted(state, job) for job in state.jobs.values()
    }
    assert looks(store) == 1
    # And a look of another process agrees.
    fresh = await setup.engine()
    assert await places(fresh, *state.jobs) == [counted(state, job) for job in state.jobs.values()]


async def test_what_another_process_did_shows_with_the_next_look(setup: StoreSetup, seconds: Seconds) -> None:
    store = await setup.watched()
    here, there = await looking(setup, store, seconds), await setup.engine()
    await opened(here, "ana", plan="free")
    await one(there, c.OpenAccount("pat", "pro", 100))
    mine = await submitted(here)
    assert await places(here, mine) == [1]
    theirs = await submitted(there, "pat")
    assert await places(here, mine) == [1]
    assert looks(store) == 1
    seconds.now += 1
    assert await places(here, mine) == [2]
    await claimed(there)
    assert await places(here, mine) == [2]
    seconds.now += 1
    assert await places(here, mine, theirs) == [1, None]
    assert looks(store) == 3


async def test_a_job_that_another_process_made_is_read_once_and_then_found_by_the_look(
    setup: StoreSetup, seconds: Seconds
) -> None:
    store = await setup.watched()
    here, there = await looking(setup, store, seconds), await setup.engine()
    await opened(here, "ana", plan="one")
    ready, parked, parked_too = [await submitted(there) for _ in range(3)]
    assert await places(here, ready, parked, parked_too) == [1, 2, 3]
    assert store.reads == {"GetWaiting": 1, "GetJobs": 3}
    seconds.now += 1
    (lease,) = await claimed(there)
    await one(there, c.Finish(ready, c.Completed("1"), lease.epoch))
    # One of them is ready by now, and it needs no word about that but the look.
    assert await places(here, parked, parked_too) == [1, 2]
    assert store.reads == {"GetWaiting": 2, "GetJobs": 3}
    new = await submitted(there)
    assert await places(here, new, new) == [3, 3], "it has a place before any look has seen it"
    assert store.reads == {"GetWaiting": 2, "GetJobs": 5}
    seconds.now += 1
    assert await places(here, new, parked) == [3, 1]
    assert store.reads == {"GetWaiting": 3, "GetJobs": 5}


async def test_a_job_whose_rank_another_process_improved_is_found_again(setup: StoreSetup, seconds: Seconds) -> None:
    store = await setup.watched()
    here, there = await looking(setup, store, seconds), await setup.engine()
    await opened(here, "ana", plan="ageing")
    old = await submitted(here)
    setup.clock.advance(1)
    await one(here, c.OpenAccount("pat", "pro", 100))
    better = await submitted(here, "pat")
    assert await places(here, better, old) == [1, 2]
    setup.clock.advance(500)
    assert (await there.sweep()).jobs == {"aged": 1}
    seconds.now += 1
    assert await places(here, old, better) == [1, 2]
    assert store.reads == {"GetWaiting": 2, "GetJobs": 1}


async def test_what_does_not_wait_has_no_position(setup: StoreSetup, seconds: Seconds) -> None:
    engine = await opened(await looking(setup, await setup.watched(), seconds))
    assert await places(engine, new_id()) == [None]
    scheduled = await submitted(engine, delay_ms=60_000)
    assert await places(engine, scheduled) == [None]
    assert await engine.positions.of_new(scheduled) is None
    setup.clock.advance(60)
    await engine.sweep()
    assert await places(engine, scheduled) == [1]


async def test_only_so_many_jobs_are_remembered_and_those_asked_about_stay(
    memory: StoreSetup, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "CACHED_JOBS", 3)
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    first, second, third = [await submitted(engine) for _ in range(3)]
    assert await places(engine, first, second, third) == [1, 2, 3]
    assert store.reads["GetJobs"] == 0
    assert await places(engine, first) == [1]
    fourth = await submitted(engine)
    assert len(engine.positions._cache) == 3
    assert await places(engine, first, third, fourth) == [1, 3, 4]
    assert store.reads["GetJobs"] == 0
    assert await places(engine, second) == [2], "it made room, and was read"
    assert store.reads["GetJobs"] == 1
    assert await places(engine, second, third, fourth) == [2, 3, 4]
    assert store.reads["GetJobs"] == 1
    assert await places(engine, first) == [1]
    assert store.reads["GetJobs"] == 2
    # To read a job is to ask about it.
    await engine.positions.of_job(await memory.job(third))
    await engine.positions.of_job(await memory.job(second))
    assert await places(engine, first, second, third) == [1, 2, 3]
    assert store.reads["GetJobs"] == 2
    # Whoever leaves makes room too.
    await one(engine, c.CancelJob(second))
    await one(engine, c.CancelJob(third))
    assert len(engine.positions._cache) == 1


async def test_jobs_that_other_processes_took_are_forgotten(
    setup: StoreSetup, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(positions, "CACHE_SPARE", 5)
    store = await setup.watched()
    here, there = await looking(setup, store, seconds), await setup.engine()
    await opened(here)
    jobs = [await submitted(here) for _ in range(12)]
    assert await places(here, jobs[-1]) == [12]
    taken = {lease.job.id for lease in await claimed(there, limit=10)}
    assert len(here.positions._cache) == 12
    seconds.now += 1
    assert await places(here, *(job for job in jobs if job not in taken)) == [1, 2]
    assert here.positions._cache.keys() == set(jobs) - taken


async def test_a_job_that_was_just_read_has_a_position_before_any_look_has_seen_it(
    setup: StoreSetup, seconds: Seconds
) -> None:
    here, there = await looking(setup, await setup.watched(), seconds), await setup.engine()
    await opened(here)
    assert await places(here, await submitted(here)) == [1]
    theirs = await setup.job(await submitted(there))
    assert await here.positions.of_job(theirs) == QueueStanding(2, None)


async def test_what_is_committed_during_a_look_is_in_it(memory: StoreSetup, seconds: Seconds) -> None:
    """The look may have read the rows before the commit or after it; both lead to the same places."""
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    gone, stays = await submitted(engine), await submitted(engine)
    read = store.inner.read
    begun, may_answer = asyncio.Event(), asyncio.Event()

    async def early(query: object) -> object:
        answer = await read(query)
        begun.set()
        await may_answer.wait()
        return answer

    async def late(query: object) -> object:
        begun.set()
        await may_answer.wait()
        return await read(query)

    for slow in (early, late):
        store.inner.read = slow
        begun.clear()
        may_answer.clear()
        seconds.now += 1
        asked = asyncio.create_task(engine.positions.of(stays))
        await begun.wait()
        (lease,) = await claimed(engine)
        new = await submitted(engine)
        may_answer.set()
        assert (await asked).position == 1
        assert await places(engine, gone, stays, new) == [None, 1, 2]
        store.inner.read = read
        await one(engine, c.CancelJob(new))
        await one(engine, c.Finish(gone, c.RetryLater(1), lease.epoch))
        memory.clock.advance(1)
        await one(engine, c.Recover(gone))
        assert await places(engine, gone, stays) == [1, 2]


async def test_what_is_committed_while_a_look_is_brought_up_to_date_is_in_it_too(
    memory: StoreSetup, seconds: Seconds
) -> None:
    """Others get their turn while what was committed during a look is added to it, and then they may commit more."""
    store = await memory.watched()
    engine, elsewhere = await opened(await looking(memory, store, seconds)), await memory.engine()
    stays = await submitted(engine)
    read = store.inner.read
    has_read, may_answer = asyncio.Event(), asyncio.Event()

    async def early(query: object) -> object:
        answer = await read(query)
        has_read.set()
        await may_answer.wait()
        return answer

    store.inner.read = early
    asked = asyncio.create_task(engine.positions.of(stays))
    await has_read.wait()
    store.inner.read = read
    during = [await submitted(engine) for _ in range(3)]
    last = await memory.job(await submitted(elsewhere))

    async def commit_meanwhile() -> bool:
        await may_answer.wait()
        for _ in during[1:]:
            await asyncio.sleep(0)
        engine.positions.follow(Changes(jobs=[JobChange(None, last)]))
        return asked.done()

    meanwhile = asyncio.create_task(commit_meanwhile())
    await asyncio.sleep(0)
    may_answer.set()
    assert await meanwhile is False, "the look was not ready yet"
    assert await asked == QueueStanding(1, None)
    assert await places(engine, stays, *during, last.id) == [1, 2, 3, 4, 5]
    assert store.reads == {"GetWaiting": 1}
