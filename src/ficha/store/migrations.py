"""Numbered plain-SQL migrations: files `0001_name.up.sql` and `0001_name.down.sql` in a folder of each store.

The first line of an up file says whether older releases still work after it, `-- kind: additive`, or not, `breaking`.
The files hold no transaction control: a file is one step, which runs in one transaction with the statement that records
it, unless lines that begin with `-- step:` divide it into several (`MigrationStep`). The steps of such a migration must
be repeatable: after an interruption they may run again, up or down.
"""

# ruff: noqa: S608 (texts are put together from names and keys of our own)
from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final, Literal, Protocol

from msgspec import Struct

from .base import SchemaMismatch, StoreError
from .schema_name import DEFAULT_SCHEMA, in_schema

_FILE = re.compile(r"(\d{4})_(\w+)\.up\.sql")
_KIND = re.compile(r"-- kind: (additive|breaking)\n")
_STEP = re.compile(r"^-- step: (.*)\n", re.MULTILINE)
_BATCHES = re.compile(r"batches of (\d+) by ([\w.]+) \(([\w.]+)\)")
Kind = Literal["additive", "breaking"]
Tell = Callable[[str], None]
"""Called with what a migration does now, or what it waits for, in words."""
TABLE = "schema_migrations"
COLUMNS: Final = {
    "name": "text NOT NULL DEFAULT ''",
    "works_from": "integer NOT NULL DEFAULT 1",
    "steps_left": "integer NOT NULL DEFAULT 0",
    "reached": "text",
}
"""What is recorded of a migration beside its number (see `Recorded`). The defaults are for databases that recorded only
the number."""
BOOKKEEPING = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} "
    f"(version integer PRIMARY KEY, {', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())});"
)
"""The table that records which migrations have run; no migration creates it."""


class MigrationStep(Struct, frozen=True):
    """A part of a migration that runs by itself.

    way: `transaction`: in one transaction, with short waits for locks. `concurrently`: one statement outside any
        transaction, for an index that is built while others write. `batches`: in many short transactions, for changes
        of many rows.
    size, table, key: for batches, the rows of each batch, their table, and the column that orders them. In the text,
        `{batch}` stands for the condition that a row belongs to the batch.
    """

    text: str
    way: Literal["transaction", "concurrently", "batches"] = "transaction"
    size: int = 0
    table: str = ""
    key: str = ""


class Migration(Struct, frozen=True):
    """One migration.

    works_from: the oldest release that works after it: the number of the last breaking migration up to this one. (A
        release has the number of its newest migration.)
    table: the table that records it.
    """

    number: int
    name: str
    kind: Kind
    works_from: int
    table: str
    up: tuple[MigrationStep, ...]
    down: tuple[MigrationStep, ...]


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
        """The oldest release that works with this schema; a breaking migration counts from its first step on."""
        return max((row.works_from for row in self.recorded), default=0)


class LockWait(Struct, frozen=True):
    """How long a step waits for a lock in PostgreSQL. Later requests for the lock wait behind the step's, so it gives
    up soon and tries again later.

    timeout_s: how long one try waits. tries: how many tries. pause_s: the pause between two tries.
    """

    timeout_s: float = 2.0
    tries: int = 30
    pause_s: float = 1.0


DEFAULT_WAIT: Final = LockWait()


def quiet(text: str) -> None:
    """Ignores the text."""


class Migrator(Protocol):
    """What a store with a schema offers beside the store protocol. Works on a store that is not open."""

    migrations: tuple[Migration, ...]
    bookkeeping: str
    """The SQL that makes the table that records which migrations have run."""

    async def state(self) -> SchemaState:
        """Which migrations the database has."""

    async def version(self) -> int:
        """The number of the last migration applied; 0 for an empty database."""

    async def migrate(
        self, target: int | None = None, tell: Tell = quiet, lock_wait: LockWait = DEFAULT_WAIT
    ) -> list[Migration]:
        """Goes up or down to `target` (default: the newest) and returns what was applied, in order. Safe to run from
        several processes at once, and again after an interruption."""


@cache
def load(package: str, table: str = TABLE, schema: str = DEFAULT_SCHEMA) -> tuple[Migration, ...]:
    """The migrations in the folder `migrations` of a package, in order. Numbers may be missing in between.

    table: the table that records which ones have run. schema: where they make tables, if the database has schemas.
    """
    folder = files(package) / "migrations"
    found: list[Migration] = []
    works_from = 0
    for name in sorted(entry.name for entry in folder.iterdir()):
        if match := _FILE.fullmatch(name):
            number = int(match[1])
            up = in_schema((folder / name).read_text("utf-8"), schema)
            down = in_schema((folder / name.replace(".up.", ".down.")).read_text("utf-8"), schema)
            kind = _kind(name, up, is_first=not found)
            works_from = number if kind == "breaking" else works_from
            recorded_in = in_schema(table, schema)
            found.append(Migration(number, match[2], kind, works_from, recorded_in, steps(up), steps(down)))
    return tuple(found)


def steps(text: str) -> tuple[MigrationStep, ...]:
    """The steps of a file."""
    first, *marked = _STEP.split(text)
    found = [MigrationStep(first.strip())] if _says_something(first) or not marked else []
    for way, step in zip(marked[::2], marked[1::2], strict=True):
        if match := _BATCHES.fullmatch(way):
            found.append(MigrationStep(step.strip(), "batches", int(match[1]), match[2], match[3]))
        elif way == "transaction" or way == "concurrently":
            found.append(MigrationStep(step.strip(), "transaction" if way == "transaction" else "concurrently"))
        else:
            raise ValueError(
                f"`-- step: {way}` is none of: transaction, concurrently, batches of 1000 by table (key column)"
            )
    return tuple(found)


