"""A migration that a later release could bring, made of everything that is additive: a column with a default in every
table, a table and an index."""

import re
from pathlib import Path

from ficha.store.migrations import Kind, Migration
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore

PACKAGE = Path(__file__).parents[2] / "src/ficha"
AnyStore = PostgresStore | SqliteStore


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


def with_later(store: AnyStore, kind: Kind = "additive") -> AnyStore:
    """The store of a release that has one migration more."""
    number = number_of(store)
    works_from = number if kind == "breaking" else store.migrations[-1].works_from
    up, down = texts("sqlite" if isinstance(store, SqliteStore) else "postgres")
    made, undone = recorded(store, number, works_from)
    store.migrations = (*store.migrations, Migration(number, "later", kind, works_from, up + made, down + undone))
    return store


def recorded(store: AnyStore, number: int, works_from: int = 1) -> tuple[str, str]:
    """The statements that record a migration, up and down."""
    table = "schema_migrations" if isinstance(store, SqliteStore) else "ficha.migrations"
    return (
        f"INSERT INTO {table} (version, name, works_from) VALUES ({number}, 'later', {works_from});",
        f"DELETE FROM {table} WHERE version = {number};",
    )
