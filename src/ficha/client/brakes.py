"""Brakes: pausing a tool, closing a tool or a pool to submits."""

from __future__ import annotations

from .. import validation as arg
from ..core.commands import Braked
from ..engine.views import BrakeView, Whole
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, segment


class BrakeMethods(RequestMethods):
    @operation
    def brakes(self) -> Flow[list[BrakeView]]:
        """The tools that are paused, and the tools and pools that take no submits."""
        return (yield from self.get("/api/admin/brakes", Whole[BrakeView])).items

    @operation
    def pause_tool(self, tool: str) -> Flow[BrakeView]:
        """Starts nothing new of the tool; running jobs go on, waiting ones keep their order."""
        return self.post(_of("tool", tool, "pause"), BrakeView, harmless=True)

    @operation
    def resume_tool(self, tool: str) -> Flow[BrakeView]:
        """Starts jobs of the tool again."""
        return self.post(_of("tool", tool, "resume"), BrakeView, harmless=True)

    @operation
    def close_tool(self, tool: str, *, reason: str) -> Flow[BrakeView]:
        """Refuses submits to the tool; `reason` is a sentence for those who submit."""
        return self.post(_of("tool", tool, "close"), BrakeView, {"reason": reason}, harmless=True)

    @operation
    def open_tool(self, tool: str) -> Flow[BrakeView]:
        """Accepts submits to the tool again."""
        return self.post(_of("tool", tool, "open"), BrakeView, harmless=True)

    @operation
    def close_pool(self, pool: str, *, reason: str) -> Flow[BrakeView]:
        """Refuses submits to all tools of the pool; `reason` is a sentence for those who submit."""
        return self.post(_of("pool", pool, "close"), BrakeView, {"reason": reason}, harmless=True)

    @operation
    def open_pool(self, pool: str) -> Flow[BrakeView]:
        """Accepts submits to the pool again."""
        return self.post(_of("pool", pool, "open"), BrakeView, harmless=True)


def _of(kind: Braked, name: str, what: str) -> str:
    return f"/api/admin/{kind}s/{segment(arg.name(name, f'a {kind}'))}/{what}"
