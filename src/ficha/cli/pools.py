"""`ficha pools`: lists, pauses and resizes pools, on all machines at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from ..core.records import Pool
from ..engine.views import Page, PoolView
from .backend import Backend, on_backend
from .listing import listed
from .options import App, AsJson, Database
from .output import data, echo
from .tools import Reason, brake

app = typer.Typer(help="Pools: list, pause, resume, resize, close, open.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="POOL", help="The pool.")]

COLUMNS: Final[dict[str, Callable[[PoolView], Any]]] = {
    "POOL": lambda pool: pool.name,
    "SLOTS": lambda pool: "no limit" if pool.slots is None else pool.slots,
    "BUSY": lambda pool: pool.busy,
    "READY": lambda pool: pool.ready,
    "PARKED": lambda pool: pool.parked,
    "PAUSED": lambda pool: pool.paused,
}


@app.command(name="list")
def list_(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List pools: slots, busy slots, ready jobs."""

    async def work(backend: Backend) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[PoolView]:
            return Page(await backend.pools())

        await listed(all_of_them, COLUMNS, page=1, after=None, limit=1, as_json=as_json, nothing="no pools yet")

    on_backend(app, database, work)


@app.command()
def pause(pool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Pause a pool: it starts no more jobs; running ones continue."""
    _change(app, database, lambda backend: backend.pause_pool(pool), "is paused", as_json=as_json)


@app.command()
def resume(pool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Resume a paused pool."""
    _change(app, database, lambda backend: backend.resume_pool(pool), "is not paused", as_json=as_json)


@app.command()
def resize(
    pool: Name,
    slots: Annotated[
        str,
        typer.Argument(metavar="SLOTS|declared", help="How many; or declared, for the application's own number."),
    ],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Override a pool's number of slots on all machines, or return to the declared one."""
    if slots != "declared" and not slots.isdecimal():
        raise typer.BadParameter(f"slots must be a whole number, or `declared`, not {slots!r}")
    wanted = None if slots == "declared" else int(slots)
    _change(app, database, lambda backend: backend.resize_pool(pool, wanted), "", as_json=as_json)


@app.command()
def close(pool: Name, reason: Reason, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Refuse submits to all tools of a pool, with a sentence that says why. Jobs that exist go on."""
    brake(app, database, lambda backend: backend.close_pool(pool, reason=reason), as_json)


@app.command(name="open")
def open_(pool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Accept submits to a closed pool again."""
    brake(app, database, lambda backend: backend.open_pool(pool), as_json)


def _change(
    app: str | None,
    database: str | None,
    act: Callable[[Backend], Awaitable[Pool | PoolView]],
    sentence: str,
    *,
    as_json: bool,
) -> None:
    pool = on_backend(app, database, act)
    # A server reports the number of slots, but not how many the application declares.
    declared = {"declared": pool.slots} if isinstance(pool, Pool) else {}
    slots = pool.limit if isinstance(pool, Pool) else pool.slots
    if as_json:
        data({"name": pool.name, "slots": slots, **declared, "paused": pool.paused})
    else:
        echo(f"pool {pool.name} {sentence or ('has no limit' if slots is None else f'has {slots} slots')}")
