"""A bell: what one part of the worker rings when something has happened, and another waits for."""

from __future__ import annotations

import asyncio


class WakeEvent:
    """Stays rung until it is hushed. One at a time waits for it."""

    __slots__ = ("_is_rung", "_waiter")

    def __init__(self) -> None:
        self._is_rung = False
        self._waiter: asyncio.Future[None] | None = None

    def ring(self) -> None:
        self._is_rung = True
        if self._waiter is not None:
            wake(self._waiter)

    def hush(self) -> None:
        self._is_rung = False

    def waiter(self) -> asyncio.Future[None]:
        """Done when the bell rings, or at once if it has rung; others may wake it as well."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self._is_rung:
            self._waiter.set_result(None)
        return self._waiter


def wake(waiter: asyncio.Future[None], *_: object) -> None:
    if not waiter.done():
        waiter.set_result(None)
