"""Positions: right at once for what this process did, soon for what others did, and cheap however many ask."""

import asyncio
import random

import pytest

from ficha.core import commands as c
from ficha.core.records import Job, Parked, Ready
from ficha.core.state import State
from ficha.engine import positions
from ficha.engine.engine import Engine
from ficha.engine.positions import Positions, Standing
from ficha.engine.queries import Queries
from ficha.ids import new_id
from ficha.store.base import GetWaiting, Unavailable
from tests.engine.bench import Bench, claimed, one, opened, submit, submitted
from tests.engine.watched import WatchedStore


class Seconds:
    """The process's own clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


async def looking(bench: Bench, store: WatchedStore, seconds: Seconds) -> Engine:
    """An engine whose looks at the queue follow the test's own clock."""
    engine = await bench.engine(store)
    engine.positions = Positions(store, seconds)
    return engine


async def places(engine: Engine, *jobs: str) -> list[int | None]:
    found = [await engine.positions.of(job) for job in jobs]
    return [None if standing is None else standing.position for standing in found]


def looks(store: WatchedStore) -> int:
    return store.reads["GetWaiting"]


def counted(state: State, job: Job) -> int | None:
    """A job's position by its definition, counted over all jobs: those of its pool that are ready and come before it,
    and, where it waits for its account, those of the account that do so too and come before it."""
    if not isinstance(job.place, Ready | Parked) or (isinstance(job.place, Parked) and job.place.due_at is not None):
        return None
    mine = (job.place.rank, job.id)
    ahead = 1
    for other in state.jobs.values():
        if isinstance(other.place, Ready) and other.pool == job.pool:
            ahead += (other.place.rank, other.id) < mine
        elif isinstance(other.place, Parked) and isinstance(job.place, Parked) and other.place.due_at is None:
            ahead += other.account_id == job.account_id and (other.place.rank, other.id) < mine
    return ahead


@pytest.mark.req("A2")
async def test_positions_are_right_after_each_act_of_this_process_without_another_look(
    bench: Bench, seconds: Seconds
) -> None:
    store = await bench.watched()
    engine = await opened(await looking(bench, store, seconds), "ana", "ben")
    one_, two, three = [await submitted(engine) for _ in range(3)]
    assert await places(engine, one_, two, three) == [1, 2, 3]
    reads = store.reads.total()
    four = await submitted(engine, "ben")
    assert await places(engine, one_, two, three, four) == [1, 2, 3, 4]
    (lease,) = await claimed(engine)
    assert await places(engine, one_, two, three, four) == [None, 1, 2, 3]
    await one(engine, c.Cancel(three))
    assert await places(engine, two, three, four) == [1, None, 2]
    await one(engine, c.Finish(one_, c.RetryLater(60_000), lease.epoch))
    assert await places(engine, one_, two, four) == [None, 1, 2]
    bench.clock.advance(60)
    await one(engine, c.Recover(one_))
    assert await places(engine, one_, two, four) == [1, 2, 3], "it keeps the place of the time it was made"
    for lease in await claimed(engine, limit=3):
        await one(engine, c.Finish(lease.job.id, c.Completed("1"), lease.epoch))
    assert await places(engine, one_, two, four) == [None, None, None]
    assert store.reads.total() == reads


async def test_a_better_priority_goes_before_whoever_waits(bench: Bench, seconds: Seconds) -> None:
    engine = await opened(await looking(bench, await bench.watched(), seconds), "ana", plan="free")
    await one(engine, c.OpenAccount("pat", "pro", 100))
    late = await submitted(engine)
    assert await places(engine, late) == [1]
    better = await submitted(engine, "pat")
    worse = await submitted(engine, "pat", job={"priority": 60})
    assert await places(engine, better, late, worse) == [1, 2, 3]


