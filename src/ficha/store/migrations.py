"""Numbered plain-SQL migrations: files `0001_name.up.sql` and `0001_name.down.sql` in a folder of each store.

The files hold no transaction control; a store runs each one, with the statement that records it, in a transaction of
its own over its own connection.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Protocol

from msgspec import Struct

from .base import SchemaMismatch, StoreError
from .schema_name import DEFAULT_SCHEMA, in_schema

_FILE = re.compile(r"(\d{4})_(\w+)\.up\.sql")
TABLE = "schema_migrations"
BOOKKEEPING = f"CREATE TABLE IF NOT EXISTS {TABLE} (version integer PRIMARY KEY);"
"""The table that records which migrations have run; no migration creates it."""


class Migration(Struct, frozen=True):
    """One migration: each way ends with the statement that records it."""

    number: int
    name: str
    up: str
    down: str


class Migrator(Protocol):
    """What a store with a schema offers beside the store protocol. Works on a store that is not open."""

    migrations: tuple[Migration, ...]
    bookkeeping: str
    """What makes the table in which it is recorded which migrations have run."""

    async def version(self) -> int:
        """The number of the last migration applied; 0 for an empty database."""

    async def migrate(self, target: int | None = None) -> list[Migration]:
        """Goes up or down to `target` (default: the newest) and returns what was applied, in order. Safe to run from
        several processes at once."""


@cache
def load(package: str, table: str = TABLE, schema: str = DEFAULT_SCHEMA) -> tuple[Migration, ...]:
    """The migrations in the folder `migrations` of a package, in order.

    table: where it is recorded which ones have run. schema: where they make their tables, if the database has schemas.
    """
    folder = files(package) / "migrations"
    found: list[Migration] = []
    for name in sorted(entry.name for entry in folder.iterdir()):
        if match := _FILE.fullmatch(name):
            number = int(match[1])
            up = (folder / name).read_text("utf-8").strip()
            down = (folder / name.replace(".up.", ".down.")).read_text("utf-8").strip()
            up += f"\nINSERT INTO {table} (version) VALUES ({number});"
            down += f"\nDELETE FROM {table} WHERE version = {number};"
            found.append(Migration(number, match[2], in_schema(up, schema), in_schema(down, schema)))
    return tuple(found)


HIDDEN = -1
"""What a role is told for a version whose table row-level security hides from it."""


def seen(version: int) -> int:
    """The version, unless it was hidden: who sees no rows would take every account for missing."""
    if version == HIDDEN:
        raise StoreError(
            "row-level security hides Ficha's tables from this role: connect as their owner, as a member of the owner, "
            "or as a role with BYPASSRLS"
        )
    return version


def goal(migrations: tuple[Migration, ...], target: int | None) -> int:
    """The version to migrate to (default: the newest). Raises StoreError if there is no such version."""
    newest = migrations[-1].number
    if target not in (None, 0, *(migration.number for migration in migrations)):
        raise StoreError(f"there is no migration {target}: this release of ficha has 0 (empty) to {newest}")
    return newest if target is None else target


def refuse_newer(database: str, version: int, newest: int) -> None:
    """Raises SchemaMismatch if the database has the schema of a newer release."""
    if version > newest:
        raise SchemaMismatch(
            f"{database} has schema version {version}, and this release of ficha knows versions up to {newest}: "
            f"upgrade ficha, or run `ficha migrate down` with the release that made version {version}"
        )


def refuse_other(database: str, version: int, newest: int) -> None:
    """Raises SchemaMismatch unless the schema is the one that this release works with."""
    refuse_newer(database, version, newest)
    if version < newest:
        raise SchemaMismatch(
            f"{database} has schema version {version}, and this release of ficha works with version {newest}: "
            "run `ficha migrate up`"
        )


class Move(Struct, frozen=True):
    """One migration in one direction."""

    migration: Migration
    sql: str


def path(migrations: tuple[Migration, ...], version: int, target: int | None = None) -> list[Move]:
    """The moves that lead from one version to another (default: the newest), in the order to run them."""
    if target is None:
        target = migrations[-1].number
    if target >= version:
        return [Move(m, m.up) for m in migrations if version < m.number <= target]
    return [Move(m, m.down) for m in reversed(migrations) if target < m.number <= version]


def script(migrator: Migrator, version: int, target: int) -> str:
    """The way from one version to another as one SQL text, for people who use another migration tool."""
    return f"{migrator.bookkeeping}\n\n" + "".join(
        f"-- {move.migration.number:04} {move.migration.name}\nBEGIN;\n{move.sql}\nCOMMIT;\n\n"
        for move in path(migrator.migrations, version, target)
    )
