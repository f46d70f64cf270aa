"""The lane: calls share transactions, each is answered with what is true, and nobody waits for ever."""

import asyncio
import random
import threading
import time
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from ficha import backoff
from ficha.core import commands as c
from ficha.core.outcomes import AccountChanged, Refusal, SubmitPreview, Submitted
from ficha.engine import committer
from ficha.engine.committer import CLOSED, TOGETHER, CommitLimits, Committer
from ficha.engine.engine import Engine
from ficha.ids import new_id
from ficha.store.base import CommitUnknown, DiskFull, StoreError, Transient, Unavailable, no_hints
from tests.engine.engine_setup import COST, CREDITS, POLICY, QUICK, StoreSetup, one, opened, submit, submitted
from tests.engine.instrumented_store import LOST_AFTER, LOST_BEFORE, InstrumentedStore

CONFLICT = Transient("a conflict")
AWAY = Unavailable("the database is away")


@pytest.fixture
async def store(memory: StoreSetup) -> InstrumentedStore:
    return await memory.watched()


async def sent(engine: Engine, *commands: c.Command) -> list[asyncio.Task]:
    """Calls that have reached their committer and wait there."""
    calls = [asyncio.create_task(engine.call(command)) for command in commands]
    await asyncio.sleep(0)
    return calls


async def held(engine: Engine, store: InstrumentedStore) -> asyncio.Task:
    """A call whose commit group has begun and waits at the gate, so that the next calls wait for their turn."""
    store.gate.clear()
    before = store.groups
    (call,) = await sent(engine, c.Credit("ana", 1, "grant"))
    await store.until(lambda: store.groups == before + 1)
    return call


# Commit groups


async def test_calls_that_wait_together_share_one_transaction(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    first = await held(engine, store)
    before = store.groups
    calls = await sent(engine, *(submit() for _ in range(100)))
    store.gate.set()
    assert isinstance(await first, AccountChanged)
    assert all(isinstance(outcome, Submitted) for outcome in await asyncio.gather(*calls))
    assert store.groups == before + 1
    assert (await memory.account()).balance == CREDITS + 1 - 100 * COST


async def test_the_calls_of_one_commit_group_are_decided_in_the_order_they_came(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store), credits=0)
    await held(engine, store)
    calls = await sent(engine, submit(), c.Credit("ana", COST, "grant"), submit(), submit())
    store.gate.set()
    poor, granted, paid, poor_again = await asyncio.gather(*calls)
    assert (poor.code, poor_again.code) == ("INSUFFICIENT_CREDITS", "INSUFFICIENT_CREDITS")
    assert (granted.account.balance, paid.new_balance) == (COST + 1, 1)


async def test_a_refused_command_does_not_fail_its_neighbours(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    await held(engine, store)
    before = store.groups
    calls = await sent(engine, submit(), submit("nobody"), submit(job={"cost": CREDITS * 2}), submit())
    store.gate.set()
    outcomes = await asyncio.gather(*calls)
    assert [getattr(outcome, "code", "submitted") for outcome in outcomes] == [
        "submitted",
        "NOT_FOUND",
        "INSUFFICIENT_CREDITS",
        "submitted",
    ]
    assert store.groups == before + 1
    assert await memory.charges() == 2


async def test_no_caller_is_answered_before_the_commit(sqlite: StoreSetup) -> None:
    """The commit group is decided, on the writer's thread, and kept from committing: nobody may know of it yet."""
    store = await sqlite.watched()
    engine = await opened(await sqlite.engine(store))
    is_decided, may_commit = threading.Event(), threading.Event()
    transact = store.inner.transact

    async def slow_commit(committer: str, number: int, needs: object, decide, hints: object) -> object:
        def decide_and_wait(snapshot: object) -> object:
            decision = decide(snapshot)
            is_decided.set()
            may_commit.wait()
            return decision

        return await transact(committer, number, needs, decide_and_wait, hints)

    store.inner.transact = slow_commit
    heard = engine.wakeups.heard(["gpu"])
    calls = await sent(engine, submit(), submit())
    try:
        assert await asyncio.to_thread(is_decided.wait, 10)
        assert not any(call.done() for call in calls)
        assert engine.wakeups.heard(["gpu"]) == heard
        assert await sqlite.charges() == 0
    finally:
        may_commit.set()
    assert all(isinstance(outcome, Submitted) for outcome in await asyncio.gather(*calls))
    assert engine.wakeups.heard(["gpu"]) > heard
    assert await sqlite.charges() == 2


@pytest.mark.parametrize(
    ("weights", "groups"),
    [
        ([1, 1, 1, 1], 1),
        ([1, 1, 1, 1, 1], 2),
        ([3, 1], 1),
        ([3, 2], 2),
        ([4, 4], 2),
        ([5], 1),
        ([5, 5, 1], 3),
        ([1, 5, 1], 3),
    ],
)
@pytest.mark.parametrize("actor", [None, "boss"])
async def test_a_commit_group_takes_what_fits_its_weight_and_no_more(
    memory: StoreSetup, store: InstrumentedStore, weights: list[int], groups: int, actor: str | None
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=4)))
    await held(engine, store)
    before = store.groups
    submits = [submit(jobs=weight) for weight in weights]
    calls = await sent(engine, *(submits if actor is None else [c.ActingAs(actor, one) for one in submits]))
    store.gate.set()
    assert [outcome.jobs for outcome in await asyncio.gather(*calls)] == weights
    assert store.groups - before == groups


