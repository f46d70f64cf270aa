"""The connections on which callers of Ficha have transactions of their own, one way to open each."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

Execute = Callable[[str], Awaitable[Any]]
Transaction = Callable[[str], AbstractAsyncContextManager[tuple[Any, Execute]]]
"""From a database's address: what is passed as `connection=`, and how the caller runs SQL. Commits at the end of the
block, rolls back if it raises."""


def sqlalchemy_url(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


@asynccontextmanager
async def engine_of(url: str, driver: str = "asyncpg", **options: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(url, driver), **options)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection, connection.execute
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with engine_of(url) as engine, AsyncSession(engine) as session, session.begin():
        yield session, lambda sql: session.execute(text(sql))


@asynccontextmanager
async def sqlalchemy_session_as_it_begins_by_itself(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with engine_of(url) as engine, AsyncSession(engine) as session:
        yield session, lambda sql: session.execute(text(sql))
        await session.commit()


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with engine_of(url) as engine, engine.connect() as connection:
        yield connection, lambda sql: connection.execute(text(sql))
        await connection.commit()


@asynccontextmanager
async def sqlalchemy_on_psycopg(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with engine_of(url, "psycopg") as engine, engine.connect() as connection:
        yield connection, lambda sql: connection.execute(text(sql))
        await connection.commit()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection, connection.execute


@asynccontextmanager
async def psycopg_async_block(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        connection.transaction(),
    ):
        yield connection, connection.execute


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[tuple[Any, Execute]]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as connection:

        async def execute(sql: str) -> Any:
            return connection.execute(sql)

        yield connection, execute


TRANSACTIONS: tuple[Transaction, ...] = (
    asyncpg_connection,
    asyncpg_pool,
    sqlalchemy_session,
    sqlalchemy_session_as_it_begins_by_itself,
    sqlalchemy_connection,
    sqlalchemy_on_psycopg,
    psycopg_async,
    psycopg_async_block,
    psycopg_sync,
)
