"""`ficha tools`: lists an application's tools, with names, prices, fields and each payload's JSON Schema; and pauses or
closes one, in all processes at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from ..engine.views import BrakeView
from ..operations import BoundOperations
from ..tools import Tool
from .backend import Backend, Needs, application, on_backend, server_of
from .options import App, AsJson, Database
from .output import data, echo, table

app = typer.Typer(help="Tools: list, pause, resume, close, open.", invoke_without_command=True)

Name = Annotated[str, typer.Argument(metavar="TOOL", help="The tool.")]
Reason = Annotated[str, typer.Option("--reason", help="Why: a sentence for those who submit.")]


@app.callback()
def tools(context: typer.Context, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List the application's tools; with --json, each with its payload's JSON Schema."""
    if context.invoked_subcommand is None:
        list_(app, database, as_json)


@app.command()
def pause(tool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Start no more jobs of a tool; running ones go on, waiting ones keep their order."""
    brake(app, database, lambda backend: backend.pause_tool(tool), as_json, needs="tools")


@app.command()
def resume(tool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Start jobs of a paused tool again."""
    brake(app, database, lambda backend: backend.resume_tool(tool), as_json, needs="tools")


@app.command()
def close(tool: Name, reason: Reason, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Refuse submits to a tool, with a sentence that says why. Jobs that exist go on."""
    brake(app, database, lambda backend: backend.close_tool(tool, reason=reason), as_json, needs="tools")


@app.command(name="open")
def open_(tool: Name, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Accept submits to a closed tool again."""
    brake(app, database, lambda backend: backend.open_tool(tool), as_json, needs="tools")


def brake(
    app: str | None,
    database: str | None,
    act: Callable[[Backend], Awaitable[BrakeView]],
    as_json: bool,
    needs: Needs = "database",
) -> None:
    """Does the act and tells what is stopped now."""
    told = on_backend(app, database, act, needs=needs if server_of(database) is None else "database")
    if as_json:
        data(told)
        return
    state = "takes no submits" if told.closed else "takes submits"
    paused = " and is paused" if told.paused else " and is not paused" if told.kind == "tool" else ""
    echo(f"{told.kind} {told.name} {state}{paused}{'' if told.closed is None else f': {told.closed}'}")


@app.command(name="list")
def list_(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List the application's tools; with --json, each with its payload's JSON Schema."""
    if server_of(database) is None:
        found, _ = application(app, database, "tools")
        known = [_described(found.tools[name]) for name in sorted(found.tools)]
    else:
        known = on_backend(app, database, _served)
    if as_json:
        for tool in known:
            data(tool)
    elif known:
        table(
            ["TOOL", "POOL", "COST", "FIELDS"],
            [
                [
                    tool["name"],
                    tool["pool"],
                    "by payload" if tool["cost"] is None else tool["cost"],
                    ", ".join(tool["schema"].get("properties", {})),
                ]
                for tool in known
            ],
        )
    else:
        echo("the application declares no tools")


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "pool": tool.pool,
        "cost": None if callable(tool.cost) else tool.cost,
        "timeout": tool.timeout,
        "attempts": tool.attempts,
        "schema": tool.schema(),
    }


async def _served(backend: Backend) -> list[dict[str, Any]]:
    assert not isinstance(backend, BoundOperations)
    return [
        {
            "name": tool.name,
            "pool": tool.pool,
            "cost": tool.price,
            "timeout": tool.timeout_s,
            "attempts": tool.attempts,
            "schema": tool.schema,
        }
        for tool in await backend.tools()
    ]
