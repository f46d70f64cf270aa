"""`ficha verify`: every invariant, on a live database."""

from __future__ import annotations

import asyncio

import typer

from ..engine.positions import Positions
from ..engine.queries import Queries
from ..store.connect import hidden, store_for
from .desk import database_of
from .options import App, AsJson, Database
from .output import data, words


def verify(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Check every invariant: balances against the ledger, counters against jobs, histories against the state table.

    Reads only, and may run while the database is in use. Exits with 1 if anything is wrong.
    """
    url = database_of(app, database)
    found = asyncio.run(_violations(url))
    if as_json:
        data({"ok": not found, "violations": found})
    else:
        for sentence in found:
            words(sentence, "wrong: ", "red")
        words(f"{hidden(url)}: " + (f"{len(found)} things are wrong" if found else "all is well"))
    if found:
        raise typer.Exit(1)


async def _violations(database: str) -> list[str]:
    store = store_for(database)
    try:
        await store.open()
        return await Queries(store, Positions(store)).verify()
    finally:
        await store.close()
