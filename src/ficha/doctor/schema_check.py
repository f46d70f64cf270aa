"""Compares the live schema with the one that the migrations make: what is missing, what differs, what was added."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from ..store import migrations
from ..store.migrations import Migration
from .database import Looking, LookingAtPostgres, LookingAtSqlite
from .declared_schema import DeclaredSchema, declared
from .findings import Finding, Severity
from .looked_over import LookedOver

MIGRATE: Final = "Run `ficha migrate up`."
RESTORE: Final = (
    "Make it again: `ficha migrate sql` prints the statement. First find out who removed it; `ficha verify` shows "
    "whether rows suffered."
)
GUARDS: Final = frozenset({"table", "column", "view", "trigger", "function", "unique index", "primary key"})
"""Parts without which Ficha fails, or something can happen that must not."""


async def version_of(database: Looking) -> int:
    """The number of the last migration applied; 0 for an empty database."""
    if isinstance(database, LookingAtPostgres):
        [(is_there,)] = await database.rows("SELECT to_regclass('ficha.migrations') IS NOT NULL")
        statement = "SELECT coalesce(max(version), 0) FROM ficha.migrations"
    else:
        [(is_there,)] = await database.rows("SELECT count(*) FROM sqlite_schema WHERE name = 'schema_migrations'")
        statement = "SELECT coalesce(max(version), 0) FROM schema_migrations"
    if not is_there:
        return 0
    [(number,)] = await database.rows(statement)
    return int(number)


async def schema(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    database = seen.database
    known = _migrations(database)
    version, newest = await version_of(database), known[-1].number
    seen.facts["schema_version"] = version
    if version == 0:
        yield _finding("SCHEMA_MISSING", "critical", "The database has no schema of Ficha.", MIGRATE)
        return
    if version < newest:
        what = f"The schema has version {version}, and this release works with version {newest}."
        yield _finding("SCHEMA_BEHIND", "critical", what, MIGRATE)
    if version > newest:
        what = f"The schema has version {version}, and this release knows versions up to {newest}."
        remedy = "A newer release migrated it: upgrade this one. What is compared below is what this release knows."
        yield _finding("SCHEMA_AHEAD", "warning", what, remedy)
    applied = tuple(migration for migration in known if migration.number <= version)
    if isinstance(database, LookingAtPostgres):
        found = [*_postgres_drift(declared(applied), await _live(database), is_whole=version <= newest)]
        for finding in (*found, *await _invalid(database)):
            yield finding
    else:
        assert isinstance(database, LookingAtSqlite)
        for finding in _sqlite_drift(_made(applied), await _sqlite_objects(database), is_whole=version <= newest):
            yield finding


def _migrations(database: Looking) -> tuple[Migration, ...]:
    if isinstance(database, LookingAtPostgres):
        return migrations.load("ficha.store.postgres", "ficha.migrations")
    return migrations.load("ficha.store.sqlite")


def _finding(code: str, severity: Severity, what: str, remedy: str) -> Finding:
    return Finding("schema", code, severity, what, remedy)


def _missing(kind: str, name: str) -> Finding:
    severity: Severity = "critical" if kind in GUARDS else "warning"
    return _finding("SCHEMA_PART_MISSING", severity, f"The {kind} {name} is missing.", RESTORE)


def _changed(kind: str, name: str, how: str) -> Finding:
    severity: Severity = "critical" if kind == "trigger" else "warning"
    return _finding("SCHEMA_PART_CHANGED", severity, f"The {kind} {name} {how}.", RESTORE)


def _added(kind: str, name: str) -> Finding:
    severity: Severity = "warning" if kind == "trigger" else "note"
    remedy = (
        "If it is yours, keep it in mind: every write pays for an index, and a trigger can change what Ficha wrote. "
        "A table or index of your own is better off outside of Ficha's schema."
    )
    return _finding("SCHEMA_PART_ADDED", severity, f"The {kind} {name} is none of Ficha's.", remedy)


# PostgreSQL


async def _live(database: LookingAtPostgres) -> list[tuple[str, str, str, str | None]]:
    """Returns every part of the live schema: kind, table, name, and the fact that is compared."""
    return [(kind, table, name, fact) for kind, table, name, fact in await database.ask("schema_parts")]


def _postgres_drift(wanted: DeclaredSchema, live: list[Any], *, is_whole: bool) -> Iterator[Finding]:
    found = {(kind, table, name): fact for kind, table, name, fact in live}
    uniques = {(table, name) for kind, table, name in found if kind == "unique index"}
    gone = {table for table in wanted.tables if ("table", table, table) not in found}
    for kind, table, name in sorted(wanted.parts.keys() - found.keys()):
        # The parts of a missing table are not reported. A unique index may stand in for a plain one.
        if (table in gone and kind != "table") or (kind == "index" and (table, name) in uniques):
            continue
        yield _missing(kind, name if name == table or kind in ("index", "unique index") else f"{table}.{name}")
    for part in sorted(wanted.parts.keys() & found.keys()):
        kind, table, name = part
        expected, fact = wanted.parts[part], found[part]
        if expected is not None and fact != expected:
            where = name if name == table else f"{table}.{name}"
            yield _changed(kind, where, f"is {fact}, not {expected}")
    if is_whole:
        for kind, table, name in sorted(found.keys() - wanted.parts.keys()):
            if kind in ("primary key", "constraint index") or (kind == "column" and table not in wanted.tables):
                continue
            yield _added(kind, name if name == table else f"{table}.{name}")


async def _invalid(database: LookingAtPostgres) -> list[Finding]:
    return [
        _finding(
            "INDEX_INVALID",
            "warning",
            f"The index {name} is not valid: a build of it was interrupted, so it is written and never read.",
            f"DROP INDEX CONCURRENTLY ficha.{name}; if it is one of Ficha's, make it again (`ficha migrate sql`).",
        )
        for (name,) in await database.ask("invalid_indexes")
    ]


# SQLite


def _made(applied: tuple[Migration, ...]) -> dict[tuple[str, str], str]:
    """Runs the migrations in memory, and returns the objects that they make."""
    import apsw

    db = apsw.Connection(":memory:")
    try:
        db.execute(migrations.BOOKKEEPING)
        for migration in applied:
            for step in migration.up:
                if step.way != "batches":
                    db.execute(step.text)
        return {(kind, name): _plain(text) for kind, name, text in db.execute(_OBJECTS)}
    finally:
        db.close()


_OBJECTS: Final = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'"


async def _sqlite_objects(database: LookingAtSqlite) -> dict[tuple[str, str], str]:
    return {(kind, name): _plain(text) for kind, name, text in await database.rows(_OBJECTS)}


def _plain(text: str) -> str:
    return " ".join(text.split())


def _sqlite_drift(
    wanted: dict[tuple[str, str], str], live: dict[tuple[str, str], str], *, is_whole: bool
) -> Iterator[Finding]:
    for kind, name in sorted(wanted.keys() - live.keys()):
        yield _missing("unique index" if "UNIQUE" in wanted[kind, name] and kind == "index" else kind, name)
    for kind, name in sorted(wanted.keys() & live.keys()):
        if wanted[kind, name] != live[kind, name] and is_whole:
            yield _changed(kind, name, "is not what the migrations make")
    if is_whole:
        for kind, name in sorted(live.keys() - wanted.keys()):
            yield _added(kind, name)
