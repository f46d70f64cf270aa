"""The worker's wake-up event: set by one part, awaited by another, whose wait other causes may end too."""

from __future__ import annotations

import asyncio

from ..futures import wake


class WakeEvent:
    """Stays set until it is cleared. It has one waiter at a time."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Future[None] | None = None

    def set(self) -> None:
        self._is_set = True
        self.nudge()

    def nudge(self) -> None:
        """Wakes the waiter, if there is one, without setting the event."""
        if self._waiter is not None:
            wake(self._waiter)

    def clear(self) -> None:
        self._is_set = False

    def waiter(self) -> asyncio.Future[None]:
        """A future that is done once the event is set; anybody else may complete it with `wake`."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self._is_set:
            self._waiter.set_result(None)
        return self._waiter
