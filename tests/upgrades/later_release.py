"""Migrations that a later release could bring: one of everything that is additive, and one of several steps."""

import re
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from ficha.store.migrations import Kind, Migration, steps
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore

PACKAGE = Path(__file__).parents[2] / "src/ficha"
AnyStore = PostgresStore | SqliteStore
UP = {
    "postgres": """-- kind: additive
ALTER TABLE ficha.accounts ADD COLUMN IF NOT EXISTS shout text;
-- step: concurrently
CREATE INDEX CONCURRENTLY IF NOT EXISTS accounts_by_shout ON ficha.accounts (shout);
-- step: batches of 3 by ficha.accounts (id)
UPDATE ficha.accounts SET shout = upper(id) WHERE {batch} AND shout IS NULL;
-- step: transaction
CREATE TABLE IF NOT EXISTS ficha.steps_ran (id text PRIMARY KEY);
""",
    "sqlite": """-- kind: additive
ALTER TABLE accounts ADD COLUMN shout text;
-- step: batches of 3 by accounts (id)
UPDATE accounts SET shout = upper(id) WHERE {batch} AND shout IS NULL;
-- step: transaction
CREATE TABLE IF NOT EXISTS steps_ran (id text PRIMARY KEY);
""",
}
DOWN = {
    "postgres": """
-- step: concurrently
DROP INDEX CONCURRENTLY IF EXISTS ficha.accounts_by_shout;
-- step: transaction
DROP TABLE IF EXISTS ficha.steps_ran;
ALTER TABLE ficha.accounts DROP COLUMN IF EXISTS shout;
""",
    "sqlite": "DROP TABLE IF EXISTS steps_ran;\nALTER TABLE accounts DROP COLUMN shout;",
}
"""What adds a column with values to the accounts, and an index, each database in its own steps."""


def number_of(store: AnyStore) -> int:
    return store.migrations[-1].number + 1


def tables(kind: str) -> list[str]:
    """The tables that the present migrations of a store make, as they name them."""
    made: list[str] = []
    for file in sorted((PACKAGE / "store" / kind / "migrations").glob("*.up.sql")):
        made += re.findall(r"^CREATE TABLE ([\w.]+)", file.read_text(), re.MULTILINE)
    return made


def texts(kind: str) -> tuple[str, str]:
    """What the files of the migration hold, up and down."""
    prefix = "ficha." if kind == "postgres" else ""
    columns = tables(kind)
    up = "".join(f"ALTER TABLE {name} ADD COLUMN added_later text NOT NULL DEFAULT 'new';\n" for name in columns)
    down = "".join(f"ALTER TABLE {name} DROP COLUMN added_later;\n" for name in columns)
    up += f"CREATE TABLE {prefix}later_things (id text PRIMARY KEY);\n"
    up += f"CREATE INDEX later_index ON {prefix}jobs (added_later);\n"
    if kind == "postgres":
        up += "ALTER TABLE ficha.later_things ENABLE ROW LEVEL SECURITY;\n"
    return f"-- kind: additive\n{up}", f"DROP INDEX {prefix}later_index;\nDROP TABLE {prefix}later_things;\n{down}"


def with_steps(store: AnyStore, up: str = "", down: str = "") -> AnyStore:
    """The store of a release whose newest migration has several steps."""
    kind = kind_of(store)
    texts = steps(up or UP[kind]), steps(down or DOWN[kind])
    made = Migration(number_of(store), "shout", "additive", store.migrations[-1].works_from, table_of(store), *texts)
    store.migrations = (*store.migrations, made)
    return store


def with_later(store: AnyStore, kind: Kind = "additive") -> AnyStore:
    """The store of a release that has one migration more: a column with a default in every table, a table and an
    index."""
    number = number_of(store)
    works_from = number if kind == "breaking" else store.migrations[-1].works_from
    up, down = texts(kind_of(store))
    later = Migration(number, "later", kind, works_from, table_of(store), steps(up), steps(down))
    store.migrations = (*store.migrations, later)
    return store


def table_of(store: AnyStore) -> str:
    """Where migrations are recorded."""
    return "schema_migrations" if isinstance(store, SqliteStore) else "ficha.migrations"


def kind_of(store: AnyStore) -> str:
    return "sqlite" if isinstance(store, SqliteStore) else "postgres"


async def execute(url: str, sql: str) -> Any:
    """Somebody's own hand in the database: the first value that a query gives."""
    if url.startswith("sqlite"):
        db = apsw.Connection(url.removeprefix("sqlite:///"))
        try:
            return db.execute(re.sub(r"\bmigrations\b", "schema_migrations", sql)).get
        finally:
            db.close()
    connection = await asyncpg.connect(url, server_settings={"search_path": "ficha"})
    try:
        return await (connection.fetchval(sql) if sql.startswith("SELECT") else connection.execute(sql))
    finally:
        await connection.close()
