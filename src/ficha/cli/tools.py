"""`ficha tools`: what an application sells: names, prices, fields, and the JSON Schema of each payload."""

from __future__ import annotations

from typing import Any

from ..tools import Tool
from .desk import application
from .options import App, AsJson, Database
from .output import data, table, words


def tools(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List the application's tools; with --json, each with its payload's JSON Schema."""
    found, _ = application(app, database, "tools")
    known = [found.tools[name] for name in sorted(found.tools)]
    if as_json:
        for tool in known:
            data(_described(tool))
    elif known:
        table(
            ["TOOL", "POOL", "COST", "FIELDS"],
            [[tool.name, tool.pool, _cost(tool), ", ".join(tool.schema().get("properties", {}))] for tool in known],
        )
    else:
        words("the application declares no tools")


def _described(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "pool": tool.pool,
        "cost": None if callable(tool.cost) else tool.cost,
        "timeout": tool.timeout,
        "attempts": tool.attempts,
        "schema": tool.schema(),
    }


def _cost(tool: Tool) -> str:
    return "by payload" if callable(tool.cost) else str(tool.cost)
