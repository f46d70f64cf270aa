"""`ficha apikey`: the credentials of callers over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, get_args

import typer

from ..core.records import ApiKeyScope
from ..engine.views import ApiKeyView
from .backend import on_backend
from .listing import list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Limit
from .output import data, echo, text

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)

SCOPES: Final = get_args(ApiKeyScope)

COLUMNS: Final[dict[str, Callable[[ApiKeyView], Any]]] = {
    "ID": lambda key: key.id,
    "NAME": lambda key: key.name,
    "KEY": lambda key: f"{key.hint}…",
    "ACCOUNT": lambda key: key.account,
    "STATE": lambda key: key.state,
    "EXPIRES": lambda key: key.expires_at,
    "USED": lambda key: key.last_used_at,
}


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is for. Two live keys may have one name.")],
    scope: Annotated[str, typer.Option("--scope", help=f"What it may do: {', '.join(SCOPES)}.")] = "user",
    account: Annotated[str | None, typer.Option("--account", help="The account of a user's key.")] = None,
    ttl_hours: Annotated[
        float | None, typer.Option("--ttl-hours", help="Hours until it expires.", show_default="never")
    ] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it. It is shown only now; the database keeps a digest."""
    if scope not in SCOPES:
        raise typer.BadParameter(f"--scope must be one of {', '.join(SCOPES)}, not {scope!r}")
    ttl_s = None if ttl_hours is None else ttl_hours * 3_600
    made = on_backend(
        app,
        database,
        lambda backend: backend.create_api_key(name, scope=scope, account=account, ttl_s=ttl_s),  # type: ignore[arg-type]
    )
    if as_json:
        data(made)
        return
    text(f"{made.secret}\n")
    ends = "" if made.key.expires_at is None else f", until {made.key.expires_at:%Y-%m-%d %H:%M} UTC"
    echo(f"key {made.key.id} is valid{ends}; save it now, it cannot be shown again")


@app.command(name="list")
def list_(
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List all keys, expired and revoked ones too, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.api_keys(after=cursor, limit=most),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no API keys",
    )


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as listed.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Revoke a key: it is refused from now on."""
    key = on_backend(app, database, lambda backend: backend.revoke_api_key(key_id))
    if as_json:
        data(key)
    else:
        echo(f"key {key.id} ({key.name}, {key.hint}…) is revoked")
