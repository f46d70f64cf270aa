"""`ficha hooks`: lists declared hooks, and ends one that is gone for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from ..engine.views import DeclaredHookView, Page
from ..operations import BoundOperations
from .backend import on_database
from .listing import listed
from .options import App, AsJson, Database
from .output import data, echo

app = typer.Typer(help="Hooks: list, forget one that is gone for good.", no_args_is_help=True)

COLUMNS: Final[dict[str, Callable[[DeclaredHookView], Any]]] = {
    "HOOK": lambda hook: hook.name,
    "STATE": lambda hook: hook.state,
    "ENDS": lambda hook: ", ".join(hook.ends),
    "TOOLS": lambda hook: "all" if hook.tools is None else ", ".join(hook.tools),
    "DECLARED": lambda hook: hook.declared_at,
    "RUN": lambda hook: hook.run_at,
    "OWED": lambda hook: hook.owed,
}


@app.command(name="list")
def list_(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List declared hooks: whether a worker runs each, and how many calls are owed."""

    async def work(backend: BoundOperations) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[DeclaredHookView]:
            return Page(await backend.declared_hooks())

        await listed(all_of_them, COLUMNS, page=1, after=None, limit=1, as_json=as_json, nothing="no hooks")

    on_database(app, database, work)


@app.command()
def forget(
    hook: Annotated[str, typer.Argument(metavar="HOOK", help="The hook.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """End a hook that no running process declares: its owed calls are dropped."""
    dropped = on_database(app, database, lambda backend: backend.forget_hook(hook))
    if as_json:
        data({"hook": hook, "dropped": dropped})
    else:
        echo(f"hook {hook} is forgotten; {dropped} owed calls were dropped")
