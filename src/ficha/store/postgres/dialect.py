"""How PostgreSQL writes a statement, and how values are passed.

Values are passed only as text, whole numbers and booleans, so that any asyncpg connection will do, whatever its codecs.
"""

# ruff: noqa: S608 (texts are put together from names of our own; values are always parameters)
from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Protocol

from ..base import SchemaMismatch, StoreError
from ..sql.dialect import Dialect, sql_file
from ..sql.tables import Kind, Row, Table, Values

_PARAMETERS: Final[dict[Kind, str]] = {
    **{"text": "text", "uuid": "uuid", "number": "bigint", "flag": "boolean", "json": "json"}
}
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Fetcher(Protocol):
    """The part of a connection that is used; a caller's connection may be a pool's proxy."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...


def instant(expression: str) -> str:
    """A point in time as microseconds since 1970."""
    return f"(extract(epoch FROM {expression}) * 1000000)::bigint"


def at(parameter: str) -> str:
    """Microseconds since 1970 as a point in time; exact until the year 2255."""
    return f"'epoch'::timestamptz + {parameter} * interval '1 microsecond'"


def uuids(ids: Iterable[str]) -> list[str]:
    """The ids that a uuid column can hold, sorted. Other ids cannot exist, and must not make a statement fail."""
    return sorted(filter(_UUID.fullmatch, ids))


def array(number: int, kind: str) -> str:
    """An array as a parameter. The driver knows texts; about other arrays it asks the database, on each connection."""
    return f"${number}::text[]" if kind == "text" else f"${number}::text[]::{kind}[]"


class PostgresDialect:
    clock = instant("clock_timestamp()")
    insertion_order = "number"
    moment = (
        "SELECT at, at - $2::bigint * interval '1 millisecond' AS stuck_at, "
        "at - $3::bigint * interval '1 millisecond' AS old_at, at - $5::bigint * interval '1 millisecond' AS kept_at "
        f"FROM (SELECT coalesce({at('$1::bigint')}, clock_timestamp()) AS at) AS clock"
    )
    waiting = sql_file(__package__, "waiting")

    def read(self, expression: str, kind: Kind) -> str:
        if kind == "instant":
            return instant(expression)
        return f"{expression}::text" if kind in ("uuid", "json") else expression

    def null(self, kind: Kind) -> str:
        return "NULL::bigint" if kind in ("number", "instant") else "NULL::text"

    def parameter(self, number: int, kind: Kind) -> str:
        return at(f"${number}::bigint") if kind == "instant" else f"${number}::{_PARAMETERS[kind]}"

    def value(self, value: Any, kind: Kind) -> Any:
        return None if kind == "uuid" and value is not None and not _UUID.fullmatch(value) else value

    def among(self, expression: str, number: int, kind: Kind) -> str:
        return f"{expression} = ANY ({array(number, _PARAMETERS[kind])})"

    def values(self, values: Collection[Any], kind: Kind) -> Any:
        return uuids(values) if kind == "uuid" else [*map(str, values)]

    def lowered(self, expression: str) -> str:
        return f'lower({expression} COLLATE "C")'

    def part_of_index(self, column: str, value: str, key: str, first: str, end: str) -> str:
        # With a plain `=`, the planner may consider any index in the order of the key as good, and walk over the rows
        # of all values.
        return f"({column}, {key}) >= ({value}, {first}) AND ({column}, {key}) < ({value}, {end})"

    def joined_job(self, job_id: str) -> str:
        # OFFSET keeps the planner from joining the other way round, for which it would read all jobs.
        return f"CROSS JOIN LATERAL (SELECT * FROM ficha.jobs WHERE id = {job_id} OFFSET 0) j"

    def contains(self, expression: str, parameter: str) -> str:
        return f"strpos({expression}, {parameter}) > 0"

    def waiting_columns(self, row: Row) -> tuple[list[str], list[int], bytes, bytes]:
        owners, counts, ranks, ids = row
        return owners, [*map(int, counts)], ranks, ids

    def selected(self, table: Table, alias: str) -> str:
        return ", ".join(self.read(f"{alias}.{column.name}", column.kind) for column in table.columns)


SQL: Final[Dialect] = PostgresDialect()


# Rows to write

Field = tuple[int, Callable[[Any], str]] | None
"""The index of a column's value in a record's values, and how it is written; None for a column that is left empty."""
_MANY: Final = 4
"""From this many rows on, columns with equal values are written once."""


class Layout:
    """Writes rows as the text of an array of their table's row type.

    One text for all rows of a table is far less work, on both sides, than a parameter for each column, and the same
    statement serves one row and hundreds. Columns are in the database's own order (`read`); unwritten ones are empty.
    """

    _READ: Final = """
        SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relname = ANY ($1::text[]) AND c.relnamespace = to_regnamespace('ficha')
        GROUP BY c.relname
    """

    def __init__(self, tables: Iterable[Table]) -> None:
        self._names = sorted({table.name for table in tables})
        self._orders: dict[str, tuple[str, ...]] = {}
        self._fields: dict[Table, list[Field]] = {}

    async def read(self, connection: Fetcher) -> None:
        """Reads the order of the columns from the database."""
        self._orders = {name: tuple(names) for name, names in await connection.fetch(self._READ, self._names)}
        self._fields.clear()

    def names(self, table: Table) -> tuple[str, ...]:
        """The columns of a table, in the database's order."""
        if table.name not in self._orders:
            raise SchemaMismatch(f"there is no table {table.name}: run `ficha migrate up`, and check the schema's name")
        return self._orders[table.name]

    def rows(self, table: Table, records: Sequence[Any]) -> str:
        """The records as rows of this table."""
        fields = self._fields.get(table) or self._fields_of(table)
        write = _one_by_one if len(records) < _MANY else _column_by_column
        return '{"(' + joined(write(fields, [*map(table.values, records)])).replace("\x00", ')","(') + ')"}'

    def _fields_of(self, table: Table) -> list[Field]:
        known = {column.name: (number, _WRITERS[column.kind]) for number, column in enumerate(table.columns)}
        found = self._fields[table] = [known.get(name) for name in self.names(table)]
        return found


