"""The sweeper: whatever time has made due is found and dealt with, by one of many, and without a scheduler too."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.outcomes import Refusal, Submitted
from ficha.core.records import Leader, Leased, Parked, Ready
from ficha.engine import sweeper
from ficha.engine.engine import Engine
from ficha.engine.queries import Queries
from ficha.engine.sweeper import SweepReport
from ficha.ids import new_id
from ficha.store import base
from ficha.store.base import GetDue, StoreError, Unavailable
from tests.engine.engine_setup import COST, CREDITS, POLICY, StoreSetup, claimed, one, opened, submit, submitted
from tests.engine.instrumented_store import InstrumentedStore
from tests.support.waiting import until

MINUTE = 60.0
HOUR = 3_600.0
DAY = 24 * HOUR
TICK = 0.000_001
NOTHING = SweepReport({})


class Time:
    """What the sweeper takes for the module of that name: it passes when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


async def sweep_at_the_edge(setup: StoreSetup, engine: Engine, seconds: float) -> SweepReport:
    """Sweeps a microsecond before the time is up, which finds nothing, and then when it is."""
    setup.clock.advance(seconds - TICK)
    before = await setup.state()
    assert await engine.sweep() == NOTHING
    assert await setup.state() == before
    setup.clock.advance(TICK)
    return await engine.sweep()


# What is due


@pytest.mark.req("B4", "B5")
async def test_a_lease_that_expired_goes_back_to_the_queue_and_its_worker_is_refused(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine)
    (lost,) = await claimed(engine)
    assert await sweep_at_the_edge(setup, engine, MINUTE) == SweepReport({"requeued": 1})
    job = await setup.job(job_id)
    assert (job.status, job.recoveries, job.attempts) == ("queued", 1, 0)
    (again,) = await claimed(engine, worker="w2")
    assert (again.job.id, again.epoch) == (job_id, lost.epoch + 1)
    for late in (
        c.Heartbeat(job_id, lost.epoch),
        c.SaveCheckpoint(job_id, lost.epoch, "HALF"),
        c.SaveStep(job_id, lost.epoch, "paid", "1"),
        c.Finish(job_id, c.Completed("1"), lost.epoch),
    ):
        refusal = await engine.call(late)
        assert isinstance(refusal, Refusal)
        assert refusal.code == "LEASE_LOST"
    assert (await setup.job(job_id)).status == "starting"
    await setup.check()


async def test_a_heartbeat_keeps_a_lease_from_being_swept(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine)
    (lease,) = await claimed(engine)
    for _ in range(5):
        setup.clock.advance(MINUTE - 1)
        await one(engine, c.Heartbeat(job_id, lease.epoch))
        assert await engine.sweep() == NOTHING
    assert (await setup.job(job_id)).recoveries == 0


@pytest.mark.req("A8")
async def test_a_run_that_takes_too_long_is_failed_refunded_and_frees_its_slot(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    await one(engine, c.DeclarePool("gpu", 1))
    job_id = await submitted(engine, job={"timeout_ms": 100_000})
    await submitted(engine)
    (lease,) = await claimed(engine, limit=2)
    setup.clock.advance(55)
    await one(engine, c.Heartbeat(job_id, lease.epoch))
    setup.clock.advance(45)
    assert await engine.sweep() == NOTHING
    await one(engine, c.Heartbeat(job_id, lease.epoch))
    assert await engine.sweep() == SweepReport({"failed": 1})
    job = await setup.job(job_id)
    assert (job.status, job.error, job.refunded) == ("failed", "timed out after 100 s", COST)
    assert job.dead_at is not None
    assert (await setup.account()).balance == CREDITS - COST
    assert len(await claimed(engine)) == 1
    await setup.check()


async def test_a_provider_that_never_answers_is_given_up(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine, job={"timeout_ms": 7_200_000})
    (lease,) = await claimed(engine)
    await one(engine, c.Finish(job_id, c.AcceptedByProvider("ref-1"), lease.epoch))
    assert await sweep_at_the_edge(setup, engine, 2 * HOUR) == SweepReport({"failed": 1})
    job = await setup.job(job_id)
    assert (job.status, job.refunded) == ("failed", COST)
    assert job.error == "the provider did not answer within 7200 s"
    await setup.check()


@pytest.mark.req("A8")
async def test_a_job_that_waited_too_long_is_cancelled_and_refunded(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), plan="one")
    ready = await submitted(engine, job={"max_wait_ms": 5_000})
    parked = await submitted(engine, job={"max_wait_ms": 5_000})
    patient = await submitted(engine)
    assert await sweep_at_the_edge(setup, engine, 5) == SweepReport({"cancelled": 2})
    for job_id in (ready, parked):
        job = await setup.job(job_id)
        assert (job.status, job.refunded, job.error) == ("cancelled", COST, "it waited longer than 5 seconds")
    assert isinstance((await setup.job(patient)).place, Ready)
    await setup.check()


