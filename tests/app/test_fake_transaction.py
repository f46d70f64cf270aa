"""What stands for a caller's transaction where there is no PostgreSQL: the same calls, on every store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from ficha import Ficha, InsufficientCredits, NotFound
from ficha.store.base import StoreError
from ficha.testing import FakeTransaction
from tests.support.shop import balance, claim_one, shop, state

pytestmark = pytest.mark.long_on("postgresql")


async def buy(app: Ficha, session: Any, account: str) -> str:
    """What a route of an application does with its own tables and with Ficha."""
    await session.execute(text("insert into orders values ('first')"))
    await app.open_account(account, plan="open", credits=4, connection=session)
    await app.grant(account, 6, connection=session)
    hold = await app.reserve(account, connection=session)
    receipt = await app.submit("upscale", {"image": "x"}, account=account, reservation=hold.id, connection=session)
    await session.commit()
    return receipt.job_id


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[AsyncSession]:
    """A database of the user's own, as their tests have it."""
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'own.db'}")
    async with AsyncSession(engine) as session:
        await session.execute(text("create table orders (name text)"))
        await session.commit()
        yield session
    await engine.dispose()


async def orders(session: AsyncSession) -> int:
    return (await session.execute(text("select count(*) from orders"))).scalar_one()


async def test_a_route_with_its_own_tables_runs_on_every_store(app: Ficha, session: AsyncSession) -> None:
    job_id = await buy(app, FakeTransaction(session), "bob")
    assert (await claim_one(app)).job_id == job_id
    assert (await balance(app, "bob"), await orders(session)) == (5, 1)
    assert await app.verify() == []


async def test_nothing_is_there_before_the_commit_and_calls_see_those_before_them(app: Ficha) -> None:
    before = await state(app)
    async with FakeTransaction() as connection:
        first = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
        again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k", connection=connection)
        batch = await app.submit_batch([("upscale", {"image": "y"})] * 2, account="ana", connection=connection)
        assert (first.job_id, first.new_balance, first.position) == (again.job_id, 995, 1)
        assert (again.idempotent_hit, batch.new_balance) == (True, 985)
        assert await state(app) == before
        with pytest.raises(NotFound):
            await app.job(first.job_id)
        assert (await app.cancel(first.job_id, connection=connection)).refunded == 5
    assert (await app.job(first.job_id)).status == "cancelled"
    assert (await balance(app), len((await app.jobs()).items)) == (990, 3)
    assert await app.verify() == []


async def test_a_block_that_raises_and_a_rollback_leave_nothing(app: Ficha, session: AsyncSession) -> None:
    before = await state(app)

    async def undo() -> None:
        async with FakeTransaction(session) as connection:
            await connection.execute(text("insert into orders values ('first')"))
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await undo()
    other = FakeTransaction(session)
    await other.execute(text("insert into orders values ('first')"))
    await app.grant("ana", 5, connection=other)
    await other.rollback()
    await other.commit()
    assert await state(app) == before
    assert await orders(session) == 0


async def test_a_refused_call_leaves_the_others(app: Ficha) -> None:
    async with FakeTransaction().begin() as connection:
        await app.open_account("poor", plan="open", connection=connection)
        with pytest.raises(InsufficientCredits):
            await app.submit("upscale", {"image": "x"}, account="poor", connection=connection)
        await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    assert (await balance(app, "poor"), await balance(app)) == (0, 995)


async def test_a_commit_that_has_become_impossible_keeps_nothing(app: Ficha) -> None:
    connection = FakeTransaction()
    await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    await app.adjust("ana", -1_000, reason="spent elsewhere")
    await app.open_account("bob", connection=connection)
    before = await state(app)
    with pytest.raises(StoreError, match="nothing was kept: "):
        await connection.commit()
    assert await state(app) == before


async def test_the_commit_wakes_those_who_wait_for_work(app: Ficha) -> None:
    waiting = asyncio.create_task(app.wait_for_work("gpu", 60, since=app.work_heard("gpu")))
    async with FakeTransaction() as connection:
        await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
        assert not waiting.done()
    assert await waiting


async def test_it_has_nothing_else_without_a_connection_of_ones_own() -> None:
    with pytest.raises(AttributeError, match=r"FakeTransaction\(own\)"):
        FakeTransaction().execute  # noqa: B018 (to look at it is the test)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_embedded_database_takes_no_other_transaction_and_says_what_stands_for_one(
    kind: str, tmp_path: Path, migrated_url: str
) -> None:
    own = await asyncpg.connect(migrated_url)
    database = "memory:" if kind == "memory" else f"sqlite:///{tmp_path / 'ficha.db'}"
    async with shop(database, sweep_by_itself=False) as app:
        await app.open_account("ana", plan="open", credits=100)
        before = await state(app)
        async with own.transaction():
            with pytest.raises(StoreError, match=r"only on PostgreSQL; in tests, ficha.testing.FakeTransaction"):
                await app.submit("upscale", {"image": "x"}, account="ana", connection=own)
        assert await state(app) == before
    await own.close()