def _one_by_one(fields: list[Field], rows: list[Values]) -> list[str]:
    return [",".join(["" if f is None or (v := row[f[0]]) is None else f[1](v) for f in fields]) for row in rows]


def _column_by_column(fields: list[Field], rows: list[Values]) -> list[str]:
    """Writes values that are equal in all rows once: with many rows, those are most."""
    columns = [*zip(*rows, strict=True)]
    common: list[str] = []
    varying: list[Sequence[Any]] = []
    for field in fields:
        values: Values = (None,) if field is None else columns[field[0]]
        write = str if field is None else field[1]
        if values.count(values[0]) == len(values):
            common.append("" if values[0] is None else write(values[0]).replace("%", "%%"))
        elif write is quoted and None not in values:
            common.append('"%s"')
            varying.append(joined(values).split("\x00"))
        else:
            common.append("%s")
            is_text = write is str and None not in values  # ("%" itself writes it.)
            varying.append(values if is_text else ["" if value is None else write(value) for value in values])
    template = ",".join(common)
    return [template % values for values in zip(*varying, strict=True)] or [template % ()] * len(rows)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def joined(texts: Sequence[str]) -> str:
    """Texts escaped in one step, joined by a character that none of them may contain."""
    text = "\x00".join(texts)
    if text.count("\x00") != len(texts) - 1:
        raise StoreError("the database refused: a text contains a NUL character, which PostgreSQL cannot store")
    return _escaped(text)


def quoted(text: str) -> str:
    """A text quoted for an array or a row."""
    return f'"{_escaped(text)}"' if '"' in text or "\\" in text else f'"{text}"'


@lru_cache(maxsize=4096)
def _instant_text(instant: int) -> str:
    return f'"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)}"'


_WRITERS: Final[dict[Kind, Callable[[Any], str]]] = {
    **{"text": quoted, "uuid": str, "json": quoted, "number": str, "flag": str, "instant": _instant_text}
}
