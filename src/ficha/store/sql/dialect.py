"""What differs between the databases in a statement that both understand, and how a question is put to either.

A shared question is a generator: it yields statements and is sent their rows, so that one text serves a driver that
waits and one that does not.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from .tables import Kind, Row, Table

T = TypeVar("T")


class Dialect(Protocol):
    """One database's way to write a statement."""

    clock: str
    """The expression that gives the database's own time, in microseconds since 1970."""
    insertion_order: str
    """The column of `steps` that rises from row to row, in the order in which they were inserted."""
    moment: str
    """A select of `at`, `stuck_at` and `old_at`: the time in the first parameter (null: the database's own), and that
    many milliseconds before it as the second and the third say."""

    def read(self, expression: str, kind: Kind) -> str:
        """The expression that gives a column's value as the records hold it."""

    def null(self, kind: Kind) -> str:
        """Nothing, in the place of a column of this kind that is read."""

    def parameter(self, number: int, kind: Kind) -> str:
        """The sign for a parameter, as a value of this kind."""

    def value(self, value: Any, kind: Kind) -> Any:
        """A value to be compared with a column of this kind; one that no such column can hold equals nothing."""

    def among(self, expression: str, number: int, kind: Kind) -> str:
        """Whether it is one of the values in a parameter."""

    def values(self, values: Collection[Any], kind: Kind) -> Any:
        """Such a parameter."""

    def contains(self, expression: str, parameter: str) -> str:
        """Whether a text contains another."""

    def selected(self, table: Table, alias: str) -> str:
        """A table's columns, as `Table.record` takes them."""


class Statement(Struct, frozen=True):
    text: str
    values: tuple[Any, ...] = ()


Asking = Generator[Statement, list[Row], T]
"""A question on its way: the statements it needs, one after the other, and in the end its answer."""


class Select:
    """A statement in the making: what is read, and the conditions that a question has."""

    def __init__(self, sql: Dialect, text: str) -> None:
        self._sql = sql
        self._text = text
        self._terms: list[str] = []
        self._values: list[Any] = []

    def given(self, value: Any, kind: Kind) -> str:
        """The sign for a further parameter with this value."""
        self._values.append(self._sql.value(value, kind))
        return self._sql.parameter(len(self._values), kind)

    def where(self, condition: str) -> None:
        self._terms.append(condition)

    def matches(self, column: str, operator: str, value: Any, kind: Kind = "text") -> None:
        """A condition on a column, unless the question leaves it open."""
        if value is not None:
            self.where(f"{column} {operator} {self.given(value, kind)}")

    def statement(self, tail: str = "", limit: int | None = None) -> Statement:
        """All of it, once every condition is there."""
        where = f" WHERE {' AND '.join(self._terms)}" if self._terms else ""
        if limit is not None:
            tail += f" LIMIT {self.given(limit, 'number')}"
        return Statement(f"{self._text}{where} {tail}", tuple(self._values))


@cache
def sql_file(package: str, name: str) -> str:
    """A statement from the folder `statements` of a package, without its comments."""
    lines = (files(package) / "statements" / f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))
