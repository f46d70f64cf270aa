"""The population in PostgreSQL."""

from __future__ import annotations

import asyncio

import asyncpg

from ficha.store.postgres import PostgresStore
from tests.stores.million_rows import Dialect, Population, found, growths, runner, whale

DIALECT = Dialect(
    series="generate_series(0, {0}) AS s (n)",
    uuid="({0})::uuid",
    instant="('epoch'::timestamptz + {0} * interval '1 microsecond')",
)

COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND attidentity = ''"
TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'ficha'::regnamespace"
# Those that are no constraint: they are made faster at once than row by row.
INDEXES = """
SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'ficha'::regnamespace AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)
"""


async def grow(connection: asyncpg.Connection, population: Population) -> None:
    """All the others. Nothing but rows changes: plans that are kept stay as they are."""
    # The texts are for both databases, so the path says where the tables are.
    await connection.execute("SET search_path = ficha")
    for growth in growths(population, DIALECT):
        columns = [name for (name,) in await connection.fetch(COLUMNS, growth.table)]
        await connection.execute(growth.text(columns, DIALECT))
    await connection.execute(whale(population))


async def keep_still(connection: asyncpg.Connection) -> None:
    """Nobody is to look at the tables by himself, and nobody needs the rows after a crash."""
    for (table,) in await connection.fetch(TABLES):
        await connection.execute(f"ALTER TABLE ficha.{table} SET (autovacuum_enabled = off)")
        await connection.execute(f"ALTER TABLE ficha.{table} SET UNLOGGED")


NOT_YET_USABLE = """
SELECT count(*) FROM pg_index
WHERE indcheckxmin AND xmin::text::bigint >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
"""


async def make_indexes(connection: asyncpg.Connection, *texts: str) -> None:
    """Makes indexes on tables whose rows have been changed, and waits until they are used.

    A transaction that began before an index was made, in whatever database of the server, may look for versions of rows
    that the index does not lead to. Until all of these have ended, PostgreSQL plans every statement as if the index
    were not there (`indcheckxmin`), and reads the table whole.
    """
    for text in texts:
        await connection.execute(text)
    while await connection.fetchval(NOT_YET_USABLE):  # noqa: ASYNC110 (the database does not tell by itself)
        await asyncio.sleep(0.01)


async def fill(url: str, population: Population) -> None:
    """A population in a fresh database, as quickly as can be, with statistics."""
    store = PostgresStore(url)
    await store.migrate()
    await store.open()
    await found(runner(store))
    await store.close()
    connection = await asyncpg.connect(url)
    try:
        await keep_still(connection)
        indexes = await connection.fetch(INDEXES)
        for name, _ in indexes:
            await connection.execute(f"DROP INDEX ficha.{name}")
        await grow(connection, population)
        await connection.execute("SET maintenance_work_mem = '256MB'")
        await make_indexes(connection, *(text for _, text in indexes))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()