async def test_a_call_beyond_the_queue_is_refused_and_one_at_its_edge_is_not(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, waiting_weight=5)))
    await held(engine, store)
    waiting = await sent(engine, submit(jobs=3), submit(), submit())
    before = await memory.state()
    refused = await engine.call(submit())
    assert isinstance(refused, Refusal)
    assert refused.code == "OVERLOADED"
    assert refused.retryable
    assert refused.retry_after_s == 1.0
    assert "nothing was changed" in refused.message
    assert await memory.state() == before
    store.gate.set()
    assert [outcome.jobs for outcome in await asyncio.gather(*waiting)] == [3, 1, 1]
    assert isinstance(await engine.call(submit()), Submitted)
    assert await memory.charges() == 6


async def test_one_more_than_fits_is_refused_even_if_a_smaller_one_would_pass(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, waiting_weight=5)))
    await held(engine, store)
    waiting = await sent(engine, submit(jobs=4))
    assert (await engine.call(submit(jobs=2))).code == "OVERLOADED"
    waiting += await sent(engine, submit())
    store.gate.set()
    assert [outcome.jobs for outcome in await asyncio.gather(*waiting)] == [4, 1]


async def test_a_call_heavier_than_the_whole_queue_is_served_when_nothing_waits(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, waiting_weight=5)))
    assert (await engine.call(submit(jobs=50))).jobs == 50
    await held(engine, store)
    waiting = await sent(engine, submit(jobs=50))
    assert (await engine.call(submit(jobs=50))).code == "OVERLOADED"
    store.gate.set()
    assert (await waiting[0]).jobs == 50


async def test_a_large_call_of_many_lets_others_in_between(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=10, waiting_weight=10)))
    answered: list[str] = []

    async def call_many() -> None:
        outcomes = await engine.call_many([submit() for _ in range(100)])
        assert all(isinstance(outcome, Submitted) for outcome in outcomes)
        answered.append("many")

    async def call_one() -> None:
        assert isinstance(await engine.call(submit()), Submitted)
        answered.append("one")

    await asyncio.gather(call_many(), call_one())
    assert answered == ["one", "many"]
    assert await memory.charges() == 101


async def test_the_answers_to_a_call_of_many_come_in_its_order_whatever_lane_they_took(memory: StoreSetup) -> None:
    engine = await opened(await memory.engine(await memory.watched(committers=3)))
    job_id = await submitted(engine)
    commands = [
        c.Credit("ana", 1, "grant"),
        c.Claim("w1", ("gpu",), 1),
        c.Recover(job_id),
        c.Heartbeat(job_id, 99),
        submit("nobody"),
        c.Claim("w1", ("nowhere",), 1),
        submit(),
    ]
    outcomes = await engine.call_many(commands)
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "AccountChanged",
        "Claimed",
        "Recovered",
        "Refusal",
        "Refusal",
        "Refusal",
        "Submitted",
    ]
    assert [outcome.code for outcome in outcomes[3:6]] == ["LEASE_LOST", "NOT_FOUND", "NOT_FOUND"]


