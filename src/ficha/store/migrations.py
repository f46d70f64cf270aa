"""Numbered plain-SQL migrations: files `0001_name.up.sql` and `0001_name.down.sql` in a folder of each store.

The files hold no transaction control; a store runs each one, with the statement that records it, in a transaction of
its own over its own connection. The first line of an up file says whether older releases still work after it:
`-- kind: additive` or `-- kind: breaking`.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Final, Literal, Protocol

from msgspec import Struct

from .base import SchemaMismatch, StoreError
from .schema_name import DEFAULT_SCHEMA, in_schema

_FILE = re.compile(r"(\d{4})_(\w+)\.up\.sql")
_KIND = re.compile(r"-- kind: (additive|breaking)\n")
Kind = Literal["additive", "breaking"]
TABLE = "schema_migrations"
COLUMNS: Final = {
    "name": "text NOT NULL DEFAULT ''",
    "works_from": "integer NOT NULL DEFAULT 1",
    "steps_left": "integer NOT NULL DEFAULT 0",
    "reached": "text",
}
"""What is recorded of a migration beside its number (see `Recorded`). The defaults are for databases of the time when
only the number was."""
BOOKKEEPING = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    f"(version integer PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())});"
)
"""The table that records which migrations have run; no migration creates it."""


class Migration(Struct, frozen=True):
    """One migration: each way ends with the statement that records it.

    works_from: the number of the oldest release that works after it, a release having the number of its newest
        migration: that of the last breaking migration up to this one.
    """

    number: int
    name: str
    kind: Kind
    works_from: int
    up: str
    down: str


class Recorded(Struct, frozen=True):
    """What the database records of one migration.

    steps_left: how many of its steps have not run; above 0 it is half done.
    reached: how far the first of them has come, if it runs in batches.
    """

    version: int
    name: str
    works_from: int
    steps_left: int = 0
    reached: str | None = None


class SchemaState(Struct, frozen=True):
    """The migrations that a database has, by number."""

    recorded: tuple[Recorded, ...] = ()

    @property
    def complete(self) -> frozenset[int]:
        """The numbers of the migrations that are not half done."""
        return frozenset(row.version for row in self.recorded if not row.steps_left)

    @property
    def version(self) -> int:
        """The number of the last complete migration; 0 for an empty database."""
        return max(self.complete, default=0)

    @property
    def works_from(self) -> int:
        """The oldest release that works with it; a breaking migration counts from its first step on."""
        return max((row.works_from for row in self.recorded), default=0)


class Migrator(Protocol):
    """What a store with a schema offers beside the store protocol. Works on a store that is not open."""

    migrations: tuple[Migration, ...]
    bookkeeping: str
    """What makes the table in which it is recorded which migrations have run."""

    async def state(self) -> SchemaState:
        """Which migrations the database has."""

    async def version(self) -> int:
        """The number of the last migration applied; 0 for an empty database."""

    async def migrate(self, target: int | None = None) -> list[Migration]:
        """Goes up or down to `target` (default: the newest) and returns what was applied, in order. Safe to run from
        several processes at once."""


@cache
def load(package: str, table: str = TABLE, schema: str = DEFAULT_SCHEMA) -> tuple[Migration, ...]:
    """The migrations in the folder `migrations` of a package, in order. Numbers may be missing in between.

    table: where it is recorded which ones have run. schema: where they make their tables, if the database has schemas.
    """
    folder = files(package) / "migrations"
    found: list[Migration] = []
    works_from = 0
    for name in sorted(entry.name for entry in folder.iterdir()):
        if match := _FILE.fullmatch(name):
            number = int(match[1])
            up = (folder / name).read_text("utf-8").strip()
            down = (folder / name.replace(".up.", ".down.")).read_text("utf-8").strip()
            kind = _kind(name, up, is_first=not found)
            works_from = number if kind == "breaking" else works_from
            up += f"\nINSERT INTO {table} (version, name, works_from) VALUES ({number}, '{match[2]}', {works_from});"
            down += f"\nDELETE FROM {table} WHERE version = {number};"
            texts = in_schema(up, schema), in_schema(down, schema)
            found.append(Migration(number, match[2], kind, works_from, *texts))
    return tuple(found)


def _kind(file: str, up: str, *, is_first: bool) -> Kind:
    """What the file says of itself. No release is older than the first migration."""
    if match := _KIND.match(up):
        return "additive" if match[1] == "additive" else "breaking"
    if not is_first:
        raise ValueError(f"{file} must begin with `-- kind: additive` or `-- kind: breaking`")
    return "breaking"


HIDDEN: Final = (
    "row-level security hides Ficha's tables from this role: connect as their owner, as a member of the owner, "
    "or as a role with BYPASSRLS"
)
"""For a role that is shown no rows: it would take every account for missing."""


def goal(migrations: tuple[Migration, ...], target: int | None) -> int:
    """The version to migrate to (default: the newest). Raises StoreError if there is no such version."""
    newest = migrations[-1].number
    if target not in (None, 0, *(migration.number for migration in migrations)):
        raise StoreError(f"there is no migration {target}: this release of ficha has 0 (empty) to {newest}")
    return newest if target is None else target


def refuse_newer(database: str, state: SchemaState, migrations: tuple[Migration, ...]) -> None:
    """Raises SchemaMismatch if this release is too old for the database. Additive migrations leave it able to work."""
    newest = migrations[-1].number
    if state.works_from > newest:
        last = max(row.version for row in state.recorded)
        raise SchemaMismatch(
            f"{database} has schema version {last}, which releases of ficha work with that know version "
            f"{state.works_from}, and this release of ficha knows versions up to {newest}: upgrade ficha. The order of "
            "steps: stop all processes of the old release, run `ficha migrate up` with the new one, start its "
            f"processes. Or go back: stop all processes, run `ficha migrate down --to {newest}` with the release that "
            f"made version {last}, start this one"
        )


def refuse_unfit(database: str, state: SchemaState, migrations: tuple[Migration, ...]) -> None:
    """Raises SchemaMismatch unless this release works with the schema: all its own migrations are complete, and later
    ones are additive."""
    refuse_newer(database, state, migrations)
    if any(migration.number not in state.complete for migration in migrations):
        half = f" (migration {row.version} is half done)" if (row := half_done(state)) is not None else ""
        raise SchemaMismatch(
            f"{database} has schema version {state.version}{half}, and this release of ficha works with version "
            f"{migrations[-1].number} and newer: run `ficha migrate up`"
        )


def half_done(state: SchemaState) -> Recorded | None:
    """The migration of which some steps have not run, if there is one."""
    return next((row for row in state.recorded if row.steps_left), None)


class Listed(Struct, frozen=True):
    """A migration and what the database has of it."""

    number: int
    name: str
    kind: Kind
    state: Literal["applied", "half done", "pending"]


def listing(migrations: tuple[Migration, ...], state: SchemaState) -> list[Listed]:
    """All migrations that this release or the database has."""
    found = {m.number: Listed(m.number, m.name, m.kind, "pending") for m in migrations}
    for row in state.recorded:
        kind: Kind = "breaking" if row.works_from == row.version else "additive"
        found[row.version] = Listed(row.version, row.name, kind, "half done" if row.steps_left else "applied")
    return [found[number] for number in sorted(found)]


class Move(Struct, frozen=True):
    """One migration in one direction."""

    migration: Migration
    sql: str


def path(migrations: tuple[Migration, ...], state: SchemaState, target: int) -> list[Move]:
    """The moves that lead to a version, in the order to run them: first down, then up."""
    recorded = {row.version for row in state.recorded}
    downs = [Move(m, m.down) for m in reversed(migrations) if m.number > target and m.number in recorded]
    unknown = recorded - {m.number for m in migrations}
    if unknown and (downs or max(unknown) < migrations[-1].number):
        raise SchemaMismatch(
            f"the database has migration {max(unknown)}, which this release of ficha does not have: run "
            "`ficha migrate down` with the release that made it"
        )
    return downs + [Move(m, m.up) for m in migrations if m.number <= target and m.number not in state.complete]


def script(migrator: Migrator, version: int, target: int) -> str:
    """The way from one version to another as one SQL text, for people who use another migration tool."""
    had = SchemaState(tuple(Recorded(m.number, m.name, 0) for m in migrator.migrations if m.number <= version))
    return f"{migrator.bookkeeping}\n\n" + "".join(
        f"-- {move.migration.number:04} {move.migration.name}\nBEGIN;\n{move.sql}\nCOMMIT;\n\n"
        for move in path(migrator.migrations, had, target)
    )
