"""Brakes: an operator pauses a tool, or closes a tool or a pool to submits, in all processes at once."""

from __future__ import annotations

from .. import validation as arg
from ..core.commands import Braked, CloseSubmits, PauseTool
from ..core.outcomes import BrakeChanged, Refusal
from ..engine.brakes import settle
from ..engine.views import BrakeView, brake_view, brake_views
from ..errors import Refused
from ..store.base import ListBrakes, ListPools
from .base import Operations


class BrakeOperations(Operations):
    async def brakes(self) -> list[BrakeView]:
        """All tools and pools of which something is stopped, by kind and name."""
        return brake_views(await self.engine.read(ListBrakes()))

    async def pause_tool(self, tool: str) -> BrakeView:
        """Starts no more jobs of a tool; running ones go on. Submits are accepted, and their jobs wait.

        Every worker obeys from its next claim on. The call then takes the waiting jobs out of their queue, so that jobs
        of other tools do not stand behind them.
        """
        return await self._pause_tool(tool, True)

    async def resume_tool(self, tool: str) -> BrakeView:
        """Starts jobs of a paused tool again, in the order in which they would have been started."""
        return await self._pause_tool(tool, False)

    async def close_tool(self, tool: str, *, reason: str) -> BrakeView:
        """Refuses submits to a tool (`TOOL_CLOSED`) until `open_tool`. Jobs that exist go on.

        reason: a sentence for those who submit.
        """
        return await self._close_submits("tool", self._known_tool(tool), _sentence(reason))

    async def open_tool(self, tool: str) -> BrakeView:
        """Accepts submits to a tool again."""
        return await self._close_submits("tool", self._known_tool(tool), None)

    async def close_pool(self, pool: str, *, reason: str) -> BrakeView:
        """Refuses submits to all tools of a pool (`TOOL_CLOSED`) until `open_pool`. Jobs that exist go on.

        reason: a sentence for those who submit.
        """
        return await self._close_submits("pool", arg.name(pool, "a pool"), _sentence(reason))

    async def open_pool(self, pool: str) -> BrakeView:
        """Accepts submits to a pool again."""
        return await self._close_submits("pool", arg.name(pool, "a pool"), None)

    async def _close_submits(self, kind: Braked, name: str, reason: str | None) -> BrakeView:
        changed = await self._ask(CloseSubmits(kind, name, reason), BrakeChanged)
        return brake_view(kind, name, changed.brake)

    async def _pause_tool(self, tool: str, paused: bool) -> BrakeView:
        named = self._known_tool(tool)
        pools = await self.engine.read(ListPools(count_waiting=False))
        command = PauseTool(named, tuple(counts.pool.name for counts in pools), paused)
        changed = await self._ask(command, BrakeChanged)
        await settle(self.engine)
        return brake_view("tool", named, changed.brake)

    def _known_tool(self, tool: str) -> str:
        named = arg.name(tool, "a tool")
        if named not in self.tools:
            known = ", ".join(sorted(self.tools)) or "none"
            raise Refused.of(Refusal("UNKNOWN_TOOL", f"there is no tool {named!r}; declared are: {known}."))
        return named


def _sentence(reason: str) -> str:
    words = arg.reason(reason).strip()
    return words if words[-1] in ".!?" else f"{words}."
