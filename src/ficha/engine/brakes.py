"""Sees to the waiting jobs of tools that were paused or resumed: holds them back, or lets them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..core.commands import HoldBack, SettleTool
from ..core.outcomes import HeldBack
from ..core.records import Brake
from ..store.base import JobMatch, ListBrakes, SearchJobs

if TYPE_CHECKING:
    from .engine import Engine

STEP: Final = 500
"""How many jobs are moved at a time."""
SEARCHED: Final = 5_000
"""How many waiting jobs are looked at for them at a time."""


async def settle(engine: Engine) -> int:
    """Does what is left to do for all tools; returns how many jobs were moved. Two processes do no harm to each
    other, and what one has left another does."""
    moved = 0
    for brake in await engine.store.read(ListBrakes()):
        if not brake.settled:
            moved += await _settle(engine, brake)
    return moved


async def _settle(engine: Engine, brake: Brake) -> int:
    tool = brake.name.partition(" ")[2]
    match = JobMatch(tools=(tool,), statuses=("queued",))
    moved, before = 0, None
    while True:
        part = await engine.store.read(SearchJobs(match, 0, before, STEP, SEARCHED))
        outcomes = await engine.call_many([HoldBack(job.id, job.spec.pool) for job in part.jobs])
        moved += sum(isinstance(outcome, HeldBack) and outcome.changed for outcome in outcomes)
        if part.stopped is None:
            await engine.call(SettleTool(tool, brake.since_at, brake.paused))
            return moved
        before = part.stopped
