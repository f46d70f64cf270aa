"""`ficha verify`: checks every invariant on a live database."""

from __future__ import annotations

import typer

from ..errors import Refused
from ..operations import BoundOperations
from ..store.base import StoreError
from ..store.database_url import hidden
from .backend import database_of, on_database
from .options import App, AsJson, Database
from .output import data, echo, note


def verify(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Check every invariant: balances against the ledger, counters against jobs, histories against the state table.

    May run while the database is in use. Writes the outcome to the audit log, for metrics, and nothing else. Exits with
    1 if anything is wrong.
    """
    url = database_of(app, database)
    found = on_database(app, database, _verify)
    if as_json:
        data({"ok": not found, "violations": found})
    else:
        for sentence in found:
            echo(sentence, "wrong: ", "red")
        echo(f"{hidden(url)}: " + (f"{len(found)} things are wrong" if found else "all is well"))
    if found:
        raise typer.Exit(1)


async def _verify(backend: BoundOperations) -> list[str]:
    found = await backend.verify()
    try:
        await backend.note_verification(len(found))
    except (StoreError, Refused) as error:
        # The findings are reported even where nothing may be written.
        note(f"the outcome could not be written to the audit log: {error}")
    return found
