"""Numbered plain-SQL migrations: files `0001_name.up.sql` and `0001_name.down.sql` in a folder of each store.

The files hold no transaction control; a store runs each one, with the line in `schema_migrations` that records it, in
a transaction of its own over its own connection.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Protocol

from msgspec import Struct

from .base import SchemaMismatch, StoreError

_FILE = re.compile(r"(\d{4})_(\w+)\.up\.sql")

BOOKKEEPING = "CREATE TABLE IF NOT EXISTS schema_migrations (version integer PRIMARY KEY);"
"""The table that records which migrations have run; no migration creates it."""


class Migration(Struct, frozen=True):
    number: int
    name: str
    up: str
    down: str


class Migrator(Protocol):
    """What a store with a schema offers beside the store protocol. Works on a store that is not open."""

    migrations: tuple[Migration, ...]

    async def version(self) -> int:
        """The number of the last migration applied; 0 for an empty database."""

    async def migrate(self, target: int | None = None) -> list[Migration]:
        """Goes up or down to `target` (default: the newest) and returns what was applied, in order. Safe to run from
        several processes at once."""


def load(package: str) -> tuple[Migration, ...]:
    """The migrations in the folder `migrations` of a package, in order."""
    folder = files(package) / "migrations"
    names = sorted(entry.name for entry in folder.iterdir())
    return tuple(
        Migration(
            number=int(match[1]),
            name=match[2],
            up=(folder / name).read_text("utf-8"),
            down=(folder / name.replace(".up.", ".down.")).read_text("utf-8"),
        )
        for name in names
        if (match := _FILE.fullmatch(name))
    )


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
    """One migration in one direction, with the statement that records it."""

    migration: Migration
    sql: str
    record: str


def path(migrations: tuple[Migration, ...], version: int, target: int | None = None) -> list[Move]:
    """The moves that lead from one version to another (default: the newest), in the order to run them."""
    if target is None:
        target = migrations[-1].number
    if target >= version:
        return [
            Move(m, m.up, f"INSERT INTO schema_migrations (version) VALUES ({m.number});")  # noqa: S608 (whole numbers)
            for m in migrations
            if version < m.number <= target
        ]
    return [
        Move(m, m.down, f"DELETE FROM schema_migrations WHERE version = {m.number};")  # noqa: S608 (whole numbers)
        for m in reversed(migrations)
        if target < m.number <= version
    ]


def script(moves: list[Move]) -> str:
    """Moves as one SQL text, for people who use another migration tool."""
    return f"{BOOKKEEPING}\n\n" + "".join(
        f"-- {move.migration.number:04} {move.migration.name}\nBEGIN;\n{move.sql.strip()}\n{move.record}\nCOMMIT;\n\n"
        for move in moves
    )
