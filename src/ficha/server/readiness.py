"""Whether this process can serve: a submit's needs are tried in the background, and the probe tells what was found."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ..engine.write_probe import EVERY_S, WriteProbe

if TYPE_CHECKING:
    from ..app import Ficha
    from ..store.base import StoreError

log = logging.getLogger("ficha.server")


class Readiness:
    """Looks every few seconds, from `start` to `stop`.

    problem: why a submit would fail, as it was found last.
    """

    def __init__(self, app: Ficha) -> None:
        self._app = app
        self._task: asyncio.Task[None] | None = None
        self._probe: WriteProbe | None = None
        self.problem: StoreError | None = None

    async def start(self) -> None:
        """Returns once it has looked for the first time."""
        await self._look()
        self._task = asyncio.create_task(self._run(), name="ficha readiness")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            if self._app.is_open:
                await self._look()

    async def _look(self) -> None:
        # Whoever hosts the application may have closed it and opened it again.
        if self._probe is None or self._probe.engine is not self._app.engine:
            self._probe = WriteProbe(self._app.engine)
        before, self.problem = self.problem, await self._probe.problem()
        if self.problem is not None and (before is None or before.says != self.problem.says):
            log.warning("not ready: %s", self.problem)
        elif self.problem is None and before is not None:
            log.info("ready again")