async def test_a_scheduled_job_becomes_ready_when_its_time_comes(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine, delay_ms=90_000)
    assert await claimed(engine) == []
    assert await sweep_at_the_edge(setup, engine, 90) == SweepReport({"promoted": 1})
    assert [lease.job.id for lease in await claimed(engine)] == [job_id]
    await setup.check()


async def test_a_scheduled_job_whose_account_is_at_its_limit_waits_for_it(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), plan="one")
    job_id = await submitted(engine, delay_ms=90_000)
    first = await submitted(engine)
    setup.clock.advance(90)
    assert await engine.sweep() == SweepReport({"parked": 1})
    place = (await setup.job(job_id)).place
    assert isinstance(place, Parked)
    assert place.due_at is None
    await one(engine, c.CancelJob(first))
    assert [lease.job.id for lease in await claimed(engine)] == [job_id]
    await setup.check()


@pytest.mark.req("B6")
async def test_a_failed_run_comes_back_after_its_backoff_which_doubles(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine, job={"max_attempts": 3, "backoff_ms": 10_000})
    for attempt, wait_s in ((1, 10), (2, 20)):
        (lease,) = await claimed(engine)
        outcome = await one(engine, c.Finish(job_id, c.Failed("no"), lease.epoch))
        assert outcome.status == "queued"
        assert await claimed(engine) == []
        assert await sweep_at_the_edge(setup, engine, wait_s) == SweepReport({"promoted": 1})
        assert (await setup.job(job_id)).attempts == attempt
    (lease,) = await claimed(engine)
    outcome = await one(engine, c.Finish(job_id, c.Failed("no"), lease.epoch))
    assert (outcome.status, outcome.refunded) == ("failed", COST)
    await setup.check()


@pytest.mark.req("C2")
async def test_a_reservation_expires_at_its_time_and_is_written_down_as_expired(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), plan="quota")
    kept, late = new_id(), new_id()
    await one(engine, c.Reserve(kept, "ana", 600_000))
    await one(engine, c.Reserve(late, "ana"))
    assert (await engine.call(c.Reserve(new_id(), "ana"))).code == "QUOTA_EXCEEDED"
    assert await sweep_at_the_edge(setup, engine, 300) == SweepReport({}, reservations=1)
    held = (await setup.state()).reservations
    assert (held[kept].state, held[late].state) == ("active", "expired")
    assert await engine.sweep() == NOTHING


