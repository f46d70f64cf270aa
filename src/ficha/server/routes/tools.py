"""Tools: what can be submitted, with the payload's schema and the price."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec.structs import replace
from starlette.responses import Response

from ...core.commands import Braked
from ...core.visibility import is_for_plan, is_for_user
from ...engine.views import BrakeView, ToolView, Whole
from ...tools import Tool
from ..guard import AccountReader, Call
from ..openapi import gives
from ..responses import answer

routes = APIRouter(prefix="/api", tags=["jobs"])


@routes.get("/tools", summary="List tools")
@gives(Whole[ToolView])
async def tools(call: AccountReader) -> Response:
    """The tools that the caller may submit to, by name: a user's are those for users and for their plan."""
    # A tool never changes once it is declared, and making its schema takes longer than everything else here.
    known: dict[str, ToolView] = call.request.app.state.tools
    for name, tool in call.app.tools.items():
        if name not in known:
            known[name] = _told(tool)
    plan = await _plan(call)
    brakes = {(brake.kind, brake.name): brake for brake in await call.app.brakes()}
    every = [_braked(told, brakes) for _, told in sorted(known.items())]
    if call.sees_all:
        return answer(Whole(every))
    return answer(Whole([told for told in every if is_for_user(told.audience) and is_for_plan(told.plans, plan)]))


async def _plan(call: Call) -> str | None:
    """A user's plan, if some tool is limited to plans. None also for an account that is not open yet: a token may name
    one."""
    if call.owner is None or all(tool.plans is None for tool in call.app.tools.values()):
        return None
    account = await call.app.queries.account(call.owner)
    return None if account is None else account.plan


def _braked(told: ToolView, brakes: dict[tuple[Braked, str], BrakeView]) -> ToolView:
    """The tool with what is stopped of it now, or of its pool."""
    tool, pool = brakes.get(("tool", told.name)), brakes.get(("pool", told.pool))
    if tool is None and pool is None:
        return told
    closed = [brake.closed for brake in (tool, pool) if brake is not None and brake.closed is not None]
    return replace(told, paused=tool is not None and tool.paused, closed=closed[0] if closed else None)


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
        audience=tool.audience,
        plans=tool.plans,
    )