async def test_parked_jobs_stand_behind_the_others_of_their_account(bench: Bench, seconds: Seconds) -> None:
    store = await bench.watched()
    engine = await opened(await looking(bench, store, seconds), "ana", plan="one")
    await one(engine, c.OpenAccount("ben", "free", 100))
    jobs = []
    for account in ("ana", "ana", "ben", "ana", "ben"):
        bench.clock.advance(1)
        jobs.append(await submitted(engine, account))
    first, second, bens, third, bens_next = jobs
    assert await places(engine, *jobs) == [1, 2, 2, 4, 3]
    assert looks(store) == 1
    (lease,) = await claimed(engine)
    assert lease.job.id == first
    assert await places(engine, *jobs) == [None, 1, 1, 3, 2]
    await one(engine, c.Finish(first, c.Completed("1"), lease.epoch))
    assert isinstance((await bench.job(second)).place, Ready)
    assert await places(engine, second, bens, third, bens_next) == [1, 2, 3, 3]
    assert looks(store) == 1


async def test_jobs_of_one_instant_stand_in_the_order_of_their_ids(bench: Bench, seconds: Seconds) -> None:
    store = await bench.watched()
    engine = await opened(await looking(bench, store, seconds))
    ids = sorted(new_id() for _ in range(6))
    for job_id in random.Random(1).sample(ids, 6):
        await submitted(engine, job={"id": job_id})
    assert await places(engine, *ids) == [1, 2, 3, 4, 5, 6]
    assert [lease.job.id for lease in await claimed(engine, limit=6)] == ids


async def test_positions_that_are_followed_are_those_that_are_counted(bench: Bench, seconds: Seconds) -> None:
    """Whatever happens, one look and what was committed since say the same as counting all jobs."""
    store = await bench.watched()
    engine = await opened(await looking(bench, store, seconds), "ana", "ben", plan="free")
    for account in ("cleo", "dora"):
        await one(engine, c.OpenAccount(account, "one", 1_000))
    await one(engine, c.DeclarePool("cpu", None))
    chance = random.Random(11)
    await engine.positions.of(new_id())
    held: list[tuple[str, int]] = []
    for turn in range(90):
        bench.clock.advance(chance.choice([0, 0, 1]))
        account, pool = chance.choice(["ana", "ben", "cleo", "dora"]), chance.choice(["gpu", "cpu"])
        waiting = [job.id for job in (await bench.state()).jobs.values() if job.status == "queued"]
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
                await one(engine, c.Cancel(chance.choice(waiting)))
            case "sweep":
                await engine.sweep()
    state = await bench.state()
    assert len({type(job.place) for job in state.jobs.values()}) >= 4
    assert {job.id: (await places(engine, job.id))[0] for job in state.jobs.values()} == {
        job.id: counted(state, job) for job in state.jobs.values()
    }
    assert looks(store) == 1
    # And a look of another process agrees.
    fresh = await bench.engine()
    assert await places(fresh, *state.jobs) == [counted(state, job) for job in state.jobs.values()]


async def test_what_another_process_did_shows_with_the_next_look(bench: Bench, seconds: Seconds) -> None:
    store = await bench.watched()
    here, there = await looking(bench, store, seconds), await bench.engine()
    await opened(here, "ana", plan="free")
    await one(there, c.OpenAccount("pat", "pro", 100))
    mine = await submitted(here)
    assert await places(here, mine) == [1]
    theirs = await submitted(there, "pat")
    assert await places(here, mine, theirs) == [1, None]
    seconds.now += 1
    assert await places(here, mine, theirs) == [2, 1]
    assert looks(store) == 2


async def test_a_job_that_was_just_read_has_a_position_before_any_look_has_seen_it(
    bench: Bench, seconds: Seconds
) -> None:
    here, there = await looking(bench, await bench.watched(), seconds), await bench.engine()
    await opened(here)
    await submitted(here)
    assert await here.positions.length("gpu") == 1
    theirs = await bench.job(await submitted(there))
    assert await here.positions.of_job(theirs) == Standing(2, None)


async def test_what_is_committed_during_a_look_is_in_it(memory: Bench, seconds: Seconds) -> None:
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
        await one(engine, c.Cancel(new))
        await one(engine, c.Finish(gone, c.RetryLater(1), lease.epoch))
        memory.clock.advance(1)
        await one(engine, c.Recover(gone))
        assert await places(engine, gone, stays) == [1, 2]


# What it costs


