"""Every kind of connection that `connection=` takes, for every call that has it; and what is said of anything else."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from ficha import Ficha, NotFound, Overloaded
from ficha.engine.committer import CommitLimits
from ficha.store.base import StoreError, Transient
from tests.support.callers_connections import (
    TRANSACTIONS,
    Transaction,
    asyncpg_connection,
    engine_of,
    psycopg_async,
    psycopg_sync,
    sqlalchemy_session,
)
from tests.support.shop import balance, shop, state
from tests.support.waiting import until


@pytest.fixture
async def app(migrated_url: str) -> AsyncIterator[Ficha]:
    async with shop(migrated_url, sweep_by_itself=False, sweep_s=3_600) as app:
        await app.open_account("ana", plan="open", credits=100)
        yield app


@pytest.fixture
async def own(app: Ficha) -> AsyncIterator[asyncpg.Connection]:
    """A connection to look at the caller's own table with."""
    connection = await asyncpg.connect(app.database)
    try:
        await connection.execute("create table orders (name text primary key)")
        yield connection
    finally:
        await connection.execute("drop table orders")
        await connection.close()


class Undo(Exception):
    pass


async def call_everything(app: Ficha, connection: Any, waiting: str) -> None:
    """Every call that takes a connection, each after those before it."""
    opened = await app.open_account("bob", plan="open", credits=7, connection=connection)
    assert (opened.id, opened.plan, opened.balance, opened.active) == ("bob", "open", 7, 0)
    assert await app.open_account("bob", credits=7, exist_ok=True, connection=connection) == opened
    await app.grant("bob", 13, reason="bought", key="payment-1", connection=connection)
    hold = await app.reserve("bob", connection=connection)
    assert (hold.account, hold.state) == ("bob", "active")
    receipt = await app.submit(
        "upscale", {"image": 'a "quoted" \\ ü'}, account="bob", reservation=hold.id, connection=connection
    )
    assert (receipt.status, receipt.cost, receipt.new_balance) == ("queued", 5, 15)
    batch = await app.submit_batch(
        [("upscale", {"image": "x"}), ("images", {"n": 3})], account="ana", idempotency_key="b", connection=connection
    )
    assert (batch.jobs, batch.cost, batch.new_balance) == (2, 8, 87)
    cancelled = await app.cancel(waiting, reason="changed their mind", connection=connection)
    assert (cancelled.status, cancelled.refunded, cancelled.new_balance) == ("cancelled", 5, 92)


@pytest.mark.parametrize("transaction", TRANSACTIONS)
async def test_every_call_commits_with_the_callers_rows(
    app: Ficha, own: asyncpg.Connection, transaction: Transaction
) -> None:
    waiting = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    async with transaction(app.database) as (connection, execute):
        await call_everything(app, connection, waiting)
        await execute("insert into orders values ('first')")
        with pytest.raises(NotFound):
            await app.account("bob")
    assert (await balance(app, "bob"), await balance(app)) == (15, 92)
    assert await own.fetchval("select count(*) from orders") == 1
    jobs = (await app.jobs(statuses=("queued",), include=["payload"])).items
    assert sorted(f"{job.account} {job.tool}" for job in jobs) == ["ana images", "ana upscale", "bob upscale"]
    assert [job.payload for job in jobs if job.account == "bob"] == [{"image": 'a "quoted" \\ ü'}]
    assert [hold.state for hold in (await app.reservations()).items] == ["consumed"]
    assert (await app.job(waiting)).status == "cancelled"
    assert await app.verify() == []


@pytest.mark.parametrize("transaction", TRANSACTIONS)
async def test_a_rollback_leaves_nothing(app: Ficha, own: asyncpg.Connection, transaction: Transaction) -> None:
    waiting = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    before = await state(app)

    async def undo() -> None:
        async with transaction(app.database) as (connection, execute):
            await execute("insert into orders values ('first')")
            await call_everything(app, connection, waiting)
            raise Undo

    with pytest.raises(Undo):
        await undo()
    assert await state(app) == before
    assert await own.fetchval("select count(*) from orders") == 0


