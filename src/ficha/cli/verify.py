"""`ficha verify`: checks every invariant on a live database."""

from __future__ import annotations

import typer

from ..store.database_url import hidden
from .backend import database_of, on_database
from .options import App, AsJson, Database
from .output import data, echo


def verify(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Check every invariant: balances against the ledger, counters against jobs, histories against the state table.

    Reads only, and may run while the database is in use. Exits with 1 if anything is wrong.
    """
    url = database_of(app, database)
    found = on_database(app, database, lambda backend: backend.verify())
    if as_json:
        data({"ok": not found, "violations": found})
    else:
        for sentence in found:
            echo(sentence, "wrong: ", "red")
        echo(f"{hidden(url)}: " + (f"{len(found)} things are wrong" if found else "all is well"))
    if found:
        raise typer.Exit(1)
