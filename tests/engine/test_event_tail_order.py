"""Events are handed out in the order of their numbers, though commits need not become visible in that of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import asyncpg
import pytest

from ficha.core import commands as c
from ficha.core.decide import decide
from ficha.core.needs import needs
from ficha.engine import event_tail
from ficha.engine.event_tail import EventTail
from ficha.engine.wakeups import EVENTS, Wakeups
from ficha.store.base import GetHistory, ListCommits, NumberedEvent, no_hints
from tests.engine.engine_setup import POLICY, StoreSetup, opened
from tests.engine.followers import lines, listed, next_events, running, say
from tests.engine.interleaved_commits import ACCOUNTS, JOBS, Commits


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks that no test has to wait for."""
    monkeypatch.setattr(event_tail, "PACE_S", 0.001)
    monkeypatch.setattr(event_tail, "POLL_S", 0.01)


async def say_within(setup: StoreSetup, connection: asyncpg.Connection, job_id: str, line: str) -> None:
    """Adds a line to a job's history in a transaction of somebody's own."""
    commands = [c.Note(job_id, 1, line)]
    await setup.store.transact_within(
        connection, needs(commands), lambda seen: decide(seen, commands, POLICY), no_hints
    )


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("begins", ["before it is followed", "while it is followed"])
async def test_a_lower_number_that_is_committed_later_comes_in_its_place(
    postgresql: StoreSetup, shared_database: str, begins: str
) -> None:
    engine = await opened(await postgresql.engine())
    late_job, other = await running(engine), await running(engine)
    follow = engine.live.follow
    async with connected(shared_database) as slow:
        transaction = slow.transaction()
        await transaction.start()
        if begins == "before it is followed":
            await say_within(postgresql, slow, late_job, "late")
        async with follow(account_id="ana") as account, follow(job_id=late_job) as late, follow(job_id=other) as job:
            await next_events(job, 2)
            await next_events(late, 2)
            if begins == "while it is followed":
                await next_events(account, 4)
                await say_within(postgresql, slow, late_job, "late")
            await say(engine, other, "early")
            assert lines(await next_events(job, 1)) == ["early"], "a job's own events do not wait for long"
            await say(engine, other, "and more")
            assert lines(await next_events(job, 1)) == ["and more"]
            assert lines(await account.next(0.1)) == [], "a lower number may still come"
            assert await late.next(0) == []
            await transaction.commit()
            assert lines(await next_events(late, 1)) == ["late"]
            found = lines(await next_events(account, 3 if begins == "while it is followed" else 7))
            assert found == ["late", "early", "and more"]


async def test_a_transaction_that_is_undone_leaves_a_gap_that_nobody_waits_for(
    postgresql: StoreSetup, shared_database: str
) -> None:
    engine = await opened(await postgresql.engine())
    job_id, other = await running(engine), await running(engine)
    async with connected(shared_database) as slow, engine.live.follow(account_id="ana") as account:
        await next_events(account, 4)
        transaction = slow.transaction()
        await transaction.start()
        await say_within(postgresql, slow, other, "never")
        await say(engine, job_id, "said")
        assert await account.next(0.1) == []
        await transaction.rollback()
        assert lines(await next_events(account, 1)) == ["said"]