USED = (asyncpg_connection, sqlalchemy_session, psycopg_async, psycopg_sync)


@pytest.mark.parametrize("transaction", USED)
async def test_an_error_undoes_the_call_alone_and_says_so(
    app: Ficha, own: asyncpg.Connection, transaction: Transaction
) -> None:
    async with asyncpg_connection(app.database) as (other, _):
        await app.grant("ana", 1, connection=other)
        async with transaction(app.database) as (connection, execute):
            await execute("insert into orders values ('first')")
            await app.open_account("bob", connection=connection)
            await execute("set local lock_timeout = '1ms'")
            with pytest.raises(Transient, match=r"(?s)held a lock for too long.*your transaction is usable"):
                await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            await execute("insert into orders values ('second')")
            await app.grant("bob", 5, connection=connection)
    assert await own.fetchval("select count(*) from orders") == 2
    assert (await balance(app, "bob"), await balance(app)) == (5, 101)
    assert (await app.jobs()).items == []


OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
WAITING = f"{OTHERS} and wait_event_type = 'Lock'"


@pytest.mark.parametrize("transaction", USED)
async def test_a_connection_that_is_lost_says_that_the_transaction_cannot_go_on(
    app: Ficha, own: asyncpg.Connection, transaction: Transaction
) -> None:
    async def lose() -> None:
        async with transaction(app.database) as (connection, execute):
            await execute("insert into orders values ('first')")
            waiting = asyncio.create_task(app.submit("upscale", {"image": "x"}, account="ana", connection=connection))
            await until(lambda: own.fetchval(f"select pg_terminate_backend(pid) {WAITING}"))
            with pytest.raises(StoreError, match="cannot go on: roll it back"):
                await waiting
            with pytest.raises(StoreError, match=r"cannot go on|is closed"):
                await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            raise Undo

    async with asyncpg_connection(app.database) as (other, _):
        await app.grant("ana", 1, connection=other)
        with pytest.raises(Exception):  # noqa: B017, PT011 (each library has its own word for the end of such a block)
            await lose()
    assert (await own.fetchval("select count(*) from orders"), await balance(app)) == (0, 101)


@pytest.mark.parametrize("transaction", USED)
async def test_a_call_that_is_cancelled_is_undone(
    app: Ficha, own: asyncpg.Connection, transaction: Transaction
) -> None:
    async with transaction(app.database) as (connection, execute):
        async with asyncpg_connection(app.database) as (other, _):
            await app.grant("ana", 1, connection=other)
            waiting = asyncio.create_task(app.submit("upscale", {"image": "x"}, account="ana", connection=connection))
            await until(lambda: own.fetchval(f"select count(*) {WAITING}"))
            waiting.cancel()
            if transaction is not psycopg_sync:
                with pytest.raises(asyncio.CancelledError):
                    await waiting
        # A synchronous connection cannot be interrupted: the call ends when the lock is free.
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()
        await execute("insert into orders values ('first')")
    assert await own.fetchval("select count(*) from orders") == 1
    assert (await balance(app), (await app.jobs()).items) == (101, [])


async def refused(app: Ficha, connection: Any) -> str:
    before = await state(app)
    with pytest.raises(StoreError) as told:
        await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    assert await state(app) == before
    return str(told.value)


async def test_a_connection_without_a_transaction_is_refused(app: Ficha) -> None:
    connection = await asyncpg.connect(app.database)
    try:
        assert "begin one" in await refused(app, connection)
    finally:
        await connection.close()
    with psycopg.connect(app.database, autocommit=True) as sync:
        assert "begin one" in await refused(app, sync)
    async with await psycopg.AsyncConnection.connect(app.database, autocommit=True) as other:
        assert "begin one" in await refused(app, other)
    async with engine_of(app.database, isolation_level="AUTOCOMMIT") as engine, engine.connect() as committing:
        assert "begin one" in await refused(app, committing)


