"""PostgreSQL databases for tests that need a fresh one each: made once, and emptied in a few milliseconds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import asyncpg

from ficha.store.postgres import PostgresStore
from tests.support.postgres import Server

LARGE = 1 << 20


@contextlib.contextmanager
def migrated_database(server: Server) -> Iterator[str]:
    """The address of a database with Ficha's schema, which is dropped at the end."""
    name = f"test_{uuid4().hex}"
    # On a thread of its own: whoever asks may have an event loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _make(server, name)).result()
        yield server.url(name)
        thread.submit(asyncio.run, _run(server, f"drop database {name} with (force)")).result()


async def _make(server: Server, name: str) -> None:
    await _run(server, f"create database {name}")
    await PostgresStore(server.url(name)).migrate()


async def _run(server: Server, sql: str) -> None:
    connection = await asyncpg.connect(server.url())
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def emptied(url: str) -> AsyncIterator[str]:
    """The same database with no row in it, whatever a test left behind; nobody else must use it meanwhile."""
    connection = await asyncpg.connect(url)
    try:
        # The ledger's own guards forbid what is done here, so they are off for this session.
        await connection.execute("set session_replication_role = replica; set lock_timeout = '10s'")
        tables = await connection.fetch(
            "select oid::regclass::text, pg_relation_size(oid) from pg_class "
            "where relkind = 'r' and relnamespace = 'ficha'::regnamespace and relname <> 'migrations'"
        )
        # To delete a few rows takes no time, and to truncate a table does; but deleted rows still lie there.
        large = [name for name, size in tables if size > LARGE]
        await connection.execute(";".join(f"delete from {name}" for name, _ in tables if name not in large))
        if large:
            await connection.execute(f"truncate {', '.join(large)} cascade")
    finally:
        await connection.close()
    yield url
