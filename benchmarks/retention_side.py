"""A process that prunes: as the one that leads does, a page a turn, or by hand, as fast as it may."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Final

import uvloop

from ficha import Ficha, Retention

from .endurance.application import application
from .processes import serve

AGE_DAYS: Final = 5
TURN_S: Final = 1.0
"""How often the process that leads takes its turn."""


class Pruner:
    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()
        self._task: asyncio.Task[None] | None = None

    async def start(self, by_hand: bool) -> None:
        """Begins to prune; it goes on until `stop`."""
        terms = Retention(jobs=AGE_DAYS, by_itself=False)
        app = await self._stack.enter_async_context(application(self._url, retention=terms))
        self._task = asyncio.create_task(self._prune(app, by_hand))

    async def _prune(self, app: Ficha, by_hand: bool) -> None:
        if by_hand:
            await app.prune()
            return
        while True:
            await app.prune_step()
            await asyncio.sleep(TURN_S)

    async def stop(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stack.aclose()


async def main(url: str) -> None:
    pruner = Pruner(url)
    await serve(start=pruner.start, stop=pruner.stop)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
