"""`ficha schedules`: lists recurring jobs, pauses, resumes and runs them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import typer

from ..engine.views import Page, ScheduleView
from .backend import Backend, on_backend
from .listing import listed
from .options import App, AsJson, Database
from .output import data, echo

app = typer.Typer(help="Recurring jobs: list, pause, resume, run now.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule.")]

COLUMNS: Final[dict[str, Callable[[ScheduleView], Any]]] = {
    "SCHEDULE": lambda one: one.name,
    "CRON": lambda one: one.cron,
    "ZONE": lambda one: one.tz,
    "TOOL": lambda one: one.tool,
    "ACCOUNT": lambda one: "free" if one.account is None else one.account,
    "STATE": lambda one: one.state,
    "NEXT": lambda one: one.next_at,
    "LAST": lambda one: None if one.last is None else one.last.at,
    "LED TO": lambda one: None if one.last is None else one.last.job_id or one.last.code,
    "FIRED": lambda one: one.fired,
    "REFUSED": lambda one: one.refused,
    "PASSED": lambda one: one.passed,
}


@app.command(name="list")
def list_(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List recurring jobs: when each is due next, and what its last time led to."""

    async def work(backend: Backend) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[ScheduleView]:
            return Page(await backend.schedules())

        await listed(all_of_them, COLUMNS, page=1, after=None, limit=1, as_json=as_json, nothing="no schedules")

    on_backend(app, database, work, needs="tools")


@app.command()
def pause(schedule: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Pause a schedule: its times pass without a job, and are not made up for."""
    _change(app, database, lambda backend: backend.pause_schedule(schedule), as_json=as_json)


@app.command()
def resume(schedule: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Resume a paused schedule, from its next time on."""
    _change(app, database, lambda backend: backend.resume_schedule(schedule), as_json=as_json)


@app.command()
def run(
    schedule: Name,
    key: Annotated[str | None, typer.Option("--key", help="Your name for this run; a repeat gets its job.")] = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Submit a schedule's job now, paused or not."""
    receipt = on_backend(app, database, lambda backend: backend.run_schedule(schedule, key=key), needs="tools")
    if as_json:
        data(receipt)
    else:
        echo(f"schedule {schedule}: job {receipt.job_id}{' (again)' if receipt.idempotent_hit else ''}")


def _change(
    app: str | None, database: str | None, act: Callable[[Backend], Awaitable[ScheduleView]], *, as_json: bool
) -> None:
    found = on_backend(app, database, act, needs="tools")
    if as_json:
        data(found)
    else:
        coming = "" if found.next_at is None else f"; next at {found.next_at:%Y-%m-%d %H:%M} UTC"
        echo(f"schedule {found.name} is {found.state}{coming}")