@pytest.mark.req("C2")
async def test_reservations_that_ended_are_deleted_in_passing_and_nothing_else_is(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    used, released, expired = [new_id() for _ in range(3)]
    for held in (used, released, expired):
        await one(engine, c.Reserve(held, "ana", 1_000))
    await submitted(engine, reservation_id=used)
    await one(engine, c.EndReservation(released, "released"))
    entries = (await setup.state()).entries
    assert await sweep_at_the_edge(setup, engine, 1) == SweepReport({}, reservations=1)
    assert await sweep_at_the_edge(setup, engine, DAY) == SweepReport({}, reservations=3)
    state = await setup.state()
    assert (state.reservations, state.entries, len(state.jobs)) == ({}, entries, 1)
    assert (await engine.call(c.EndReservation(released, "released"))).code == "NOT_FOUND"
    await setup.check()


async def test_a_reservation_past_its_time_does_not_count_before_any_sweep(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), plan="quota")
    for _ in range(2):
        await one(engine, c.Reserve(new_id(), "ana"))
    assert (await engine.call(submit())).code == "QUOTA_EXCEEDED"
    setup.clock.advance(300)
    await one(engine, submit(), Submitted)


@pytest.mark.req("C1")
async def test_a_key_is_forgotten_after_its_day_and_grant_keys_never_are(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    await submitted(engine, key="day")
    await submitted(engine, key="week", key_ttl_ms=7 * 86_400_000)
    await one(engine, c.Credit("ana", 1, "grant", key="payment"))
    assert await sweep_at_the_edge(setup, engine, DAY) == SweepReport({}, keys=1)
    assert {name[2] for name in (await setup.state()).keys} == {"week", "payment"}
    await setup.check()


async def test_waiting_improves_the_place_of_a_job_where_the_plan_ages(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), plan="ageing")
    await one(engine, c.OpenAccount("ben", "pro", CREDITS))
    old = await submitted(engine)
    assert await sweep_at_the_edge(setup, engine, 10) == SweepReport({"aged": 1})
    assert await engine.sweep() == NOTHING
    # 50 - 41 points of waiting is better than the 10 of a plan that pays more.
    setup.clock.advance(400)
    await submitted(engine, "ben")
    assert await engine.sweep() == SweepReport({"aged": 1})
    assert [lease.job.id for lease in await claimed(engine)] == [old]
    await setup.check()


async def test_a_job_that_takes_three_workers_down_is_set_aside_and_refunded_once(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine())
    poison, other = await submitted(engine), await submitted(engine)
    for lost in (1, 2, 3):
        leases = await claimed(engine, limit=2, worker=f"w{lost}")
        assert poison in [lease.job.id for lease in leases]
        for lease in leases:
            if lease.job.id == other:
                await one(engine, c.Finish(other, c.Completed("1"), lease.epoch))
        setup.clock.advance(MINUTE)
        assert await engine.sweep() == SweepReport({"failed" if lost == 3 else "requeued": 1})
    job = await setup.job(poison)
    assert (job.status, job.recoveries, job.attempts, job.refunded) == ("failed", 3, 0, COST)
    assert job.dead_at is not None
    assert "poison" in str(job.error)
    assert (await setup.job(other)).status == "completed"
    assert (await setup.account()).balance == CREDITS - COST
    await setup.check()


@pytest.mark.req("E4")
async def test_a_silent_job_is_recovered_whatever_its_lease_says(setup: StoreSetup) -> None:
    policy = replace(POLICY, lease_ms=3_600_000)
    engine = await opened(await setup.engine(policy=policy))
    job_id = await submitted(engine, job={"timeout_ms": 7_200_000})
    await claimed(engine)
    assert await sweep_at_the_edge(setup, engine, 10 * MINUTE) == SweepReport({"requeued": 1})
    assert (await setup.job(job_id)).status == "queued"


@pytest.mark.req("E4")
async def test_a_job_that_began_more_than_a_day_ago_is_failed_when_its_worker_is_lost(setup: StoreSetup) -> None:
    policy = replace(POLICY, max_recoveries=100)
    engine = await opened(await setup.engine(policy=policy))
    job_id = await submitted(engine, job={"timeout_ms": 7 * 86_400_000})
    await claimed(engine)
    setup.clock.advance(DAY - MINUTE)
    assert await engine.sweep() == SweepReport({"requeued": 1})
    await claimed(engine)
    setup.clock.advance(MINUTE)
    assert await engine.sweep() == SweepReport({"failed": 1})
    job = await setup.job(job_id)
    assert (job.status, job.refunded) == ("failed", COST)
    assert job.error == "not finished 24 hours after its first start"
    await setup.check()


