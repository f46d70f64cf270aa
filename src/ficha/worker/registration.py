"""A worker's word about itself: that it is there, and at the end that it has gone."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final

from msgspec.structs import replace

from ..core.commands import RegisterWorker
from ..operations import LeaseOperations

log = logging.getLogger("ficha.worker")

WORD_S: Final = 2.0
FAREWELL_S: Final = 0.5
"""What a word, and the last one, may take at most: nothing that matters waits for them."""


def worker_name(given: str | None = None) -> str:
    """The name given, else that of the environment, else the host's with the process id."""
    return given or os.environ.get("WORKER_ID") or f"{socket.gethostname()}-{os.getpid()}"


class Registration:
    """Says so whenever it is asked to. A word that does not get through is said again by the next one."""

    def __init__(self, name: str, pools: tuple[str, ...], concurrency: int, heartbeat_s: float) -> None:
        heartbeat_ms = max(1, round(heartbeat_s * 1_000))
        self._word = RegisterWorker(
            name, socket.gethostname(), os.getpid(), pools, concurrency, version("ficha"), heartbeat_ms
        )

    @asynccontextmanager
    async def announced(self, operations: LeaseOperations) -> AsyncIterator[None]:
        """Meanwhile somebody else lets it say that it is there; at the end it says that it has gone."""
        try:
            yield
        finally:
            await self.say(operations, stops=True)

    async def say(self, operations: LeaseOperations, *, stops: bool = False) -> None:
        try:
            async with asyncio.timeout(FAREWELL_S if stops else WORD_S):
                worker = await operations.register_worker(replace(self._word, stops=stops))
        except Exception as error:
            log.debug("the worker's word about itself may not have been kept: %r", error)
        else:
            self._word = replace(self._word, started_at=worker.started_at)
