"""Listens for hints that a pool has ready jobs, over a connection of its own.

A lost hint does no harm, because whoever waits for jobs also polls. So after a lost connection the listener raises no
error and connects again after a while.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from .connections import DRIVER_ERRORS, Connect, Connection

CHANNEL: Final = "ficha.hints"
_PROBE_S: Final = 30.0
"""How often to check that the connection still works."""
_BACKOFF_S: Final = (0.5, 30.0)


class Listener:
    """One LISTEN, until it is closed. The channel's name contains the schema's, so it has no hints of other schemas."""

    def __init__(self, connect: Connect, channel: str, heard: Callable[[str], None]) -> None:
        self._connect = connect
        self._channel = channel
        self._heard = heard
        self._tried = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="ficha listener")

    async def ready(self) -> None:
        """Returns after the first attempt to connect, successful or not."""
        await self._tried.wait()

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                connection = await self._connect()
                failures = 0
                await self._listen(connection)
            except DRIVER_ERRORS:
                failures += 1
            finally:
                self._tried.set()
            first, most = _BACKOFF_S
            await asyncio.sleep(random.uniform(0, min(most, first * 2**failures)))  # noqa: S311 (spreads, hides nothing)

    async def _listen(self, connection: Connection) -> None:
        """Listens until the connection fails."""
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        try:
            await connection.add_listener(self._channel, self._on_notify)
            self._tried.set()
            while True:
                with suppress(TimeoutError):
                    # (In Python 3.11 `wait_for` forgets a cancellation that comes together with what it waits for.)
                    async with asyncio.timeout(_PROBE_S):
                        await lost.wait()
                    return
                await connection.execute("SELECT 1", timeout=10)
        finally:
            connection.terminate()

    def _on_notify(self, connection: Any, pid: int, channel: str, payload: Any) -> None:
        self._heard(str(payload))
