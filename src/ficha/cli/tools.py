"""`ficha tools`: lists an application's tools: names, prices, fields, and each payload's JSON Schema."""

from __future__ import annotations

from typing import Any

from ..operations import BoundOperations
from ..tools import Tool
from .backend import Backend, application, on_backend, server_of
from .options import App, AsJson, Database
from .output import data, echo, table


def tools(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
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
