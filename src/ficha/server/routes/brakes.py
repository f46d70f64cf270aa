"""Brakes: an admin pauses a tool, or closes a tool or a pool to submits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ...core import commands as c
from ...engine.views import BrakeView, Whole
from .. import wire as s
from ..guard import Admin, Viewer
from ..openapi import gives
from ..request_body import body
from ..responses import answer

routes = APIRouter(prefix="/api/admin", tags=["admin"])


@routes.get("/brakes", summary="List what is stopped")
@gives(Whole[BrakeView])
async def brakes(call: Viewer) -> Response:
    """The tools that are paused, and the tools and pools that take no submits."""
    return answer(Whole(await call.app.brakes()))


@routes.post("/tools/{tool:ficha_name}/pause", summary="Start nothing new of a tool")
@gives(BrakeView, c.PauseTool, "UNKNOWN_TOOL")
async def pause_tool(call: Admin, tool: str) -> Response:
    """Running jobs go on, waiting ones keep their order. Submits are accepted."""
    return answer(await call.acting.pause_tool(tool))


@routes.post("/tools/{tool:ficha_name}/resume", summary="Start jobs of a tool again")
@gives(BrakeView, c.PauseTool, "UNKNOWN_TOOL")
async def resume_tool(call: Admin, tool: str) -> Response:
    return answer(await call.acting.resume_tool(tool))


@routes.post("/tools/{tool:ficha_name}/close", summary="Refuse submits to a tool")
@gives(BrakeView, c.CloseSubmits, "UNKNOWN_TOOL")
async def close_tool(call: Admin, tool: str, asked: Annotated[s.CloseBody, body(s.CloseBody)]) -> Response:
    """The reason is for those who submit. Jobs that exist go on."""
    return answer(await call.acting.close_tool(tool, reason=asked.reason))


@routes.post("/tools/{tool:ficha_name}/open", summary="Accept submits to a tool again")
@gives(BrakeView, c.CloseSubmits, "UNKNOWN_TOOL")
async def open_tool(call: Admin, tool: str) -> Response:
    return answer(await call.acting.open_tool(tool))


@routes.post("/pools/{pool:ficha_name}/close", summary="Refuse submits to a pool")
@gives(BrakeView, c.CloseSubmits)
async def close_pool(call: Admin, pool: str, asked: Annotated[s.CloseBody, body(s.CloseBody)]) -> Response:
    """Submits to all tools of the pool are refused. The reason is for those who submit. Jobs that exist go on."""
    return answer(await call.acting.close_pool(pool, reason=asked.reason))


@routes.post("/pools/{pool:ficha_name}/open", summary="Accept submits to a pool again")
@gives(BrakeView, c.CloseSubmits)
async def open_pool(call: Admin, pool: str) -> Response:
    return answer(await call.acting.open_pool(pool))
