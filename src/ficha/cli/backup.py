"""`ficha backup`: copies an SQLite database while it is in use."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from ..store.base import StoreError
from ..store.connect import kind_of, sqlite_file
from ..store.database_url import hidden
from .backend import database_of
from .options import App, AsJson, Database
from .output import data, echo


def backup(
    target: Annotated[str, typer.Argument(metavar="FILE", help="The new file; one that exists is not overwritten.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Copy an SQLite database to a new file while it is in use, and check the copy. Files are copied afterwards, by
    other means; docs/backup.md says how, and how PostgreSQL is backed up."""
    url = database_of(app, database)
    if kind_of(url) != "sqlite":
        raise StoreError(
            f"{hidden(url)} is not an SQLite file: back PostgreSQL up with pg_dump or pg_basebackup, "
            "as docs/backup.md says"
        )
    from ..store.sqlite_backup import back_up

    made = back_up(sqlite_file(url), target)
    if as_json:
        data(msgspec.to_builtins(made))
    else:
        echo(f"{made.path}: {made.size} bytes, checked, in {made.took_s:.1f} s; now copy the files")