async def test_more_than_one_look_can_name_is_swept_in_one_go(setup: StoreSetup) -> None:
    engine = await opened(await setup.engine(), credits=10_000)
    await one(engine, submit(jobs=1_100, delay_ms=1_000))
    setup.clock.advance(1)
    assert await engine.sweep() == SweepReport({"promoted": 1_100})
    assert await engine.sweep() == NOTHING
    await setup.check()


async def test_a_job_that_cannot_be_recovered_does_not_keep_the_others_from_it(
    setup: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that somebody broke by hand makes its commit group fail; the sweep goes on without it."""
    store = await setup.watched()
    engine = await opened(await setup.engine(store))
    jobs = [await submitted(engine) for _ in range(3)]
    held = new_id()
    await one(engine, c.Reserve(held, "ana", 1))
    await claimed(engine, limit=3)
    transact = store.inner.transact

    async def refuse_one(committer: str, number: int, needs: Any, decide: Any, hints: Any) -> Any:
        if jobs[1] in needs.owned_jobs:
            raise StoreError("the database refused a row")
        return await transact(committer, number, needs, decide, hints)

    monkeypatch.setattr(store.inner, "transact", refuse_one)
    setup.clock.advance(MINUTE)
    await engine.sweep()
    state = await setup.state()
    assert [type(state.jobs[job].place) for job in jobs] == [Ready, Leased, Ready]
    assert state.reservations[held].state == "expired"
    assert len(await claimed(engine, limit=3)) == 2


# Many sweepers


@pytest.mark.req("A6")
async def test_two_that_sweep_at_once_do_no_harm(setup: StoreSetup) -> None:
    first, second = await setup.engine(), await setup.engine()
    await opened(first, credits=10_000)
    await one(first, submit(jobs=60, job={"timeout_ms": 1_000}))
    setup.clock.advance(0.5)
    await one(first, submit(jobs=60, job={"max_wait_ms": 500}))
    leases = await claimed(first, limit=60)
    assert len(leases) == 60
    setup.clock.advance(1)
    await asyncio.gather(*(one(first, c.Heartbeat(lease.job.id, lease.epoch)) for lease in leases))
    reports = await asyncio.gather(first.sweep(), second.sweep(), first.sweep(), second.sweep())
    assert [sum(report.jobs.get(act, 0) for report in reports) for act in ("failed", "cancelled")] == [60, 60]
    assert (await setup.account()).balance == 10_000
    assert sum(entry.kind == "refund" for entry in (await setup.state()).entries) == 120
    await setup.check()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweepers that ask for the lead in every turn, so that a test need not wait until they do."""
    monkeypatch.setattr(sweeper, "RENEW_S", 0.0)


def turns(store: InstrumentedStore) -> int:
    """How often an engine has looked for what is due: only the leader does."""
    return store.reads["GetDue"]


@pytest.mark.usefixtures("eager")
async def test_one_of_two_engines_leads_and_the_other_takes_over_when_it_stops_renewing(setup: StoreSetup) -> None:
    stores = [await setup.watched(), await setup.watched()]
    engines = {id(store): await setup.engine(store) for store in stores}
    await opened(engines[id(stores[0])])
    for engine in engines.values():
        engine.sweeper = sweeper.Sweeper(engine, interval_s=0.001)
        engine.sweeper.start()
    first, second = stores
    async with asyncio.timeout(20):
        waits = {asyncio.create_task(store.until(lambda s=store: turns(s) >= 3)) for store in stores}
        _, unfinished = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in unfinished:
            wait.cancel()
    if turns(second) > turns(first):
        first, second = second, first
    # The other one goes on asking, and is not let in while the lease row stands.
    asked = second.groups
    await second.until(lambda: second.groups >= asked + 5)
    assert turns(second) == 0
    owner = (await setup.state()).of(Leader)[sweeper.DUTY].owner
    # The leader vanishes without a word.
    vanished = engines[id(first)].sweeper._task
    assert vanished is not None
    vanished.cancel()
    asked = second.groups
    await second.until(lambda: second.groups >= asked + 5)
    assert turns(second) == 0
    setup.clock.advance(sweeper.LEAD_MS / 1_000)
    await second.until(lambda: turns(second) >= 3)
    assert (await setup.state()).of(Leader)[sweeper.DUTY].owner != owner
    # One that ends in good order leaves the duty free when its next turn would be, and not only after its lease.
    await engines[id(second)].sweeper.stop()
    assert (await setup.state()).of(Leader)[sweeper.DUTY].expires_at < setup.clock() + 1_000_000


async def test_the_leader_lets_the_store_tidy_up_at_first_and_now_and_then(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await memory.watched()
    engine = await memory.engine(store)
    engine.sweeper = sweeper.Sweeper(engine, interval_s=0.001)
    engine.sweeper.start()
    await store.until(lambda: turns(store) >= 5)
    assert (store.tidied, store.commits_kept_ms) == (1, POLICY.commits_kept_ms)
    monkeypatch.setattr(sweeper, "TIDY_S", 0.0)
    engine.sweeper._next_tidy_at = 0.0
    seen = turns(store)
    await store.until(lambda: turns(store) >= seen + 5)
    assert store.tidied >= 4


async def test_while_more_is_left_the_store_tidies_up_with_every_sweep(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "COMMITS_PRUNED", 0)  # Every call stops at the limit.
    store = await memory.watched()
    engine = await memory.engine(store)
    engine.sweeper = sweeper.Sweeper(engine, interval_s=0.001)
    engine.sweeper.start()
    await store.until(lambda: store.tidied >= 5)


async def test_a_leader_that_lost_touch_trusts_its_lease_no_longer_than_the_database(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Time()
    monkeypatch.setattr(sweeper, "time", time)
    monkeypatch.setattr(sweeper, "RENEW_S", 1_000_000.0)
    store = await memory.watched()
    engine = await opened(await memory.engine(store, sweep_s=0.0))
    await asyncio.gather(*_sweeps())
    # Its first term is no longer than the interval, and is followed by one of 30 s.
    for passed, leads in ((0.0, True), (0.0, True), (28.0, True), (1.5, False), (100.0, False)):
        time.now += passed
        before = turns(store)
        engine.sweeper.nudge()
        await asyncio.gather(*_sweeps())
        assert (turns(store) > before) is leads, time.now


def _sweeps() -> list[asyncio.Task]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "ficha sweep"]


# With no scheduler


@pytest.mark.req("A9")
async def test_ordinary_calls_sweep_where_nothing_else_does(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeper, "LONGEST_PAUSE_S", 0.0)
    store = await setup.watched()
    engine = await setup.engine(store, sweep=False, sweep_s=0.0)
    await opened(engine)
    job_id = await submitted(engine, job={"max_wait_ms": 1_000})
    # A call starts no sweep while one that began before the job was due still runs.
    await asyncio.gather(*_sweeps())
    setup.clock.advance(1)
    await one(engine, c.Credit("ana", 1, "grant"))
    await asyncio.gather(*_sweeps())
    assert (await setup.job(job_id)).status == "cancelled"
    assert (await setup.account()).balance == CREDITS + 1


async def test_ordinary_calls_sweep_no_more_often_than_the_interval(memory: StoreSetup) -> None:
    store = await memory.watched()
    engine = await opened(await memory.engine(store, sweep=False, sweep_s=3_600.0))
    for _ in range(10):
        await submitted(engine)
        await asyncio.gather(*_sweeps())
    assert turns(store) == 1, "the first call sweeps, and none after it"


async def test_where_looking_is_slow_it_is_done_less_often(memory: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    monkeypatch.setattr(sweeper, "time", time)
    monkeypatch.setattr(sweeper, "LONGEST_PAUSE_S", 10.0)
    store = await memory.watched()
    engine = await opened(await memory.engine(store, sweep=False, sweep_s=1.0))
    await asyncio.gather(*_sweeps())
    read = store.read

    async def slow_read(query: Any) -> Any:
        time.now += look_s if isinstance(query, GetDue) else 0.0
        return await read(query)

    monkeypatch.setattr(store, "read", slow_read)
    for look_s, pause_s in ((0.01, 1.0), (0.2, 4.0), (2.0, 10.0)):
        # The pause begins with the look.
        for passed, looks in ((100.0, 1), (pause_s - look_s - 0.01, 0), (0.02, 1)):
            time.now += passed
            before = turns(store)
            engine.sweeper.nudge()
            await asyncio.gather(*_sweeps())
            assert turns(store) - before == looks, (look_s, passed)


@pytest.mark.req("A9")
async def test_a_read_sweeps_where_nothing_else_does(setup: StoreSetup) -> None:
    job_id = await submitted(await opened(await setup.engine()), job={"max_wait_ms": 1_000})
    setup.clock.advance(1)
    reader = await setup.engine(sweep=False, sweep_s=1.0)
    await Queries(reader, reader.positions).job(job_id)
    await asyncio.gather(*_sweeps())
    assert (await setup.job(job_id)).status == "cancelled"


# Processes that live for a moment, at the usual interval


@pytest.mark.req("A9")
@pytest.mark.parametrize("sweeps", [True, False], ids=["timer", "calls"])
async def test_a_process_that_only_opens_calls_once_and_closes_does_its_share(setup: StoreSetup, sweeps: bool) -> None:
    engine = await opened(await setup.engine())
    job_id = await submitted(engine)
    await claimed(engine)
    setup.clock.advance(MINUTE)
    brief = await setup.engine(sweep=sweeps, sweep_s=1.0)
    await one(brief, c.Credit("ana", 1, "grant"))
    await brief.stop(1.0)
    job = await setup.job(job_id)
    assert (job.status, job.recoveries) == ("queued", 1)


@pytest.mark.req("A9")
@pytest.mark.parametrize("sweeps", [True, False], ids=["timer", "calls"])
async def test_of_many_processes_that_live_for_a_moment_one_sweeps_per_interval(
    setup: StoreSetup, sweeps: bool
) -> None:
    await opened(await setup.engine())
    scans = 0
    for second in (1, 2):
        for _ in range(5):
            store = await setup.watched()
            brief = await setup.engine(store, sweep=sweeps, sweep_s=1.0)
            await one(brief, c.Credit("ana", 1, "grant"))
            await brief.stop(1.0)
            scans += turns(store)
        assert scans == second
        setup.clock.advance(1)


async def test_one_that_opens_just_after_a_sweep_sweeps_when_the_next_is_due(
    memory: StoreSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks again when the other's term is over, and not only when a leader would have renewed it."""
    time = Time()
    monkeypatch.setattr(sweeper, "time", time)
    brief = await opened(await memory.engine(sweep=False, sweep_s=1.0))
    await asyncio.gather(*_sweeps())
    await brief.stop(1.0)
    store = await memory.watched()
    engine = await memory.engine(store, sweep=False, sweep_s=1.0)
    for passed, looks in ((0.5, 0), (1.0, 1)):
        time.now += passed
        memory.clock.advance(passed)
        engine.sweeper.nudge()
        await asyncio.gather(*_sweeps())
        assert turns(store) == looks


# Jobs that fall due between two turns, which are an hour apart here


async def test_a_process_that_puts_a_job_off_promotes_it_when_it_is_due(setup: StoreSetup) -> None:
    store = await setup.watched()
    leader = await opened(await setup.engine())
    await one(leader, c.Elect(sweeper.DUTY, "somebody else", 30_000))
    engine = await setup.engine(store, sweep=True, sweep_s=3_600.0)
    job_id = await submitted(engine, job={"max_attempts": 2, "backoff_ms": 20})
    (lease,) = await claimed(engine)
    assert turns(store) == 0
    await one(engine, c.Finish(job_id, c.Failed("no"), lease.epoch))
    setup.clock.advance(0.02)
    await until(lambda: _is_ready(setup, job_id))


async def test_a_job_that_is_not_due_yet_by_the_databases_clock_is_looked_at_again(setup: StoreSetup) -> None:
    store = await setup.watched()
    leader = await opened(await setup.engine())
    await one(leader, c.Elect(sweeper.DUTY, "somebody else", 30_000))
    engine = await setup.engine(store, sweep=True, sweep_s=3_600.0)
    job_id = await submitted(engine, job={"max_attempts": 2, "backoff_ms": 20})
    (lease,) = await claimed(engine)
    await one(engine, c.Finish(job_id, c.Failed("no"), lease.epoch))
    await store.until(lambda: turns(store) >= 1)
    setup.clock.advance(0.02)
    await until(lambda: _is_ready(setup, job_id))


async def test_the_leader_promotes_what_another_process_put_off_when_it_is_due(setup: StoreSetup) -> None:
    other = await opened(await setup.engine())
    job_id = await submitted(other, delay_ms=50)
    store = await setup.watched()
    await setup.engine(store, sweep=True, sweep_s=3_600.0)
    await store.until(lambda: turns(store) >= 1)
    setup.clock.advance(0.05)
    await until(lambda: turns(store) >= 2)
    await until(lambda: _is_ready(setup, job_id))


async def _is_ready(setup: StoreSetup, job_id: str) -> bool:
    return isinstance((await setup.job(job_id)).place, Ready)


async def test_a_job_that_falls_due_much_later_is_left_to_the_turns(memory: StoreSetup) -> None:
    store = await memory.watched()
    engine = await opened(await memory.engine(store, sweep=True, sweep_s=3_600.0))
    await submitted(engine, delay_ms=3_600_000)
    assert engine.sweeper._due == set()


async def test_many_jobs_that_fall_due_together_take_few_scans(memory: StoreSetup) -> None:
    store = await memory.watched()
    engine = await opened(await memory.engine(store, sweep=True, sweep_s=3_600.0), credits=10_000)
    await store.until(lambda: turns(store) == 1)
    await asyncio.gather(*(submitted(engine, delay_ms=30) for _ in range(500)))
    memory.clock.advance(1)
    await until(lambda: len(memory.store.ready["gpu"]) == 500)
    assert turns(store) <= 20


@pytest.mark.req("A9")
async def test_a_started_sweeper_heals_with_no_call_at_all(setup: StoreSetup) -> None:
    store = await setup.watched()
    other = await opened(await setup.engine())
    job_id = await submitted(other, job={"max_wait_ms": 1_000})
    setup.clock.advance(1)
    await setup.engine(store, sweep=True, sweep_s=0.001)
    await store.until(lambda: turns(store) >= 2)
    assert (await setup.job(job_id)).status == "cancelled"


async def test_a_sweep_that_failed_is_tried_again(memory: StoreSetup) -> None:
    store = await memory.watched()
    engine = await opened(await memory.engine())
    job_id = await submitted(engine, job={"max_wait_ms": 1_000})
    memory.clock.advance(1)
    for fault in (Unavailable("the database is away"), RuntimeError("a bug")):
        store.read_fault = fault
        before = turns(store)
        if before == 0:
            await memory.engine(store, sweep=True, sweep_s=0.001)
        await store.until(lambda before=before: turns(store) >= before + 3)
        assert (await memory.job(job_id)).status == "queued"
    store.read_fault = None
    before = turns(store)
    await store.until(lambda: turns(store) >= before + 3)
    assert (await memory.job(job_id)).status == "cancelled"


async def test_a_call_that_comes_after_the_end_starts_no_sweep(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine(sweep=False, sweep_s=0.0))
    await engine.stop(1.0)
    assert (await engine.call(submit())).code == "OVERLOADED"
    assert not _sweeps()
