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
from .rule_words import checks_in, in_parentheses, rule_words

MIGRATE: Final = "Run `ficha migrate up`."
RESTORE: Final = (
    "Make it again: `ficha migrate sql` prints the statement. First find out who removed it; `ficha verify` shows "
    "whether rows suffered."
)
GUARDS: Final = ("check", "primary key", "unique constraint", "unique index", "trigger", "function")
"""Parts that forbid what must not happen, whatever writes."""
NEEDED: Final = (*GUARDS, "table", "column", "view")
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
    for finding in await _drift(database, version):
        yield finding


async def missing_guards(database: Looking) -> list[str]:
    """Sentences about parts that forbid a wrong balance, a second charge or a changed line, and are gone or changed. Of
    a newer schema nothing is known."""
    version = await version_of(database)
    if not 0 < version <= _migrations(database)[-1].number:
        return []
    found = await _drift(database, version)
    about_guards = tuple(f"The {kind} " for kind in GUARDS)
    return [one.what for one in found if one.severity == "critical" and one.what.startswith(about_guards)]


async def _drift(database: Looking, version: int) -> list[Finding]:
    known = _migrations(database)
    is_whole = version <= known[-1].number
    applied = tuple(migration for migration in known if migration.number <= version)
    if isinstance(database, LookingAtPostgres):
        found = [*_postgres_drift(declared(applied), await _live(database), is_whole=is_whole)]
        return [*found, *await _invalid(database)]
    assert isinstance(database, LookingAtSqlite)
    return [*_sqlite_drift(_made(applied), await _sqlite_objects(database), is_whole=is_whole)]


def _migrations(database: Looking) -> tuple[Migration, ...]:
    if isinstance(database, LookingAtPostgres):
        return migrations.load("ficha.store.postgres", "ficha.migrations")
    return migrations.load("ficha.store.sqlite")


def _finding(code: str, severity: Severity, what: str, remedy: str) -> Finding:
    return Finding("schema", code, severity, what, remedy)


def _missing(kind: str, name: str) -> Finding:
    severity: Severity = "critical" if kind in NEEDED else "warning"
    return _finding("SCHEMA_PART_MISSING", severity, f"The {kind} {name} is missing.", RESTORE)


def _changed(kind: str, name: str, how: str) -> Finding:
    severity: Severity = "critical" if kind in GUARDS else "warning"
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
    return [_compared(*part) for part in await database.ask("schema_parts")]


def _compared(kind: str, table: str, name: str, fact: str | None) -> tuple[str, str, str, str | None]:
    if kind == "check":
        name = rule_words(name)
    elif kind in ("primary key", "unique constraint"):
        columns = rule_words(in_parentheses(name, 0))
        name, fact = (table, columns) if kind == "primary key" else (columns, None)
    elif fact is not None and kind == "unique index":
        fact = rule_words(fact)
    elif fact is not None and kind == "function":
        fact = " ".join(fact.split())
    return kind, table, name, fact


def _postgres_drift(wanted: DeclaredSchema, live: list[Any], *, is_whole: bool) -> Iterator[Finding]:
    found = {(kind, table, name): fact for kind, table, name, fact in live}
    uniques = {(table, name) for kind, table, name in found if kind == "unique index"}
    gone = {table for table in wanted.tables if ("table", table, table) not in found}
    for kind, table, name in sorted(wanted.parts.keys() - found.keys()):
        # The parts of a missing table are not reported. A unique index may stand in for a plain one.
        if (table in gone and kind != "table") or (kind == "index" and (table, name) in uniques):
            continue
        yield _missing(kind, _called(kind, table, name))
    for part in sorted(wanted.parts.keys() & found.keys()):
        kind, table, name = part
        expected, fact = wanted.parts[part], found[part]
        if expected is not None and fact != expected:
            how = (
                "is not what the migrations make"
                if kind in ("function", "unique index")
                else f"is {fact}, not {expected}"
            )
            yield _changed(kind, _called(kind, table, name), how)
    if is_whole:
        for kind, table, name in sorted(found.keys() - wanted.parts.keys()):
            if kind in ("primary key", "unique constraint", "column") and table not in wanted.tables:
                continue
            yield _added(kind, _called(kind, table, name))


def _called(kind: str, table: str, name: str) -> str:
    if kind in ("check", "unique constraint"):
        return f"of {table} ({name})"
    return name if name == table or kind in ("index", "unique index") else f"{table}.{name}"


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
        if wanted[kind, name] == live[kind, name]:
            continue
        gone = sorted(_guards_in(wanted[kind, name]) - _guards_in(live[kind, name]))
        yield from (_missing(guard, f"of {name} ({words})") for guard, words in gone)
        if is_whole and not gone:
            is_unique = kind == "index" and "UNIQUE" in wanted[kind, name]
            yield _changed("unique index" if is_unique else kind, name, "is not what the migrations make")
    if is_whole:
        for kind, name in sorted(live.keys() - wanted.keys()):
            yield _added(kind, name)


def _guards_in(text: str) -> set[tuple[str, str]]:
    """The guards that stand in the text of a table, each with its words and those of its line."""
    found = {("check", rule_words(check)) for check in checks_in(text)}
    for part in text.split(","):
        for guard in ("PRIMARY KEY", "UNIQUE"):
            if guard in part:
                found.add(("primary key" if guard == "PRIMARY KEY" else "unique constraint", rule_words(part)))
    return found
