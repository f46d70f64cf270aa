"""`ficha upload`, `files`, `download` and `remove-file`: an account's files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from ..core.records import FileRole
from ..engine.views import FileView
from ..operations import BoundOperations
from .backend import Backend, account_or_own, check_account, on_backend
from .listing import each, list_on_backend
from .options import LIMIT, Account, After, App, AsJson, Database, Limit
from .output import data, echo, text

COLUMNS: Final[dict[str, Callable[[FileView], Any]]] = {
    "ID": lambda file: file.id,
    "NAME": lambda file: file.name,
    "TYPE": lambda file: file.media_type,
    "BYTES": lambda file: file.size,
    "ROLE": lambda file: file.role,
    "STATE": lambda file: file.state,
    "ACCOUNT": lambda file: file.account,
    "CREATED": lambda file: file.created_at,
}
Owner = Annotated[
    str | None,
    typer.Option("--account", help="The account that owns it. With --url, defaults to the key's own account."),
]


def upload(
    path: Annotated[Path, typer.Argument(metavar="PATH", exists=True, dir_okay=False, help="The file.")],
    account: Owner = None,
    name: Annotated[str | None, typer.Option("--name", help="The file's name.", show_default="its own name")] = None,
    reservation: Annotated[
        str | None, typer.Option("--reservation", help="The quota reservation that its job uses.")
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Upload a file and print its id, to be named in a payload."""
    check_account(account, database, "option '--account'")

    async def work(backend: Backend) -> FileView:
        if isinstance(backend, BoundOperations):
            owner = await account_or_own(backend, account)
            return await backend.upload(owner, name or path.name, path, reservation=reservation)
        return await backend.upload(path, name=name, account=account, reservation=reservation)

    file = on_backend(app, database, work, needs="settings", acts=True)
    if as_json:
        data(file)
    else:
        echo(f"{file.name} is stored: {file.size} bytes, {file.media_type}")
        text(f"{file.id}\n")


def files(
    account: Account = None,
    role: Annotated[str | None, typer.Option("--role", help="Only these: input, or result.")] = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List files, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.files(
            account, role=cast(FileRole | None, role), after=cursor, limit=most
        ),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no files",
    )


def download(
    file_id: Annotated[str, typer.Argument(metavar="FILE", help="The file's id.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PATH", help="Where to write it.", show_default="standard output")
    ] = None,
    app: App = None,
    database: Database = None,
) -> None:
    """Download a file."""

    async def work(backend: Backend) -> None:
        if to is not None and not isinstance(backend, BoundOperations):
            await backend.download(file_id, to)
            return
        with nullcontext(sys.stdout.buffer) if to is None else to.open("wb") as target:
            async for piece in backend.read_file(file_id):
                target.write(piece)

    on_backend(app, database, work, needs="settings")


def remove_file(
    file_ids: Annotated[list[str], typer.Argument(metavar="FILE...", help="One file or several.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Remove files."""

    async def work(backend: Backend) -> None:
        await each(file_ids, backend.remove_file, lambda file: f"{file.id} is removed", as_json=as_json)

    on_backend(app, database, work, needs="settings", acts=True)
