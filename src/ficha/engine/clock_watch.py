"""Looks at this process's clock, where the database has none of its own, and says so when it may be wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from ..core.clock_check import ClockCheck
from ..store.base import ClockDoubted, HasOwnClocks

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

PAUSE_S: Final = 0.25
"""How often whoever waits for the clock to be trusted looks at it."""


class ClockWatch:
    """One per engine. A doubt ends after half a lease without a disagreement: a worker renews its leases at least three
    times in a whole one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._check = ClockCheck(engine.policy.lease_ms / 2_000)

    async def is_doubted(self) -> bool:
        """Whether nothing may be done by this process's clock now. A doubt is logged as it begins and ends."""
        store = self._engine.store
        if not isinstance(store, HasOwnClocks) or (look := await store.look_at_clock(self._check.seen)) is None:
            return False
        before, hold_s = self._check.doubt, self._check.hold_s
        doubt = self._check.judge(look)
        if doubt is not None and before is None:
            log.warning(
                "no job is recovered and no schedule fires until nothing has spoken against this process's clock for "
                "%.3g s: %s. If this stays so, set the time of the processes right",
                hold_s,
                doubt,
            )
        elif doubt is None and before is not None:
            log.warning("sweeps go on: for %.3g s nothing spoke against this process's clock", hold_s)
        return doubt is not None

    async def trusted(self, within_s: float = float("inf")) -> None:
        """Returns as soon as this process may act by its clock, or raises ClockDoubted: after `within_s`, or after
        hardly longer than a doubt lasts that nothing renews."""
        ends_at = time.monotonic() + min(within_s, self._check.hold_s + 2 * PAUSE_S)
        while await self.is_doubted():
            if (left_s := ends_at - time.monotonic()) <= 0:
                raise ClockDoubted(f"nothing is done by this process's clock now: {self._check.doubt}")
            await asyncio.sleep(min(left_s, PAUSE_S))
