"""The base of what a worker runs beside its jobs: finds items that are due, holds them, and runs many at a time.

An item is held until a time in the database. If the process dies, the hold expires, and another process takes the item.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any, ClassVar, Final

from ..backoff import away_pause_s
from ..errors import Refused
from ..futures import stop_tasks
from ..store.base import StoreError

log = logging.getLogger("ficha.worker")

POLL_S = 5.0
"""How often due items are looked for without a wake-up, because wake-ups are only hints."""
STOPPING_S: Final = 2.0
"""How long items under way may take to end when the worker stops."""


class DueRunner:
    """Runs due items until cancelled. A subclass defines what is due (`_begin`) and how to wait for a wake-up
    (`_heard`, `_wait_for_word`)."""

    what: ClassVar[str]
    """The plural of its items, for the log."""
    worker: str | None = None
    """The name of its worker, for the log."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Any] = {}
        """The tasks under way, each with its item."""
        self._look_at = float("inf")
        """When to look again without a wake-up, such as for the retry of an item that failed here."""
        self._is_waiting = False
        self._changed = asyncio.Event()
        """Set when a task has ended since the last look, or when `_look_at` has moved to an earlier time."""

    async def run(self) -> None:
        """Runs until cancelled; then items under way have `STOPPING_S` to end."""
        tries = 0
        try:
            while True:
                heard = self._heard()
                try:
                    await self._look()
                    await self._tidy()
                    tries = 0
                except (Refused, StoreError) as error:
                    tries += 1
                    self._complain(error)
                    await asyncio.sleep(away_pause_s(tries))
                    continue
                await self._wait(heard)
        finally:
            await stop_tasks(self._tasks, STOPPING_S)

    async def drain(self, within_s: float = 0.0) -> int:
        """Runs all items that are due now or become due meanwhile, and those that `_due_in_s` expects within
        `within_s`; returns how many it started."""
        ends_at = time.monotonic() + within_s
        begun = 0
        try:
            while True:
                begun += await self._look()
                if self._tasks:
                    await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                    continue
                due_s = self._due_in_s()
                if time.monotonic() + due_s > ends_at:
                    return begun
                await asyncio.sleep(due_s)
        except (Refused, StoreError) as error:
            self._complain(error)
            return begun
        finally:
            await stop_tasks(self._tasks, STOPPING_S)

    # What subclasses define

    async def _begin(self) -> int:
        """Holds and starts due items, as many as may be under way; returns how many."""
        raise NotImplementedError

    def _heard(self) -> int:
        """What to pass to `_wait_for_word` as `since`."""
        raise NotImplementedError

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        """Returns when a wake-up announces more items, or the time is up."""
        raise NotImplementedError

    async def _tidy(self) -> None:
        """Other work to be done after each look."""

    def _due_in_s(self) -> float:
        """How many seconds until the next item that `drain` should wait for falls due."""
        return float("inf")

    # For subclasses

    def _start(self, running: Coroutine[Any, Any, None], about: Any) -> None:
        task = asyncio.create_task(running, name=f"ficha {self.what}")
        self._tasks[task] = about
        task.add_done_callback(self._end)

    def _look_within(self, seconds: float) -> None:
        """Has the runner look again within this time."""
        at = time.monotonic() + seconds
        if at < self._look_at:
            self._look_at = at
            if self._is_waiting:
                self._changed.set()

    async def _look(self) -> int:
        self._changed.clear()
        if time.monotonic() >= self._look_at:
            self._look_at = float("inf")
        return await self._begin()

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._changed.set()

    async def _wait(self, heard: int) -> None:
        """Waits until a wake-up comes, an item under way ends, or it is time to look."""
        wait_s = max(0.0, min(POLL_S, self._look_at - time.monotonic()))
        waits = [
            asyncio.create_task(self._wait_for_word(wait_s, heard)),
            asyncio.create_task(self._changed.wait()),
        ]
        self._is_waiting = True
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_waiting = False
            for wait in waits:
                wait.cancel()

    def _complain(self, error: Exception) -> None:
        log.warning("%s could not be looked for: %s", self.what, error)
