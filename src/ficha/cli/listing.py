"""Lists: page after page from the database, up to a limit, in whichever form they are wanted; and acts on several."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

import typer

from ..engine.views import Page
from ..errors import Refused
from ..operations import BoundOperations
from .backend import Backend, Needs, on_backend, page_items
from .output import data, echo, failure, table

T = TypeVar("T")
Columns = Mapping[str, Callable[[T], Any]]


def list_on_backend(
    app: str | None,
    database: str | None,
    ask: Callable[[Backend, str | None, int], Awaitable[Page[T]]],
    columns: Columns[T],
    *,
    after: str | None,
    limit: int,
    as_json: bool,
    nothing: str | Callable[[Backend], str],
    needs: Needs = "database",
) -> None:
    """A command that lists: `ask` gives a desk's page after a cursor; `nothing` is what is said of an empty list."""

    async def work(backend: Backend) -> None:
        await listed(
            lambda cursor, most: ask(backend, cursor, most),
            columns,
            page=page_items(backend),
            after=after,
            limit=limit,
            as_json=as_json,
            nothing=nothing if isinstance(nothing, str) else nothing(backend),
            opaque=not isinstance(backend, BoundOperations),
        )

    on_backend(app, database, work, needs=needs)


async def listed(
    ask: Callable[[str | None, int], Awaitable[Page[T]]],
    columns: Columns[T],
    *,
    page: int,
    after: str | None,
    limit: int,
    as_json: bool,
    nothing: str,
    opaque: bool = False,
) -> None:
    """Prints up to `limit` items. `ask` gives the page after a cursor; `page` is the most that it gives at once.

    opaque: where to go on cannot be read from the last item, so that programs are told as well.
    """
    kept: list[T] = []
    left, found = limit, 0
    while left > 0:
        part = await ask(after, min(left, page))
        found += len(part.items)
        left -= len(part.items)
        after = part.next
        if as_json:
            for item in part.items:
                data(item)
        elif sys.stdout.isatty():
            kept += part.items
        else:
            _print(columns, part.items)
        if after is None:
            break
    if kept:
        _print(columns, kept)
    if after is not None and (opaque or not as_json):
        echo(f"there may be more: --after {after}")
    elif not found and not as_json:
        echo(nothing)


def _print(columns: Columns[T], items: Iterable[T]) -> None:
    table(list(columns), [[value(item) for value in columns.values()] for item in items])


async def each(
    ids: Iterable[str], act: Callable[[str], Awaitable[T]], sentence: Callable[[T], str], *, as_json: bool
) -> None:
    """Does the same to each id, whatever becomes of the others; ends with 1 if one was refused."""
    refused = False
    for given in ids:
        try:
            answer = await act(given)
        except Refused as error:
            refused = True
            refusal(error, as_json=as_json)
        else:
            if as_json:
                data(answer)
            else:
                echo(sentence(answer))
    if refused:
        raise typer.Exit(1)


def refusal(error: Refused, *, as_json: bool) -> None:
    more = {"retry_after_s": error.retry_after_s, "details": error.details}
    failure(error.code, error.message, as_json=as_json, retryable=error.retryable, **more)
