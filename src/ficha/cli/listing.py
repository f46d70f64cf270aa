"""Lists, read page by page up to a limit; and actions on several ids."""

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
    """Runs a list command. `ask` reads the page after a cursor; `nothing` is the message for an empty list."""

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
    """Prints up to `limit` items. `ask` reads the page after a cursor; `page` is its largest size.

    opaque: the cursor is not the last item's id, so it is printed even with `--json`.
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
    """Acts on each id, even if others are refused; exits with 1 if one was."""
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