async def test_claims_and_different_accounts_do_not_wait_for_each_other(memory: StoreSetup) -> None:
    store = await memory.watched(committers=3)
    engine = await opened(await memory.engine(store))
    store.gate.clear()
    before = store.groups
    calls = await sent(engine, submit("ana"), c.ActingAs("boss", submit("eva")), c.Claim("w1", ("gpu",), 1))
    await store.until(lambda: store.groups == before + 3)
    store.gate.set()
    await asyncio.gather(*calls)


async def test_a_preview_tells_what_a_submit_would_lead_to_and_asks_no_lane(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    await held(engine, store)
    before = store.groups
    command = submit()
    found = await engine.preview(command, [3])
    assert isinstance(found, SubmitPreview)
    assert (found.jobs, found.cost, found.balance, found.new_balance) == (3, 3 * COST, CREDITS, CREDITS - 3 * COST)
    assert (found.first.id, found.first.status) == (command.jobs[0].id, "queued")
    refused = await engine.preview(submit("nobody"), [1])
    assert refused.code == "NOT_FOUND"
    assert (store.groups, await memory.charges()) == (before, 0)
    store.gate.set()
    assert (await one(engine, command, Submitted)).new_balance == CREDITS + 1 - COST


async def test_one_account_fills_its_own_part_of_the_queue_and_others_go_on(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    limits = replace(QUICK, group_weight=10, waiting_weight=20, account_weight=5)
    engine = await opened(await memory.engine(store, limits=limits), "ana", "eva")
    await held(engine, store)
    waiting = await sent(engine, submit(jobs=3), submit(), submit(), submit("eva", jobs=2))
    before = await memory.state()
    for refused in (await engine.call(submit()), await engine.call(c.Credit("ana", 1, "grant"))):
        assert (refused.code, refused.retryable, refused.retry_after_s) == ("OVERLOADED", True, 1.0)
        assert "5 operations of account ana wait" in refused.message
    assert await memory.state() == before
    waiting += await sent(engine, submit("eva", jobs=3), c.Heartbeat(new_id(), 1))
    store.gate.set()
    *taken, unknown = await asyncio.gather(*waiting)
    assert (sum(outcome.jobs for outcome in taken), unknown.code) == (10, "NOT_FOUND")
    assert isinstance(await engine.call(submit(jobs=50)), Submitted)


async def test_large_calls_do_not_wait_for_as_long_as_the_process_stood_still(
    memory: StoreSetup, store: InstrumentedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the time that a large call took, only so much counts as the call's own."""
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=4)), "ana", "eva")
    monkeypatch.setattr(committer, "TOOK_MOST_S", 0.01)
    store.gate.clear()
    before = store.groups
    calls = await sent(engine, submit(jobs=9))
    await store.until(lambda: store.groups == before + 1)
    calls += await sent(engine, submit("eva"), submit(jobs=9))
    monkeypatch.setattr(committer, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + 1_000))
    store.gate.set()
    async with asyncio.timeout(20):
        assert [outcome.jobs for outcome in await asyncio.gather(*calls)] == [9, 1, 9]


async def test_a_large_submit_does_not_keep_another_accounts_call_from_the_next_group(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=4)), "ana", "eva")
    await held(engine, store)
    answered: list[str] = []
    calls = await sent(engine, submit(jobs=9), submit(jobs=9), submit(jobs=9), submit("eva"))
    for name, call in zip(("first", "second", "third", "other"), calls, strict=True):
        call.add_done_callback(lambda _, name=name: answered.append(name))
    store.gate.set()
    await asyncio.gather(*calls)
    assert answered == ["first", "other", "second", "third"]


