"""What differs between the databases in a shared statement, and how a shared query runs on either.

A shared query is a generator: it yields statements and is sent their rows, so that it works with a synchronous driver
and with an asynchronous one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from functools import cache
from importlib.resources import files
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ..base import Query
from .tables import Kind, Row, Table

T = TypeVar("T")


class Dialect(Protocol):
    """How one database writes a statement."""

    clock: str
    """The expression that gives the database's own time, in microseconds since 1970."""
    insertion_order: str
    """The column of `steps` that rises with each inserted row."""
    moment: str
    """A select of `at`, `stuck_at`, `old_at` and `kept_at`: the time in parameter 1 (in PostgreSQL, null stands for the
    database's clock), and the times that are as many milliseconds earlier as parameters 2, 3 and 5 say. Parameter 4 is
    free for the statement."""
    waiting: str
    """The statement of a page of waiting jobs, for an `owner` and the `rows` to read: it gives four columns."""

    def read(self, expression: str, kind: Kind) -> str:
        """The expression that reads a column as the value that records hold."""

    def null(self, kind: Kind) -> str:
        """NULL in the place of a column of this kind."""

    def parameter(self, number: int, kind: Kind) -> str:
        """The placeholder for a parameter, as a value of this kind."""

    def value(self, value: Any, kind: Kind) -> Any:
        """A value to compare with a column of this kind; if no such column can hold it, it must match no row."""

    def among(self, expression: str, number: int, kind: Kind) -> str:
        """The condition that the expression is one of the values in a parameter."""

    def values(self, values: Collection[Any], kind: Kind) -> Any:
        """The values as the parameter for `among`."""

    def lowered(self, expression: str) -> str:
        """A text with A to Z in lower case and no other letter changed."""

    def part_of_index(self, column: str, value: str, key: str, first: str, end: str) -> str:
        """The condition that a row has this value, and a key from `first` on and before `end`: a range of the index on
        both columns, which is read in the order of the index."""

    def joined_job(self, job_id: str) -> str:
        """Joins the row `j` of `jobs` to each row before it, in the order of those rows."""

    def contains(self, expression: str, parameter: str) -> str:
        """The condition that a text contains another."""

    def waiting_columns(self, row: Row) -> tuple[list[str], list[int], bytes, bytes]:
        """The columns of such a page, as `Lines.append` takes them."""

    def selected(self, table: Table, alias: str) -> str:
        """A table's columns, as `Table.record` takes them."""


class Statement(Struct, frozen=True):
    text: str
    values: tuple[Any, ...] = ()


Asking = Generator[Statement, list[Row], T]
"""A running query: it yields its statements one after the other and returns the answer."""
Answer = Callable[[Dialect, Any, int | None], Asking[Any]]
"""Answers a query; its last argument is the time, or None for the database's clock."""
Answers = dict[type[Query[Any]], Answer]
"""Which function answers which query."""


class Select:
    """Builds a SELECT: what is read, then one condition after the other."""

    def __init__(self, sql: Dialect, text: str, values: tuple[Any, ...] = ()) -> None:
        self._sql = sql
        self._text = text
        self._terms: list[str] = []
        self._values: list[Any] = [*values]

    def given(self, value: Any, kind: Kind) -> str:
        """Adds a parameter with this value and returns its placeholder."""
        self._values.append(self._sql.value(value, kind))
        return self._sql.parameter(len(self._values), kind)

    def where(self, condition: str) -> None:
        self._terms.append(condition)

    def matches(self, column: str, operator: str, value: Any, kind: Kind = "text") -> None:
        """Adds a condition on a column, unless the value is None."""
        if value is not None:
            self.where(f"{column} {operator} {self.given(value, kind)}")

    def statement(self, tail: str = "", limit: int | None = None) -> Statement:
        """The finished statement."""
        where = f" WHERE {' AND '.join(self._terms)}" if self._terms else ""
        if limit is not None:
            tail += f" LIMIT {self.given(limit, 'number')}"
        return Statement(f"{self._text}{where} {tail}", tuple(self._values))


@cache
def sql_file(package: str, name: str) -> str:
    """A statement from the folder `statements` of a package, without its comments."""
    lines = (files(package) / "statements" / f"{name}.sql").read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))