def _says_something(text: str) -> bool:
    return any(line.strip() and not line.startswith("--") for line in text.splitlines())


def _kind(file: str, up: str, *, is_first: bool) -> Kind:
    """The kind that the file states. The first migration need not state one: no release is older than it."""
    if match := _KIND.match(up):
        return "additive" if match[1] == "additive" else "breaking"
    if not is_first:
        raise ValueError(f"{file} must begin with `-- kind: additive` or `-- kind: breaking`")
    return "breaking"


HIDDEN: Final = (
    "row-level security hides Ficha's tables from this role: connect as their owner, as a member of the owner, "
    "or as a role with BYPASSRLS"
)
"""The error for a role that sees no rows: to it, every account would seem to be missing."""


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
    is_up: bool


def path(migrations: tuple[Migration, ...], state: SchemaState, target: int) -> list[Move]:
    """The moves that lead to a version, in the order to run them: first down, then up."""
    recorded = {row.version for row in state.recorded}
    downs = [Move(m, is_up=False) for m in reversed(migrations) if m.number > target and m.number in recorded]
    unknown = recorded - {m.number for m in migrations}
    if unknown and (downs or max(unknown) < migrations[-1].number):
        raise SchemaMismatch(
            f"the database has migration {max(unknown)}, which this release of ficha does not have: run "
            "`ficha migrate down` with the release that made it"
        )
    return downs + [Move(m, is_up=True) for m in migrations if m.number <= target and m.number not in state.complete]


class DueStep(Struct, frozen=True):
    """A step that is to run now.

    label: names the step, in words.
    steps_left: how many steps of the migration are recorded as not run while this one is under way.
    left_after: how many when it has run; None if nothing of the migration is recorded then.
    reached: the last key that it had done when it was interrupted, if it runs in batches.
    """

    migration: Migration
    step: MigrationStep
    label: str
    steps_left: int
    left_after: int | None
    reached: str | None = None

    @property
    def begun(self) -> str:
        """The statement that records that the step is under way."""
        return _record(self.migration, self.steps_left)

    @property
    def done(self) -> str:
        """The statement that records that the step has run."""
        if self.left_after is None:
            return f"DELETE FROM {self.migration.table} WHERE version = {self.migration.number};"
        return _record(self.migration, self.left_after)

    def batch_end(self, after: str | None) -> str:
        """The query for the last key of the batch that begins after this key; it returns no row if none is left."""
        key, table, size = self.step.key, self.step.table, self.step.size
        rows = f"SELECT {key} AS key FROM {table} WHERE {_above(key, after)} ORDER BY {key} LIMIT {size}"
        return f"SELECT CAST(key AS text) FROM ({rows}) AS batch ORDER BY batch.key DESC LIMIT 1"

    def batch(self, after: str | None, end: str) -> str:
        """The statements that do and record one batch."""
        within = f"({_above(self.step.key, after)} AND {self.step.key} <= {_quoted(end)})"
        return f"{self.step.text.replace('{batch}', within)}\n{_record(self.migration, self.steps_left, end)}"


def due_steps(move: Move, state: SchemaState) -> list[DueStep]:
    """The remaining steps of a move. A move up begins where the last run stopped. A move down runs all its steps: how
    far an interrupted one came is not recorded, and until its end the whole migration counts as not done."""
    migration = move.migration
    total = len(migration.up)
    if not move.is_up:
        last = len(migration.down)
        return [
            DueStep(migration, step, _label(migration, number, last), total, None if number == last else total)
            for number, step in enumerate(migration.down, 1)
        ]
    row = next((row for row in state.recorded if row.version == migration.number), None)
    first = 0 if row is None else total - row.steps_left
    return [
        DueStep(
            *(migration, step, _label(migration, number + 1, total), total - number, total - number - 1),
            None if row is None or number > first else row.reached,
        )
        for number, step in enumerate(migration.up)
        if number >= first
    ]


def _label(migration: Migration, number: int, total: int) -> str:
    return f"{migration.number:04} {migration.name}" + (f", step {number} of {total}" if total > 1 else "")


def _record(migration: Migration, steps_left: int, reached: str | None = None) -> str:
    values = (migration.number, _quoted(migration.name), migration.works_from, steps_left, _quoted(reached))
    return (
        f"INSERT INTO {migration.table} (version, name, works_from, steps_left, reached) "
        f"VALUES ({', '.join(map(str, values))}) "
        "ON CONFLICT (version) DO UPDATE SET steps_left = excluded.steps_left, reached = excluded.reached;"
    )


def _above(key: str, after: str | None) -> str:
    return "true" if after is None else f"{key} > {_quoted(after)}"


def _quoted(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def script(migrator: Migrator, version: int, target: int) -> str:
    """The moves from one version to another as one SQL text, for people who use another migration tool."""
    had = SchemaState(tuple(Recorded(m.number, m.name, 0) for m in migrator.migrations if m.number <= version))
    moves = path(migrator.migrations, had, target)
    return f"{migrator.bookkeeping}\n\n" + "".join(_printed(due) for move in moves for due in due_steps(move, had))


def _printed(due: DueStep) -> str:
    text, step = due.step.text, due.step
    if step.way == "concurrently":
        return f"-- {due.label}: outside any transaction\n{text}\n{due.done}\n\n"
    if step.way == "batches":
        text = f"-- With many rows: in batches of {step.size}, by {step.key}.\n{text.replace('{batch}', 'true')}"
    return f"-- {due.label}\nBEGIN;\n{text}\n{due.done}\nCOMMIT;\n\n"
