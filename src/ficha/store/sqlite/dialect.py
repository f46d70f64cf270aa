"""How SQLite writes a statement. Values are stored and read as they are passed."""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import Any, Final

import apsw
from msgspec import json

from ..sql.dialect import Dialect, sql_file
from ..sql.tables import Kind, Row, Table

_FOR_LIFE: Final = frozenset(("account_id", "pool", "wait_until_at"))
"""Columns that never change in a hot row. Updates leave them out: SQLite writes the index of every column it sets."""


class SqliteDialect:
    clock = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    insertion_order = "rowid"
    moment = "SELECT ?1 AS at, ?1 - ?2 * 1000 AS stuck_at, ?1 - ?3 * 1000 AS old_at, ?1 - ?5 * 1000 AS kept_at"
    waiting = sql_file(__package__, "waiting")

    def read(self, expression: str, kind: Kind) -> str:
        return expression

    def null(self, kind: Kind) -> str:
        return "NULL"

    def parameter(self, number: int, kind: Kind) -> str:
        return f"?{number}"

    def value(self, value: Any, kind: Kind) -> Any:
        return value

    def among(self, expression: str, number: int, kind: Kind) -> str:
        return f"{expression} IN carray(?{number})"

    def values(self, values: Collection[Any], kind: Kind) -> Any:
        return apsw.carray(array("q", values) if kind == "number" else tuple(values) or ("",))

    def lowered(self, expression: str) -> str:
        return f"lower({expression})"

    def part_of_index(self, column: str, value: str, key: str, first: str, end: str) -> str:
        return f"{column} = {value} AND {key} >= {first} AND {key} < {end}"

    def joined_job(self, job_id: str) -> str:
        return f"CROSS JOIN ficha.jobs j ON j.id = {job_id}"

    def contains(self, expression: str, parameter: str) -> str:
        return f"instr({expression}, {parameter}) > 0"

    def waiting_columns(self, row: Row) -> tuple[list[str], list[int], bytes, bytes]:
        owners, counts, ranks, ids = row
        return json.decode(owners), json.decode(counts), bytes.fromhex(ranks), bytes.fromhex(ids)

    def selected(self, table: Table, alias: str) -> str:
        return ", ".join(f"{alias}.{name}" for name in table.names)


SQL: Final[Dialect] = SqliteDialect()


def insert(table: Table, verb: str = "INSERT") -> str:
    return f"{verb} INTO {table.name} ({', '.join(table.names)}) VALUES ({', '.join('?' * len(table.columns))})"


def upsert(table: Table) -> str:
    changed = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    return f"{insert(table)} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}"


def update(table: Table) -> str:
    """Updates by the first column, which is the key; takes a whole row, like the insert."""
    signs = {name: f"?{number}" for number, name in enumerate(table.names, 1)}
    changed = ", ".join(f"{name} = {signs[name]}" for name in table.names[1:] if name not in _FOR_LIFE)
    return f"UPDATE {table.name} SET {changed} WHERE {table.names[0]} = ?1"


def delete(table: Table) -> str:
    """Deletes by the key."""
    return f"DELETE FROM {table.name} WHERE {' AND '.join(f'{name} = ?' for name in table.key)}"