async def test_a_transaction_that_has_failed_and_a_closed_connection_are_refused(app: Ficha) -> None:
    with psycopg.connect(app.database) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("select 1 / 0")
        assert "roll it back" in await refused(app, connection)
        connection.rollback()
    assert "closed" in await refused(app, connection)


async def test_psycopgs_pipeline_mode_is_refused_and_leaves_the_transaction_usable(app: Ficha) -> None:
    with psycopg.connect(app.database) as connection:
        with connection.pipeline():
            assert "pipeline mode" in await refused(app, connection)
        receipt = await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
    async with await psycopg.AsyncConnection.connect(app.database) as other:
        async with other.pipeline():
            assert "pipeline mode" in await refused(app, other)
        await app.cancel(receipt.job_id, connection=other)
    assert (await app.job(receipt.job_id)).status == "cancelled"


async def test_a_call_that_waits_for_a_transaction_of_its_own_process_says_so(migrated_url: str) -> None:
    limits = CommitLimits(conflict_tries=1)
    async with shop(migrated_url, sweep_by_itself=False, sweep_s=3_600, commit_limits=limits) as app:
        for account in ("ana", "bob"):
            await app.open_account(account, plan="open", credits=100)
        stranger = await asyncpg.connect(app.database)
        try:
            async with stranger.transaction():
                await stranger.execute("SELECT 1 FROM ficha.accounts WHERE id = 'bob' FOR UPDATE")
                with pytest.raises(Overloaded, match="another transaction holds rows") as told:
                    await app.submit("upscale", {"image": "x"}, account="bob")
            assert "Your own transaction" not in str(told.value)
        finally:
            await stranger.close()
        async with asyncpg_connection(app.database) as (connection, _):
            await app.submit("upscale", {"image": "x"}, account="ana", connection=connection)
            with pytest.raises(
                Overloaded, match=r"Your own transaction may hold the account: .*connection=.*commit or roll back"
            ):
                await app.submit("upscale", {"image": "x"}, account="ana")
            async with asyncpg_connection(app.database) as (other, execute):
                await execute("SET LOCAL lock_timeout = '100ms'")
                with pytest.raises(
                    Transient, match=r"your transaction is usable.*Your own transaction may hold the account"
                ):
                    await app.submit("upscale", {"image": "x"}, account="ana", connection=other)
        assert (await app.account("ana")).balance == 95


async def test_anything_else_is_refused_with_what_is_taken(app: Ficha) -> None:
    engine = create_engine("sqlite://")
    other = create_async_engine("sqlite+aiosqlite://")
    embedded = sqlite3.connect(":memory:")
    async with asyncpg.create_pool(app.database, min_size=0, max_size=1) as pool, AsyncSession(other) as on_sqlite:
        with Session(engine) as session:
            for connection, kind in [
                ("postgresql://", "str"),
                (embedded, "sqlite3.Connection"),
                (session, "sqlalchemy.orm.session.Session"),
                (on_sqlite, "SQLAlchemy on aiosqlite"),
                (other, "sqlalchemy.ext.asyncio.engine.AsyncEngine"),
                (pool, "asyncpg.pool.Pool"),
            ]:
                told = await refused(app, connection)
                assert "takes an asyncpg or psycopg 3 connection, or an AsyncSession or AsyncConnection" in told
                assert f"not {kind};" in told
    embedded.close()
    engine.dispose()
    await other.dispose()


PROGRAM = """
import asyncio, sys
from ficha import Ficha
from ficha.store.base import StoreError
from ficha.store.callers import driver_connection
from ficha.store.callers.drivers import sender

for look in (lambda: asyncio.run(sender("x")), lambda: driver_connection("x")):
    try:
        look()
    except StoreError:
        print(sorted({"django", "psycopg", "sqlalchemy"} & set(sys.modules)))
"""


def test_no_library_of_a_caller_is_imported_for_those_who_have_none() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n[]\n"
