"""`ficha providers`: the state of external providers and their circuit breakers; `ficha margins`: what jobs earned and
cost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ..engine.views import MarginView, Page, ProviderView
from .backend import Backend, on_backend
from .listing import listed
from .options import App, AsJson, Database
from .output import data, echo

app = typer.Typer(help="External providers: list, open or reset a circuit breaker.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="PROVIDER", help="The provider.")]
Day = Annotated[datetime | None, typer.Option(formats=["%Y-%m-%d"], metavar="DAY", help="A day (UTC), 2026-03-31.")]

COLUMNS: Final[dict[str, Callable[[ProviderView], Any]]] = {
    "PROVIDER": lambda provider: provider.name,
    "BREAKER": lambda provider: provider.breaker,
    "FAILURES": lambda provider: provider.failures,
    "TRIPS": lambda provider: provider.trips,
    "DOWN SINCE": lambda provider: provider.down_since,
    "DOWN UNTIL": lambda provider: provider.down_until,
    "OUT": lambda provider: provider.turns,
    "WAIT": lambda provider: f"{provider.wait_s:.1f} s",
    "ERROR": lambda provider: provider.error,
}
MARGINS: Final[dict[str, Callable[[MarginView], Any]]] = {
    "DAY": lambda line: line.day.isoformat(),
    "TOOL": lambda line: line.tool,
    "PLAN": lambda line: line.plan,
    "JOBS": lambda line: line.jobs,
    "CREDITS": lambda line: line.credits,
    "PROVIDER COST": lambda line: f"{line.provider_cost:.6f}",
}


@app.command(name="list")
def list_(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List providers: circuit breaker, failures in a row, requests under way."""

    async def work(backend: Backend) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[ProviderView]:
            return Page(await backend.provider_states())

        await listed(all_of_them, COLUMNS, page=1, after=None, limit=1, as_json=as_json, nothing="no providers yet")

    on_backend(app, database, work, needs="settings")


@app.command(name="open")
def open_(
    provider: Name,
    seconds: Annotated[float, typer.Option(help="For how long; then a probe is sent.")] = 3_600.0,
    reason: Annotated[str | None, typer.Option(help="Why, for other operators.")] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Send nothing to a provider for a while."""
    act = lambda backend: backend.open_breaker(provider, seconds=seconds, reason=reason)  # noqa: E731
    _change(app, database, act, as_json=as_json)


@app.command()
def reset(provider: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Send requests to a provider again, at once."""
    _change(app, database, lambda backend: backend.reset_breaker(provider), as_json=as_json)


def _change(
    app: str | None, database: str | None, act: Callable[[Backend], Awaitable[ProviderView]], *, as_json: bool
) -> None:
    provider = on_backend(app, database, act, needs="settings")
    if as_json:
        data(provider)
    else:
        echo(f"the circuit breaker of provider {provider.name} is {provider.breaker}")


def margins(
    since: Day = None, until: Day = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Show what jobs earned and cost at their providers, by day (UTC), tool and plan; the last 30 days by default."""

    async def work(backend: Backend) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[MarginView]:
            days = (None if day is None else day.date() for day in (since, until))
            first, last = days
            return Page(await backend.margins(since=first, until=last))

        nothing = "no job of these days has a provider's cost"
        await listed(all_of_them, MARGINS, page=1, after=None, limit=1, as_json=as_json, nothing=nothing)

    on_backend(app, database, work)
