"""Parts of the statement that writes what a group changed, and how one is made for a table.

A part is a data-modifying CTE on one table, over the rows `v`, which are passed as one parameter. All parts see the
rows as they were before the statement, so no two parts may write the same row; `job_rows` sorts hot rows accordingly.
"""

# ruff: noqa: S608 (texts are put together from the names in tables.py; values are always parameters)
from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ..sql.tables import Table
from .dialect import Layout


class Part(Struct, frozen=True, eq=False):
    """One CTE. In the text, `{rows}` stands for the source of the rows `v`."""

    name: str
    table: Table
    text: str
    is_by_id: bool = False
    """Whether it needs only the key of a row, which is one uuid."""

    def cte(self, number: int, under: str = "") -> str:
        """The CTE over the rows in the parameter with this number; over none if the source `under` has no row."""
        kind, rows = ("uuid", f"v ({self.table.key[0]})") if self.is_by_id else (f"ficha.{self.table.name}", "v")
        source = f"{under}unnest(${number}::text::{kind}[]) AS {rows}"
        return f"{self.name} AS ({self.text.format(rows=source)})"

    def rows(self, layout: Layout, records: Sequence[Any]) -> str:
        """The parameter for these records."""
        return "{" + ",".join(records) + "}" if self.is_by_id else layout.rows(self.table, records)


Filled = tuple[Part, Sequence[Any]]
"""A part with its records."""


def insert(name: str, table: Table, tail: str = "") -> Part:
    columns, row = ", ".join(table.names), ", ".join(f"v.{name}" for name in table.names)
    return Part(name, table, f"INSERT INTO ficha.{table.name} ({columns}) SELECT {row} FROM {{rows}}{tail}")


def upsert(name: str, table: Table) -> Part:
    changed = ", ".join(f"{name} = excluded.{name}" for name in table.names if name not in table.key)
    return insert(name, table, f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {changed}")


def update(name: str, table: Table) -> Part:
    return Part(name, table, f"UPDATE ficha.{table.name} t SET {changed(table)} FROM {{rows}} WHERE {same_key(table)}")


def changed(table: Table) -> str:
    return ", ".join(f"{name} = v.{name}" for name in table.names if name not in table.key)


def delete(name: str, table: Table) -> Part:
    """Deletes the rows with these keys."""
    key = tuple(column for column in table.columns if column.name in table.key)
    text = f"DELETE FROM ficha.{table.name} AS t USING {{rows}} WHERE {same_key(table)}"
    return Part(name, replace(table, columns=key, values=tuple), text, is_by_id=[c.kind for c in key] == ["uuid"])


def same_key(table: Table) -> str:
    """Compares keys so that the planner can only look rows up by their key, one by one. With a plain `=`, a plan made
    while the statistics say that the table is empty would scan all of it, for as long as the plan is kept."""
    return " AND ".join(f"t.{name} = ANY (ARRAY[v.{name}])" for name in table.key)


WAYS: Final = (("gone", delete), ("new", insert), ("changed", update))


def split(new: Part, changed: Part, known: Mapping[Any, Any], records: list[Any]) -> list[Filled]:
    """Sorts records into those that are new and those that existed before."""
    key = attrgetter(*new.table.key)
    if len(records) > 1:
        records = sorted(records, key=key)
    made = [record for record in records if known.get(key(record)) is None]
    rest = records if not made else [record for record in records if known.get(key(record)) is not None]
    return [(part, found) for part, found in ((new, made), (changed, rest)) if found]
