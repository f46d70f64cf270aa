"""A submit within the caller's own PostgreSQL transaction stands and falls with it."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from ficha import Ficha, InsufficientCredits
from ficha.store.base import StoreError
from tests.support.shop import balance, claim_one, shop, state


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
    after.leaders = before.leaders
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


async def test_a_connection_without_a_transaction_is_refused(app: Ficha, connection: asyncpg.Connection) -> None:
    with pytest.raises(StoreError, match="begin one"):
        await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    assert await balance(app) == 100


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_embedded_database_says_that_it_cannot_do_this(kind: str, tmp_path, app: Ficha) -> None:
    own = await asyncpg.connect(app.database)
    database = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'ficha.db'}"
    async with shop(database, sweep_by_itself=False) as app:
        await app.open_account("ana", plan="open", credits=100)
        before = await state(app)
        async with own.transaction():
            with pytest.raises(StoreError, match="only on PostgreSQL"):
                await app.submit("upscale", {"image": "x"}, account="ana", connection=own)
        assert await state(app) == before
    await own.close()
