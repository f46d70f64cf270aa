"""The schema that PostgreSQL's migrations make, read from their text, so that no second database has to be made for a
comparison.

It knows the forms in which our migrations are written; a test compares what it reads with a migrated database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct, field

from ..store.migrations import Migration
from .rule_words import checks_in, rule_words

Part = tuple[str, str, str]
"""A kind, the table that it belongs to, and its name."""
_TYPES: Final = {"bigint": "int8", "integer": "int4", "smallint": "int2", "boolean": "bool", "double": "float8"}
_TABLE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?ficha\.(\w+) \(\n(.*?)\n\)", re.DOTALL)
_ALTERED: Final = re.compile(r"ALTER TABLE ficha\.(\w+)\s([^;]*)")
_SHORT_TABLE: Final = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?ficha\.(\w+) \(([^\n]*)\)")
_COLUMN: Final = re.compile(r"^    ([a-z_0-9]+)\s+([a-z0-9]+)(.*)$", re.MULTILINE)
_ADDED: Final = re.compile(
    r"ALTER TABLE ficha\.(\w+)\s+ADD COLUMN (?:IF NOT EXISTS )?([a-z_0-9]+)\s+([a-z0-9]+)([^;,]*)"
)
_INDEX: Final = re.compile(
    r"CREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF NOT EXISTS )?(\w+)\s+ON ficha\.(\w+)([^;]*)"
)
_TRIGGER: Final = re.compile(r"CREATE TRIGGER (\w+)\s.*?\sON ficha\.(\w+)", re.DOTALL)
_VIEW: Final = re.compile(r"CREATE (?:OR REPLACE )?VIEW ficha\.(\w+)")
_FUNCTION: Final = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION ficha\.(\w+)")
_TRIGGER_FUNCTION: Final = re.compile(
    r"CREATE (?:OR REPLACE )?FUNCTION ficha\.(\w+)\(\) RETURNS trigger[^$]*\$\$(.*?)\$\$", re.DOTALL
)
_POLICY: Final = re.compile(r"CREATE POLICY (\w+) ON ficha\.(\w+)")
_DROPPED: Final = re.compile(r"DROP (TABLE|INDEX|VIEW|FUNCTION) (?:CONCURRENTLY )?(?:IF EXISTS )?ficha\.(\w+)")
_DROPPED_COLUMN: Final = re.compile(r"ALTER TABLE ficha\.(\w+)\s+DROP COLUMN (?:IF EXISTS )?([a-z_0-9]+)")
_COMMENT: Final = re.compile(r"--[^\n]*")


class DeclaredSchema(Struct, frozen=True):
    """The parts of a schema, each with the fact that is compared (None: only whether the part exists)."""

    parts: dict[Part, str | None] = field(default_factory=dict)

    @property
    def tables(self) -> set[str]:
        return {name for kind, _, name in self.parts if kind == "table"}


def declared(applied: Iterable[Migration]) -> DeclaredSchema:
    found = DeclaredSchema()
    for migration in applied:
        text = _COMMENT.sub("", "\n".join(step.text for step in migration.up))
        found.parts.update(_made_by(text))
        for part in [*_dropped_by(text, found.parts)]:
            found.parts.pop(part, None)
    return found


def _made_by(text: str) -> Iterator[tuple[Part, str | None]]:
    for table, body in (*_TABLE.findall(text), *_SHORT_TABLE.findall(text)):
        yield ("table", table, table), "with row-level security"
        lines = body if body.startswith("    ") else "\n".join(f"    {one.strip()}" for one in body.split(","))
        for column, kind, rest in _COLUMN.findall(lines):
            yield ("column", table, column), _column(kind, rest, body, column)
        yield from _keys(table, body, lines)
        yield from _checks(table, body)
    for table, column, kind, rest in _ADDED.findall(text):
        yield ("column", table, column), _column(kind, rest, "", column)
    for table, altered in _ALTERED.findall(text):
        yield from _checks(table, altered)
    for unique, name, table, rest in _INDEX.findall(text):
        yield ("unique index" if unique else "index", table, name), rule_words(rest) if unique else None
    for name, table in _TRIGGER.findall(text):
        yield ("trigger", table, name), "enabled"
    for name in _VIEW.findall(text):
        yield ("view", name, name), None
    for name in _FUNCTION.findall(text):
        yield ("function", name, name), None
    for name, body in _TRIGGER_FUNCTION.findall(text):
        yield ("function", name, name), " ".join(body.split())
    for name, table in _POLICY.findall(text):
        yield ("policy", table, name), None


def _keys(table: str, body: str, lines: str) -> Iterator[tuple[Part, str | None]]:
    for kind, words in (("primary key", "PRIMARY KEY"), ("unique constraint", "UNIQUE")):
        for columns in re.findall(rf"^\s*{words} \(([^)]*)\)", body, re.MULTILINE):
            yield _key(kind, table, columns)
        for column, _, rest in _COLUMN.findall(lines):
            if words in rest:
                yield _key(kind, table, column)


def _key(kind: str, table: str, columns: str) -> tuple[Part, str | None]:
    """A table has one primary key, and may have several other constraints, which are known by their columns."""
    columns = rule_words(columns)
    return ((kind, table, table), columns) if kind == "primary key" else ((kind, table, columns), None)


def _checks(table: str, text: str) -> Iterator[tuple[Part, str | None]]:
    for check in checks_in(text):
        yield ("check", table, rule_words(check)), None


def _column(kind: str, rest: str, body: str, name: str) -> str:
    keys = re.search(r"PRIMARY KEY \(([^)]*)\)", body)
    in_key = keys is not None and name in re.split(r",\s*", keys[1])
    is_never_null = in_key or any(
        words in rest for words in ("NOT NULL", "PRIMARY KEY", "GENERATED ALWAYS AS IDENTITY")
    )
    return _TYPES.get(kind, kind) + (" not null" if is_never_null else "")


def _dropped_by(text: str, known: dict[Part, str | None]) -> Iterator[Part]:
    for kind, name in _DROPPED.findall(text):
        yield from (
            part
            for part in known
            if (kind == "TABLE" and part[1] == name) or (part[2] == name and part[0].endswith(kind.lower()))
        )
    for table, column in _DROPPED_COLUMN.findall(text):
        yield ("column", table, column)
