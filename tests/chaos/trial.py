"""One load under one fault."""

from __future__ import annotations

from tests.chaos.faults import Fault
from tests.chaos.supervisor import Load, Verdict


async def under(fault: Fault, seconds: float, load: Load) -> tuple[int, Verdict]:
    """How often the fault struck, and what came of the load."""
    async with load:
        struck = await fault(load, seconds)
        return struck, await load.finish()