async def test_a_transaction_without_end_is_waited_for_only_so_long(
    postgresql: StoreSetup, shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await opened(await postgresql.engine())
    late_job, job_id = await running(engine), await running(engine)
    async with (
        connected(shared_database) as slow,
        engine.live.follow(account_id="ana") as account,
        engine.live.follow(job_id=late_job) as late,
    ):
        await next_events(account, 4)
        await next_events(late, 2)
        transaction = slow.transaction()
        await transaction.start()
        await say_within(postgresql, slow, late_job, "too late for the account")
        await say(engine, job_id, "said")
        assert await account.next(0.1) == []
        monkeypatch.setattr(event_tail, "GIVE_UP_S", 0.0)
        assert lines(await next_events(account, 1)) == ["said"]
        await transaction.commit()
        assert lines(await next_events(late, 1)) == ["too late for the account"]
        await say(engine, job_id, "said again")
        assert lines(await next_events(account, 1)) == ["said again"]


async def test_a_transaction_of_somebody_else_that_runs_for_long_holds_nothing_up(
    postgresql: StoreSetup, shared_database: str
) -> None:
    engine = await opened(await postgresql.engine())
    job_id = await running(engine)
    async with connected(shared_database) as other, other.transaction():
        await other.execute("CREATE TEMPORARY TABLE theirs (n int); INSERT INTO theirs VALUES (1)")
        async with engine.live.follow(account_id="ana") as account:
            await next_events(account, 2)
            await say(engine, job_id, "said")
            assert lines(await next_events(account, 1)) == ["said"]


async def test_a_transaction_that_is_waited_for_makes_nobody_read_the_same_again_and_again(
    postgresql: StoreSetup, shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await postgresql.watched()
    engine = await opened(await postgresql.engine(store))
    job_id, other = await running(engine), await running(engine)
    read, counted = store.inner.read, 0

    async def counting(query: object) -> object:
        nonlocal counted
        answer = await read(query)
        if isinstance(query, ListCommits | GetHistory):
            counted += len(answer)
        return answer

    async with (
        connected(shared_database) as slow,
        engine.live.follow(account_id="ana") as account,
        engine.live.follow(job_id=job_id) as job,
    ):
        await next_events(account, 4)
        await next_events(job, 2)
        transaction = slow.transaction()
        await transaction.start()
        await say_within(postgresql, slow, other, "first")
        monkeypatch.setattr(store.inner, "read", counting)
        for number in range(100):
            await say(engine, job_id, str(number))
            await next_events(job, 1)
        assert counted < 300
        await transaction.commit()
        assert lines(await next_events(account, 101)) == ["first", *map(str, range(100))]


async def test_with_many_who_write_at_once_nothing_is_lost_or_told_twice(
    postgresql: StoreSetup, shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_tail, "BUFFER", 32)
    random = Random(5)
    here, there = await opened(await postgresql.engine()), await postgresql.engine()
    job_id = await running(here)
    jobs, groups = [await running(here) for _ in range(4)], 25

    async def write(job: str) -> None:
        async with connected(shared_database) as connection:
            for number in range(groups):
                async with connection.transaction():
                    for part in range(random.randrange(1, 4)):
                        await say_within(postgresql, connection, job, f"{number} {part}")
                        await asyncio.sleep(random.choice((0, 0.001, 0.01)))

    async def talk() -> None:
        for number in range(groups):
            await say(there, job_id, str(number))
            await asyncio.sleep(0.002)

    async def follow(of: dict[str, str]) -> None:
        cursor, found = 0, list[NumberedEvent]()
        while not (is_over.is_set() and len(found) == len(await listed(postgresql, **of))):
            async with here.live.follow(**of, after=cursor) as follower:
                for _ in range(random.randrange(1, 20)):
                    found += await follower.next(0.05)
                cursor = follower.cursor
        assert found == await listed(postgresql, **of)

    is_over = asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as followers:
        for of in ({"account_id": "ana"}, {"account_id": "ana"}, *({"job_id": job} for job in (*jobs, job_id))):
            followers.create_task(follow(of))
        await asyncio.gather(talk(), *map(write, jobs))
        is_over.set()


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 60))])
async def test_in_whatever_order_transactions_commit_everybody_is_told_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Commits(seed)
    random = store.random
    monkeypatch.setattr(event_tail, "PACE_S", 0.0)
    monkeypatch.setattr(event_tail, "POLL_S", 0.0)
    monkeypatch.setattr(event_tail, "COST_SHARE", float("inf"))
    monkeypatch.setattr(event_tail, "BUFFER", random.choice((5, 256, 256)))
    monkeypatch.setattr(event_tail, "PAGE", random.choice((3, 1_000)))
    wakeups = Wakeups(store)  # type: ignore[arg-type]
    hub = EventTail(store, wakeups)  # type: ignore[arg-type]
    for _ in range(random.randrange(30)):
        store.step()

    async def follow(of: dict[str, str]) -> None:
        cursor, found = 0, list[NumberedEvent]()
        while store.has_open() or len(found) < len(store.of(**of)):
            for _ in range(random.randrange(20)):
                await asyncio.sleep(0)
            async with hub.follow(**of, after=cursor) as follower:
                for _ in range(random.randrange(1, 100)):
                    found += await follower.next(random.choice((0, 0.0005)))
                cursor = follower.cursor
        assert found == store.of(**of)

    whom = [{"job_id": f"j{n}"} for n in range(JOBS)] + [{"account_id": f"a{n}"} for n in range(ACCOUNTS)] * 2
    async with asyncio.timeout(40), asyncio.TaskGroup() as followers:
        for of in whom:
            followers.create_task(follow(of))
        while store.has_open():
            store.step()
            if random.random() < 0.1:
                wakeups._wake(EVENTS)
            await asyncio.sleep(0)
    await hub.stop()
    assert store.horizons > 10
