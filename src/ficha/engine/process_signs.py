"""What the processes of a deployment show each other: which secret they have, and whose clock is wrong.

A sign is a row of `leaders`, which any process may take once it has run out. There is one for each secret in use, under
a fingerprint of it, and one for each host whose clock is apart from the database's: a few rows, however many processes
there are. `ficha doctor` reads them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from ..core.commands import Elect
from ..core.policy import SECOND
from ..store.base import GetDue, StoreError

if TYPE_CHECKING:
    from .engine import Engine

log = logging.getLogger("ficha.engine")

SECRET: Final = "secret of: "  # noqa: S105 (the beginning of a name)
CLOCK: Final = "clock of: "
SHOWN_S: Final = 60.0
"""How often a process shows its signs."""
KEPT_S: Final = 180.0
"""How long a sign counts."""
APART_S: Final = 1.0
"""A clock that is less apart is not shown."""


class ProcessSigns:
    """One per process that serves or works.

    host: the machine's name. fingerprint: of the secret, made with it; None without one.
    """

    def __init__(self, engine: Engine, host: str, fingerprint: str | None) -> None:
        self._engine = engine
        self._host = host
        self._fingerprint = fingerprint

    async def run(self) -> None:
        while True:
            try:
                await self.show()
            except StoreError as error:
                log.debug("the signs of this process could not be shown: %s", error)
            await asyncio.sleep(SHOWN_S)

    async def show(self) -> None:
        if self._fingerprint is not None:
            await self._engine.call(Elect(f"{SECRET}{self._fingerprint}", self._host, int(KEPT_S * 1_000)))
        if abs(apart_s := await self._apart_s()) >= APART_S:
            # It runs out at once, so that the next one takes its place.
            await self._engine.call(Elect(f"{CLOCK}{self._host}", f"{apart_s:+.1f}", 1))

    async def _apart_s(self) -> float:
        """How far this machine's clock is ahead of the database's, at least."""
        asked_at = time.time_ns() // 1_000
        theirs = (await self._engine.store.read(GetDue(0, 0, limit=1))).now
        answered_at = time.time_ns() // 1_000
        return (max(asked_at - theirs, 0) - max(theirs - answered_at, 0)) / SECOND