async def test_many_who_ask_at_once_share_one_look(bench: Bench, seconds: Seconds) -> None:
    store = await bench.watched()
    engine = await opened(await looking(bench, store, seconds))
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
    memory: Bench, seconds: Seconds, cost_s: float, pace_s: float
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


async def test_nobody_waits_for_a_look_that_is_dear(memory: Bench, seconds: Seconds) -> None:
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
    async with asyncio.timeout(5):
        assert await places(engine, job) == [1]
    await store.until(lambda: looks(store) == 2)
    store.read_gate.set()
    await _settled(engine)


async def test_a_submit_does_not_wait_for_a_look_that_is_due(memory: Bench, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    await engine.positions.of(await submitted(engine))
    seconds.now += 100
    store.read_gate.clear()
    async with asyncio.timeout(5):
        outcome = await one(engine, submit())
        standing = await engine.positions.of_new(outcome.job_id)
    assert standing == Standing(2, None)
    store.read_gate.set()
    await _settled(engine)


async def test_a_look_that_fails_leaves_the_places_as_they_were_known(memory: Bench, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    jobs = [await submitted(engine), await submitted(engine)]
    assert await places(engine, *jobs) == [1, 2]
    store.read_fault = Unavailable("the database is away")
    seconds.now += 1
    await claimed(engine)
    assert await places(engine, *jobs) == [None, 1]
    store.read_fault = None
    seconds.now += 1
    assert await places(engine, *jobs) == [None, 1]


async def test_somebody_who_stops_asking_does_not_take_the_look_from_the_others(
    memory: Bench, seconds: Seconds
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
    assert await stays == Standing(1, None)
    assert looks(store) == 1


async def test_the_end_does_not_cancel_somebody_who_asks(memory: Bench, seconds: Seconds) -> None:
    store = await memory.watched()
    engine = await opened(await looking(memory, store, seconds))
    job = await submitted(engine)
    store.read_gate.clear()
    asked = asyncio.create_task(engine.positions.of(job))
    await store.until(lambda: looks(store) == 1)
    await engine.stop(1.0)
    assert await asked is None


# How long it will take


async def test_the_estimated_wait_follows_the_pace_at_which_the_pool_takes_jobs(bench: Bench, seconds: Seconds) -> None:
    engine = await opened(await looking(bench, await bench.watched(), seconds), credits=10_000)
    job_id = await submitted(engine)
    await one(engine, submit(jobs=200))
    last = (await bench.job(await submitted(engine))).id
    assert await engine.positions.of(job_id) == Standing(1, None), "nothing is known of the pool's pace yet"
    for _ in range(5):
        await claimed(engine, limit=4)
        seconds.now += 1
        await engine.positions.of(last)
    standing = await engine.positions.of(last)
    assert standing == Standing(202 - 20, round((202 - 20) / 4, 1))
    # Twice the pace pulls the estimate down, step by step.
    for _ in range(10):
        await claimed(engine, limit=8)
        seconds.now += 1
        await engine.positions.of(last)
    faster = await engine.positions.of(last)
    assert faster.position == 202 - 100
    assert faster.position / 8 < faster.estimated_wait_s < faster.position / 4


async def test_a_long_silence_says_nothing_about_the_pace(memory: Bench, seconds: Seconds) -> None:
    engine = await opened(await looking(memory, await memory.watched(), seconds))
    jobs = [await submitted(engine) for _ in range(20)]
    await engine.positions.of(jobs[-1])
    await claimed(engine, limit=10)
    seconds.now += 10 * positions.WINDOW_S + 1
    assert await engine.positions.of(jobs[-1]) == Standing(10, None)


# Why it waits


async def test_a_job_says_why_it_waits(bench: Bench) -> None:
    engine = await opened(await bench.engine(), "ana", plan="one")
    await one(engine, c.OpenAccount("ben", "free", 100))
    await one(engine, c.DeclarePool("gpu", 1))

    async def reason(job_id: str) -> str | None:
        view = await Queries(bench.store, engine.positions).job(job_id)
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
    bench.clock.advance(1)
    await engine.sweep()
    assert await reason(scheduled) == "place"
    assert await reason(first) is None
