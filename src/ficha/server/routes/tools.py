"""Tools: what can be submitted, with the payload's schema and the price."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from ...engine.views import ToolView, Whole
from ...tools import Tool
from ..guard import Account
from ..openapi import gives
from ..responses import answer

routes = APIRouter(prefix="/api", tags=["jobs"])


@routes.get("/tools", summary="List tools")
@gives(Whole[ToolView])
async def tools(call: Account) -> Response:
    """All tools, by name."""
    # A tool never changes once it is declared, and to make its schema takes longer than all else here.
    known: dict[str, ToolView] = call.request.app.state.tools
    for name, tool in call.app.tools.items():
        if name not in known:
            known[name] = _told(tool)
    return answer(Whole([told for _, told in sorted(known.items())]))


def _told(tool: Tool) -> ToolView:
    schema = tool.schema()
    return ToolView(
        name=tool.name,
        description=schema.get("description"),
        pool=tool.pool,
        schema=schema,
        price=tool.cost if isinstance(tool.cost, int) else None,
        timeout_s=tool.timeout,
        max_wait_s=tool.max_wait,
        attempts=tool.attempts,
        max_items=tool.max_items,
        dedupe=tool.dedupe,
    )
