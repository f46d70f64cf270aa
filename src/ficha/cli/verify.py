"""`ficha verify`: checks every invariant on a live database."""

from __future__ import annotations

import typer

from ..app import Ficha
from ..doctor import looking_at, missing_guards
from ..errors import Refused
from ..operations import BoundOperations
from ..store.base import StoreError
from ..store.database_url import hidden
from .backend import application, on_database
from .options import App, AsJson, Database
from .output import data, echo, note


def verify(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Check every invariant: balances against the ledger, counters against jobs, histories against the state table; and
    that the constraints, unique indexes and triggers that guard them are there.

    May run while the database is in use. Writes the outcome to the audit log, for metrics, and nothing else. Exits with
    1 if anything is wrong.
    """
    checked = application(app, database, "database")[0]

    async def check(backend: BoundOperations) -> list[str]:
        return await _verify(backend, checked)

    found = on_database(app, database, check)
    if as_json:
        data({"ok": not found, "violations": found})
    else:
        for sentence in found:
            echo(sentence, "wrong: ", "red")
        echo(f"{hidden(checked.database)}: " + (f"{len(found)} things are wrong" if found else "all is well"))
    if found:
        raise typer.Exit(1)


async def _verify(backend: BoundOperations, checked: Ficha) -> list[str]:
    found = await backend.verify()
    try:
        async with looking_at(checked.database, checked.schema) as looking:
            found += await missing_guards(looking)
    except StoreError as error:
        note(f"whether constraints, unique indexes and triggers are there could not be checked: {error}")
    try:
        await backend.note_verification(len(found))
    except (StoreError, Refused) as error:
        # The findings are reported even where nothing may be written.
        note(f"the outcome could not be written to the audit log: {error}")
    return found