class Clock:
    """The committers' time, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


async def test_large_submits_have_a_fifth_of_the_time_while_others_wait(
    memory: StoreSetup, store: InstrumentedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(committer, "time", clock)
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=4)), "ana", "eva")
    store.gate.clear()
    groups = store.groups
    first, second = await sent(engine, submit(jobs=9), submit(jobs=9))
    await store.until(lambda: store.groups == groups + 1)
    (other,) = await sent(engine, submit("eva"))
    clock.now += 1.0
    store.gate.set()
    assert isinstance(await first, Submitted)
    assert isinstance(await other, Submitted)
    clock.now += 3.9
    assert isinstance(await engine.call(submit("eva")), Submitted)
    assert not second.done()
    clock.now += 0.2
    assert isinstance(await engine.call(submit("eva")), Submitted)
    assert isinstance(await second, Submitted)


async def test_large_submits_follow_each_other_at_once_while_nobody_else_waits(
    memory: StoreSetup, store: InstrumentedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(committer, "time", clock)
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=4)))
    store.gate.clear()
    groups = store.groups
    calls = await sent(engine, submit(jobs=9), submit(jobs=9))
    await store.until(lambda: store.groups == groups + 1)
    clock.now += 1.0
    store.gate.set()
    assert [outcome.jobs for outcome in await asyncio.gather(*calls)] == [9, 9]


async def test_the_calls_of_one_account_keep_their_order_whatever_lanes_there_are(memory: StoreSetup) -> None:
    """In whosever name they are made."""
    engine = await opened(await memory.engine(await memory.watched(committers=3)), credits=0)
    commands = [command for _ in range(5) for command in (c.Credit("ana", COST, "grant"), submit())]
    calls = await sent(engine, *(c.ActingAs("boss", one) if n % 3 else one for n, one in enumerate(commands)))
    assert [type(outcome).__name__ for outcome in await asyncio.gather(*calls)] == ["AccountChanged", "Submitted"] * 5


# Faults


async def test_a_commit_group_that_lost_a_conflict_is_run_again_and_charges_once(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    store.faults.extend([CONFLICT] * 3)
    before = store.groups
    outcome = await one(engine, submit(), Submitted)
    assert outcome.new_balance == CREDITS - COST
    assert store.groups - before == 4
    assert await memory.charges() == 1


async def test_a_call_that_lost_too_many_conflicts_is_refused_and_the_lane_goes_on(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, conflict_tries=3)))
    before = await memory.state()
    store.faults.extend([CONFLICT] * 3)
    began = store.groups
    outcome = await engine.call(submit())
    assert isinstance(outcome, Refusal)
    assert (outcome.code, outcome.retryable) == ("OVERLOADED", True)
    assert "a conflict; nothing was changed" in outcome.message
    assert store.groups - began == 3
    assert await memory.state() == before
    assert isinstance(await engine.call(submit()), Submitted)


async def test_a_commit_group_that_keeps_losing_conflicts_is_taken_apart_so_that_one_caller_does_not_hold_up_the_others(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    store.faults.extend([CONFLICT] * TOGETHER)
    before = store.groups
    outcomes = await asyncio.gather(*await sent(engine, submit(), submit(), submit()))
    assert all(isinstance(outcome, Submitted) for outcome in outcomes)
    assert store.groups - before == TOGETHER + 3
    assert await memory.charges() == 3


@pytest.mark.parametrize(("fault", "groups"), [(LOST_AFTER, 1), (LOST_BEFORE, 2)], ids=["kept", "not kept"])
async def test_a_commit_of_unknown_fate_is_asked_for_and_charges_once(
    memory: StoreSetup, store: InstrumentedStore, fault: Exception, groups: int
) -> None:
    engine = await opened(await memory.engine(store))
    store.faults.append(fault)
    before = store.groups
    outcomes = await asyncio.gather(*await sent(engine, submit(), submit(), submit("nobody")))
    assert [getattr(outcome, "new_balance", None) for outcome in outcomes] == [CREDITS - COST, CREDITS - 2 * COST, None]
    assert store.groups - before == groups
    assert await memory.charges() == 2
    await memory.check()


async def test_the_fate_of_a_commit_is_asked_for_until_the_database_answers(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    store.faults.append(LOST_AFTER)
    store.answers.extend([AWAY, CONFLICT, AWAY])
    assert isinstance(await engine.call(submit()), Submitted)
    assert not store.answers
    assert await memory.charges() == 1


async def test_a_fate_that_cannot_be_found_out_is_told_and_nothing_is_run_again(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, give_up_s=0.0)))
    store.faults.append(LOST_AFTER)
    store.answers.extend([AWAY])
    calls = await sent(engine, submit(), submit())
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, CommitUnknown)
        assert "same idempotency key" in str(outcome)
    assert await memory.charges() == 2
    assert isinstance(await engine.call(submit()), Submitted)


@pytest.mark.parametrize("error", [StoreError("permission denied"), RuntimeError("a broken driver")], ids=str)
async def test_a_question_for_a_fate_that_fails_for_good_does_not_run_the_commit_group_again(
    memory: StoreSetup, store: InstrumentedStore, error: Exception
) -> None:
    """The commit group was kept: running its calls again, one by one, would charge them twice."""
    engine = await opened(await memory.engine(store))
    store.faults.append(LOST_AFTER)
    store.answers.append(error)
    calls = await sent(engine, submit(), submit())
    for outcome in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(outcome, CommitUnknown)
    assert await memory.charges() == 2
    await memory.check()


async def test_a_database_that_is_away_for_a_while_is_waited_for(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    store.faults.extend([AWAY] * 6)
    calls = await sent(engine, submit(), submit())
    assert all(isinstance(outcome, Submitted) for outcome in await asyncio.gather(*calls))
    assert await memory.charges() == 2


async def test_the_pauses_double_up_to_the_longest_one(
    memory: StoreSetup, store: InstrumentedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    class Jitter:
        @staticmethod
        def uniform(least: float, most: float) -> float:
            assert least == 0
            pauses.append(most)
            return 0.0

    monkeypatch.setattr(backoff, "random", Jitter)
    limits = CommitLimits(backoff_s=1.0, backoff_max_s=10.0)
    engine = await opened(await memory.engine(store, limits=limits))
    store.faults.extend([AWAY] * 6)
    await one(engine, submit())
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_a_database_that_stays_away_leads_to_a_refusal_that_says_when_to_try_again(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, give_up_s=0.02)))
    before = await memory.state()
    store.always = AWAY
    calls = await sent(engine, submit(), submit())
    for refusal in await asyncio.gather(*calls):
        assert refusal.code == "OVERLOADED"
        assert refusal.retry_after_s
        assert "the database is away" in refusal.message
    store.always = None
    assert await memory.state() == before
    assert isinstance(await engine.call(submit()), Submitted)


async def test_a_full_disk_is_told_soon_and_also_while_the_database_is_down_for_it(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    full = DiskFull("the database's disk is full")
    store.faults.append(full)
    store.always = AWAY
    asked_at = time.monotonic()
    first, second = await asyncio.gather(*await sent(engine, submit(), submit()))
    third = await engine.call(submit())
    assert time.monotonic() - asked_at < 2 * 2.0
    for refusal in (first, second, third):
        assert refusal.code == "OVERLOADED"
        assert "the database's disk is full; since then: the database is away" in refusal.message
    store.always = None
    assert isinstance(await engine.call(submit()), Submitted)
    store.faults.extend([AWAY] * 8)
    assert isinstance(await engine.call(submit()), Submitted), "it is waited for as before"


async def test_a_command_that_breaks_the_rules_fails_alone(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    await held(engine, store)
    impossible = c.Submit("ana", ())
    calls = await sent(engine, submit(), impossible, submit("nobody"), submit())
    store.gate.set()
    good, broken, refused, good_too = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(broken, AssertionError)
    assert (good.new_balance, good_too.new_balance) == (CREDITS + 1 - COST, CREDITS + 1 - 2 * COST)
    assert refused.code == "NOT_FOUND"
    assert await memory.charges() == 2
    assert isinstance(await engine.call(submit()), Submitted)


async def test_a_database_error_that_one_command_causes_hits_only_its_caller(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    await held(engine, store)
    calls = await sent(engine, submit(), submit(), submit())
    # The commit group of three fails, then each is run alone, and the second one of them fails again.
    store.faults.extend([None, StoreError("a row was refused"), None, StoreError("a row was refused"), None])
    store.gate.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Submitted", "StoreError", "Submitted"]
    assert await memory.charges() == 2


async def test_whoever_listens_to_commits_and_fails_does_not_keep_callers_waiting(memory: StoreSetup) -> None:
    await opened(await memory.engine())

    def deaf(changes: object, told: object) -> None:
        raise RuntimeError("nobody listens")

    committer = Committer(await memory.watched(), POLICY, QUICK, deaf, deaf, no_hints, [])
    async with asyncio.timeout(20):
        assert isinstance((await committer.call((submit(),)))[0], Submitted)
        assert isinstance((await committer.call((submit(),)))[0], Submitted)
    await committer.close(1.0)
    assert await memory.charges() == 2


@pytest.mark.req("A6", "C1")
async def test_whatever_faults_come_each_submit_is_charged_exactly_once(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=replace(QUICK, group_weight=7)), credits=10_000)
    chance = random.Random(7)
    faults = [CONFLICT, AWAY, LOST_BEFORE, LOST_AFTER, StoreError("a group was refused")]
    store.faults.extend(chance.choice([None, None, *faults]) for _ in range(150))
    store.answers.extend(chance.choice([None, AWAY, CONFLICT]) for _ in range(50))

    async def persist(number: int) -> str:
        """What a client does: the same key until there is an answer."""
        while True:
            try:
                outcome = await engine.call(submit(key=f"k{number}"))
            except StoreError:
                continue
            if isinstance(outcome, Submitted):
                return outcome.job_id

    async with asyncio.timeout(30):
        jobs = await asyncio.gather(*(persist(number) for number in range(200)))
    assert len(set(jobs)) == 200
    assert await memory.charges() == 200
    assert (await memory.account()).balance == 10_000 - 200 * COST
    await memory.check()


# Callers who leave, and the end


async def test_a_caller_who_left_before_their_turn_is_left_out(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    await held(engine, store)
    left, stayed = await sent(engine, submit(), submit())
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    store.gate.set()
    assert isinstance(await stayed, Submitted)
    assert await memory.charges() == 1


async def test_a_commit_group_of_callers_who_all_left_is_not_run(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    first = await held(engine, store)
    before = store.groups
    for call in await sent(engine, submit(), submit()):
        call.cancel()
    store.gate.set()
    await first
    assert isinstance(await engine.call(c.Credit("ana", 1, "grant")), AccountChanged)
    assert store.groups == before + 1
    assert await memory.charges() == 0


async def test_a_caller_who_leaves_during_their_commit_group_takes_nothing_from_the_others(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    store.gate.clear()
    began = store.groups
    left, stayed = await sent(engine, submit(), submit())
    await store.until(lambda: store.groups == began + 1)
    left.cancel()
    store.gate.set()
    assert (await stayed).new_balance == CREDITS - 2 * COST
    assert await memory.charges() == 2


async def test_closing_answers_what_waits_and_refuses_what_comes_later(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store))
    first = await held(engine, store)
    waiting = await sent(engine, submit(), submit())
    closing = asyncio.create_task(engine.stop(10.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    late = await engine.call(submit())
    assert late == CLOSED
    assert await engine.call_many([submit(), submit()]) == [CLOSED, CLOSED]
    store.gate.set()
    await closing
    assert isinstance(await first, AccountChanged)
    assert all(isinstance(outcome, Submitted) for outcome in await asyncio.gather(*waiting))
    assert await engine.call(submit()) == CLOSED
    assert await memory.charges() == 2


async def test_closing_at_once_leaves_nobody_waiting(memory: StoreSetup, store: InstrumentedStore) -> None:
    engine = await opened(await memory.engine(store))
    first = await held(engine, store)
    waiting = await sent(engine, submit(), submit())
    async with asyncio.timeout(20):
        await engine.stop(0.0)
        with pytest.raises(CommitUnknown, match="same idempotency key"):
            await first
        assert await asyncio.gather(*waiting) == [CLOSED, CLOSED]
    assert CLOSED.retryable
    assert await memory.charges() == 0


async def test_closing_at_once_while_the_database_is_away_leaves_nobody_waiting(
    memory: StoreSetup, store: InstrumentedStore
) -> None:
    engine = await opened(await memory.engine(store, limits=CommitLimits(backoff_s=60.0, backoff_max_s=60.0)))
    began = store.groups
    store.always = AWAY
    calls = await sent(engine, submit(), submit())
    await store.until(lambda: store.groups > began)
    async with asyncio.timeout(20):
        await engine.stop(0.0)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(outcome, CommitUnknown) for outcome in outcomes)


async def test_an_engine_without_work_closes_at_once(memory: StoreSetup) -> None:
    engine = await memory.engine()
    async with asyncio.timeout(20):
        await engine.stop(600.0)
        await engine.stop(600.0)
