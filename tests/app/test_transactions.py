"""A call within the caller's own PostgreSQL transaction stands and falls with it, and its commit wakes others."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ficha import Ficha, InsufficientCredits, JobView
from ficha.engine.wakeups import HOOKS
from tests.support.shop import balance, claim_one, shop, state
from tests.support.waiting import until


@pytest.fixture
async def app(migrated_url: str) -> AsyncIterator[Ficha]:
    async with shop(migrated_url) as app:
        await app.open_account("ana", plan="open", credits=100)
        yield app


@pytest.fixture
async def connection(app: Ficha) -> AsyncIterator[asyncpg.Connection]:
    """A connection of the caller's own, to a database with a table of the caller's own."""
    connection = await asyncpg.connect(app.database)
    try:
        await connection.execute("create table orders (name text primary key)")
        yield connection
    finally:
        await connection.execute("drop table orders")
        await connection.close()


async def until_listening(connection: asyncpg.Connection, processes: int = 1) -> None:
    """Until so many hear hints."""
    listening = (
        "select count(*) >= $1 from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    )
    await until(lambda: connection.fetchval(listening, processes))


async def test_it_commits_with_the_callers_rows(app: Ficha, connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await connection.execute("insert into orders values ('first')")
        receipt = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
        assert (receipt.status, receipt.cost, receipt.new_balance) == ("queued", 5, 95)
        assert await balance(app) == 100, "nobody else sees it yet"
        assert await app.claim("gpu", worker="w1") == []
    assert await balance(app) == 95
    assert (await claim_one(app)).job_id == receipt.job_id
    assert await connection.fetchval("select count(*) from orders") == 1
    again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    assert (again.job_id, again.idempotent_hit) == (receipt.job_id, True)
    assert await app.verify() == []


async def test_it_rolls_back_with_the_callers_rows(app: Ficha, connection: asyncpg.Connection) -> None:
    before = await state(app)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("insert into orders values ('first')")
    await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
    await transaction.rollback()
    after = await state(app)
    after.keyed = before.keyed
    assert after == before
    assert await connection.fetchval("select count(*) from orders") == 0
    assert not (await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")).idempotent_hit


async def test_several_submits_of_one_transaction_see_each_other(app: Ficha, connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        first = await app.submit("images", {"n": 8}, account="ana", idempotency_key="a", connection=connection)
        again = await app.submit("images", {"n": 8}, account="ana", idempotency_key="a", connection=connection)
        other = await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    assert (first.jobs, again.idempotent_hit, again.batch_id) == (2, True, first.batch_id)
    assert other.new_balance == 100 - 8 - 5
    assert await app.verify() == []


async def test_a_refusal_leaves_the_callers_transaction_usable(app: Ficha, connection: asyncpg.Connection) -> None:
    await app.open_account("poor", plan="open")
    async with connection.transaction():
        await connection.execute("insert into orders values ('first')")
        with pytest.raises(InsufficientCredits):
            await app.submit("upscale", {"image": "x"}, account="poor", connection=connection)
        await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    assert await connection.fetchval("select count(*) from orders") == 1
    assert await balance(app) == 95


async def test_the_callers_commit_wakes_those_who_wait_for_work(app: Ficha, connection: asyncpg.Connection) -> None:
    async with shop(app.database) as other:
        await until_listening(connection, processes=2)
        waiting = [
            asyncio.create_task(each.wait_for_work("gpu", 60, since=each.work_heard("gpu"))) for each in (app, other)
        ]
        async with connection.transaction():
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            await connection.execute("select pg_notify('nobody', '')")
            assert not any(task.done() for task in waiting)
        assert await asyncio.gather(*waiting) == [True, True]


async def test_a_cancel_in_the_callers_transaction_reaches_the_worker(
    app: Ficha, connection: asyncpg.Connection
) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana")
    lease = await claim_one(app)
    await until_listening(connection)
    waiting = asyncio.create_task(app.wait_for_cancels("w1", 60, since=app.cancels_heard("w1")))
    async with connection.transaction():
        assert (await app.cancel(lease.job_id, connection=connection)).refunded == 5
    assert await waiting
    assert [refused.code for _, refused in await app.lost([lease])] == ["LEASE_LOST"]


async def test_a_job_that_ends_in_the_callers_transaction_wakes_those_who_run_hooks(migrated_url: str) -> None:
    declared = shop(migrated_url)

    @declared.on("cancelled")
    async def told(job: JobView) -> None: ...

    connection = await asyncpg.connect(migrated_url)
    try:
        async with declared as app:
            await app.open_account("ana", plan="open", credits=100)
            job_id = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
            await until_listening(connection)
            wakeups = app.engine.wakeups
            waiting = asyncio.create_task(wakeups.wait((HOOKS,), 60, wakeups.heard((HOOKS,))))
            async with connection.transaction():
                await app.cancel(job_id, connection=connection)
            assert await waiting
    finally:
        await connection.close()


async def test_on_work_is_called_after_the_callers_commit_and_only_where_the_call_was_made(migrated_url: str) -> None:
    called: list[tuple[str, ...]] = []
    elsewhere: list[tuple[str, ...]] = []
    connection = await asyncpg.connect(migrated_url)
    try:
        async with shop(migrated_url, on_work=called.append) as app, shop(migrated_url, on_work=elsewhere.append):
            await until_listening(connection, processes=2)
            await app.open_account("ana", plan="open", credits=100)
            undone = connection.transaction()
            await undone.start()
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            await undone.rollback()
            async with connection.transaction():
                await app.submit("anything", {}, account="ana", connection=connection)
                assert called == []
            await until(lambda: called)
            await app.submit("upscale", {"image": "x"}, account="ana")
            await until(lambda: len(called) == 2)
        assert called == [("cpu",), ("gpu",)], "what was rolled back brought no work"
        assert elsewhere == []
    finally:
        await connection.close()


async def test_on_work_is_told_the_jobs_of_a_callers_transaction_after_its_commit(migrated_url: str) -> None:
    told: list[str] = []
    connection = await asyncpg.connect(migrated_url)
    try:
        async with shop(migrated_url, on_work=lambda pools, jobs: told.extend(job.id for job in jobs)) as app:
            await until_listening(connection)
            await app.open_account("ana", plan="open", credits=100)
            undone = connection.transaction()
            await undone.start()
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            await undone.rollback()
            async with connection.transaction():
                ids = [
                    (await app.submit(tool, {}, account="ana", connection=connection)).job_id
                    for tool in ("anything", "video")
                ]
                assert told == []
            await until(lambda: len(told) == 2)
        assert told == ids
    finally:
        await connection.close()


async def test_the_receipt_tells_the_position_that_can_be_known(app: Ficha, connection: asyncpg.Connection) -> None:
    await app.submit("upscale", {"image": "first"}, account="ana", idempotency_key="first")
    async with connection.transaction():
        new = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
        batch = await app.submit_batch([("upscale", {"image": "y"})], account="ana", connection=connection)
        again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
        known = await app.submit(
            "upscale", {"image": "first"}, account="ana", idempotency_key="first", connection=connection
        )
    assert (new.position, batch.position) == (2, 2), "what is not committed is ahead of nobody"
    assert (again.idempotent_hit, again.position) == (True, None), "nobody sees that job yet"
    assert (known.idempotent_hit, known.position) == (True, 1)
