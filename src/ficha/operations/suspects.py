"""Claims of suspects (see `core/suspects.py`): by a worker that runs nothing else, which takes nothing beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..core import commands as c
from ..core.outcomes import Claimed, Elected
from ..core.suspects import taken_together
from ..engine.engine import Engine
from ..engine.views import Lease
from ..store.base import GetCompany, ListSuspects

ROOM_DUTY: Final = "suspects"
"""Only one busy worker at a time makes room for suspects; the others go on."""
ROOM_MS: Final = 60_000
"""How long a worker that makes room is waited for, from its last word on."""


async def claim_suspects(
    engine: Engine, pools: Sequence[str], limit: int, worker: str, *, starts: bool = True
) -> list[Lease]:
    """Claims the best suspect, or several that may run together. Only for a worker that holds nothing."""
    waiting = await engine.store.read(ListSuspects(tuple(pools), limit))
    while waiting:
        taken = taken_together(engine.policy, waiting, limit)
        outcomes = await engine.call_many([c.ClaimJob(worker, one.pool, one.job_id, starts) for one in taken])
        claimed = [Lease.of(lease) for outcome in outcomes if isinstance(outcome, Claimed) for lease in outcome.leases]
        if claimed:
            return claimed
        # Their pool is full or paused, or an equal job runs, or has a result that answers them.
        await engine.call_many([c.Recover(one.job_id) for one in taken])
        waiting = [one for one in waiting if one not in taken]
    return []


async def makes_room(engine: Engine, pools: Sequence[str], worker: str) -> bool:
    """Whether suspects wait, and this worker is the one to end what it runs and take them."""
    if not await engine.store.read(ListSuspects(tuple(pools), 1)):
        return False
    outcome = await engine.call(c.Elect(ROOM_DUTY, worker, ROOM_MS))
    return isinstance(outcome, Elected) and outcome.leads


async def has_made_room(engine: Engine, worker: str) -> None:
    """Lets another worker make room."""
    await engine.call(c.Elect(ROOM_DUTY, worker, 0))


async def claimed_apart(
    engine: Engine, pools: Sequence[str], limit: int, worker: str, *, starts: bool
) -> list[Lease] | None:
    """What a worker gets that does not know about suspects, such as a remote one; None: as many other jobs as it asked
    for. What it holds is known by its name."""
    company = await engine.store.read(GetCompany(worker))
    if company.suspects:
        return []
    if company.held:
        return [] if await makes_room(engine, pools, worker) else None
    return await claim_suspects(engine, pools, limit, worker, starts=starts) or None
