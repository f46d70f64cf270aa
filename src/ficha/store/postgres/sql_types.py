"""How values travel: as parameters of a statement, and back.

They cross the connection only as text, whole numbers and truth values, and SQL turns them into the native types of the
columns. So any asyncpg connection will do, also one that belongs to the caller and has its own codecs.
"""

# ruff: noqa: S608 (texts are put together from the names in columns.py; values are always parameters)
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from ..base import StoreError

Kind = Literal["text", "uuid", "number", "flag", "json", "instant", "version", "seat"]
"""A version is the transaction that wrote a row (PostgreSQL's `xmin`), a seat where in its table it lies (`ctid`)."""

_ARRAYS: Final[dict[Kind, str]] = {
    "text": "text[]",
    "uuid": "uuid[]",
    "number": "bigint[]",
    "flag": "boolean[]",
    "json": "text[]",
    "instant": "bigint[]",
    "version": "xid[]",
    "seat": "tid[]",
}
_SCALARS: Final[dict[Kind, str]] = {
    "text": "text",
    "uuid": "uuid",
    "number": "bigint",
    "flag": "boolean",
    "json": "text",
    "instant": "bigint",
    "version": "text::xid",
    "seat": "text::tid",
}
_QUOTED: Final = frozenset(("text", "json", "seat"))
_NUL: Final = "a text holds a NUL character, which PostgreSQL cannot store; leave it out"


def written(name: str, kind: Kind) -> str:
    """The expression that turns a parameter's value into the column's. Instants are exact until the year 2255."""
    match kind:
        case "json":
            return f"{name}::jsonb"
        case "instant":
            return f"'epoch'::timestamptz + {name} * interval '1 microsecond'"
        case _:
            return name


def literal(kind: Kind, values: Sequence[Any]) -> str:
    """A column of values as the text of an array.

    The driver looks at each element of an array by itself, which costs more than all else in a batch; one text for the
    whole column is put together in a few steps, whatever its length. `unnest` fills a shorter array up with nulls, so
    a column of nothing else costs nothing.
    """
    is_quoted = kind in _QUOTED
    if None in values:
        words = [None if value is None else _quoted(value) if is_quoted else str(value) for value in values]
        return "{" + ",".join(word or "NULL" for word in words) + "}" if any(words) else "{}"
    if is_quoted:
        return _all_quoted(values)
    return "{" + ",".join(map(str, values)) + "}"


def _all_quoted(values: Sequence[str]) -> str:
    """Joined by a character that no text here may hold, so that all are escaped in one step."""
    joined = "\x00".join(values)
    if joined.count("\x00") != len(values) - 1:
        raise StoreError(_NUL)
    return '{"' + _escaped(joined).replace("\x00", '","') + '"}'


def _quoted(value: str) -> str:
    if "\x00" in value:
        raise StoreError(_NUL)
    return f'"{_escaped(value)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def read(name: str, kind: Kind) -> str:
    """The expression that turns a column's value into one that any connection can decode."""
    match kind:
        case "uuid" | "json":
            return f"{name}::text"
        case "instant":
            return f"(extract(epoch FROM {name}) * 1000000)::bigint"
        case _:
            return name


def instant(name: str) -> str:
    return read(name, "instant")


def at(name: str) -> str:
    return written(name, "instant")


def nulls(count: int) -> str:
    return ", ".join(["NULL"] * count)


class Column(Struct, frozen=True):
    name: str
    kind: Kind


def source(
    columns: Sequence[Column],
    first: int,
    *,
    is_single: bool,
    shared: Sequence[Column] = (),
    fixed: Sequence[str] = (),
    under: str = "",
) -> str:
    """The rows `v` with these columns, from parameters numbered from `first`; then what all rows share, or have fixed.

    A single row is passed value by value: for the database, that is a fraction of the work of unfolding arrays.
    `under` says what it depends on, if on anything.
    """
    if is_single:
        return f"(SELECT {', '.join((*_scalars((*columns, *shared), first), *fixed))} {under}) AS v"
    arrays = ", ".join(array(column.kind, n) for n, column in enumerate(columns, first))
    names = ", ".join(column.name for column in columns)
    if not (shared or fixed):
        return f"unnest({arrays}) AS v ({names})"
    beside = ", ".join((*_scalars(shared, first + len(columns)), *fixed))
    return f"(SELECT u.*, {beside} FROM unnest({arrays}) AS u ({names})) AS v"


def _scalars(columns: Sequence[Column], first: int) -> Iterable[str]:
    return (f"${n}::{_SCALARS[column.kind]} AS {column.name}" for n, column in enumerate(columns, first))


def constant(column: Column, value: int | str | None) -> str:
    """A column that has this value, which is one of our own words, in all rows."""
    word = "NULL" if value is None else f"'{value}'"
    return f"{word}::{_SCALARS[column.kind]} AS {column.name}"


def array(kind: Kind, number: int) -> str:
    """A column's parameter, which is a text (see `literal`)."""
    return f"${number}::text::{_ARRAYS[kind]}"


def one_of(kind: Kind, number: int, *, is_single: bool) -> str:
    """What a column is compared with to find the rows that have one of the values of a parameter."""
    return f"${number}::{_SCALARS[kind]}" if is_single else f"ANY ({array(kind, number)})"


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def uuid_in(text: str) -> str | None:
    """An id for a uuid column to be compared with; one that no such column can hold equals nothing."""
    return text if _UUID.fullmatch(text) else None


def uuids(ids: Iterable[str]) -> list[str]:
    """The ids that a uuid column can hold, sorted. Others name nothing that exists; they must not fail a statement."""
    return sorted(filter(_UUID.fullmatch, ids))
