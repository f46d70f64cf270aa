"""Room for suspects: jobs with a lost run, which a worker runs while it runs nothing else (see `core/suspects.py`).

An idle worker takes them as they come. If all workers are busy, one of them makes room: it claims nothing until its
runs have ended, and then takes the suspects. The others go on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from ..engine.engine import Engine
from ..engine.views import Lease
from ..errors import Refused
from ..operations.suspects import claim_suspects, has_made_room, makes_room
from ..store.base import StoreError

log = logging.getLogger("ficha.worker")

LOOK_S: Final = 15.0
"""How often a busy worker looks whether suspects wait."""
VAIN_S: Final = 15.0
"""How long a worker that has made room waits for suspects that it cannot claim, as their pool is full or paused. For
ten times as long it then makes no room again."""


class SuspectRoom:
    """Whether one worker makes room."""

    def __init__(self, engine: Engine, worker: str) -> None:
        self._engine = engine
        self._worker = worker
        self._look_at = time.monotonic() + LOOK_S
        self._empty_since: float | None = None
        self.is_made = False
        """Whether this worker claims nothing but suspects, and them once it runs nothing."""

    async def look(self, pools: Sequence[str]) -> None:
        """Looks now and then whether suspects wait for a worker to make room."""
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_S
        is_in_vain = self._empty_since is not None and now - self._empty_since >= VAIN_S
        if is_in_vain:
            self._look_at = now + 10 * VAIN_S
        try:
            makes = not is_in_vain and await makes_room(self._engine, pools, self._worker)
            if self.is_made and not makes:
                await self._end()
            self.is_made = makes
        except (Refused, StoreError) as error:
            log.debug("whether suspects wait is not known: %s", error)

    async def claim(self, pools: Sequence[str], limit: int) -> list[Lease]:
        """Claims suspects for this worker, which runs nothing."""
        leases = await claim_suspects(self._engine, pools, limit, self._worker)
        if not self.is_made:
            return leases
        if leases:
            await self._end()
        elif self._empty_since is None:
            self._empty_since = time.monotonic()
        return leases

    async def _end(self) -> None:
        self.is_made, self._empty_since = False, None
        await has_made_room(self._engine, self._worker)
