"""A peer's worker in a process of its own: connected when it starts, working when it is asked to."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

from .loops import LOOPS
from .peer import Peer, Tally
from .processes import say, serve


class WorkerSide:
    """begin: works from now on; with `tells`, it also says when each handler started. so_far: how many jobs have
    ended. end: stops, and says that again with all of them durable."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._tally = Tally()
        self._cpu_at = 0.0
        self._working = AsyncExitStack()

    async def begin(self, *, tells: bool = False) -> None:
        if tells:
            self._peer.began = _tell
        self._cpu_at = time.process_time()
        await self._working.enter_async_context(self._peer.working(self._tally))

    async def so_far(self) -> int:
        return self._tally.count

    async def end(self) -> dict[str, Any]:
        await self._working.aclose()
        found = {
            "count": self._tally.count,
            "last_at": self._tally.last_at,
            "cpu_s": time.process_time() - self._cpu_at,
        }
        self._tally = Tally()
        return found


def _tell() -> None:
    say(time.monotonic())


async def main(module: str, name: str, url: str, setting: str) -> None:
    peer: Peer = getattr(importlib.import_module(module), name)()
    peer.setting = int(setting)
    await peer.reopen(url)
    peer.started()
    side = WorkerSide(peer)
    await serve(begin=side.begin, so_far=side.so_far, end=side.end)
    await peer.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main(*sys.argv[2:]))
