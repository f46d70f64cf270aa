"""Checks that hints arrive: a pooler in transaction mode accepts a LISTEN and then passes nothing on. Nothing is lost,
since waiting tasks also poll; but they wait longer, and only the log can say why."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from .base import StoreError

log = logging.getLogger("ficha.store")

TOPIC: Final = "\x08check"
"""A topic that nobody waits for. No pool's name has a control character."""
TRIES: Final = 3
WAIT_S = 5.0
NOT_HEARD: Final = (
    "hints from other processes do not arrive: jobs and live updates wait for the next poll; set FICHA_LISTEN_URL to "
    "the database itself, past the pooler"
)


class HintCheck:
    """Sends a hint over a reader's connection and waits for it; logs a warning if it does not arrive."""

    def __init__(self, send: Callable[[Iterable[str]], Awaitable[None]]) -> None:
        self._send = send
        self._heard = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="ficha hint check")

    def heard(self) -> None:
        self._heard.set()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        unheard = 0
        while unheard < TRIES:
            with suppress(StoreError):
                await self._send([TOPIC])
                unheard += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await self._heard.wait()
                return
        log.warning(NOT_HEARD)
