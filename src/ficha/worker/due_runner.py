"""What runs beside the jobs of a worker: it looks for what is due, takes it, and runs it, many at a time.

What is taken is held by a time in the database. If the process dies, that time comes, and another one takes it.
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
"""Wake-ups are only hints, so what is due is also looked for this often."""
STOPPING_S: Final = 2.0
"""How long what is under way may take to end when the worker stops."""


class DueRunner:
    """Runs what is due until cancelled. Its kinds say what that is (`_begin`) and who tells of more (`_heard`,
    `_wait_for_word`)."""

    what: ClassVar[str]
    """What it looks for, as the log calls it."""
    worker: str | None = None
    """The worker that it runs beside, for the log."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], Any] = {}
        """What is under way, and what each is about."""
        self._look_at = float("inf")
        """When something falls due of which nobody tells, such as another try of what failed here."""
        self._is_waiting = False
        self._changed = asyncio.Event()
        """Whether something has ended since the last look, or falls due sooner than what is waited for."""

    async def run(self) -> None:
        """Until cancelled; what is under way may still end, within a little while."""
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
        """Runs all that is due by now, what becomes due meanwhile, and what a burst waits for that falls due within so
        many seconds; returns how much that was."""
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

    # Of each kind

    async def _begin(self) -> int:
        """Takes what is due, as much as may be under way, and starts it; returns how much that was."""
        raise NotImplementedError

    def _heard(self) -> int:
        """What to pass to `_wait_for_word`."""
        raise NotImplementedError

    async def _wait_for_word(self, timeout_s: float, since: int) -> bool:
        """Returns when somebody tells of more, or the time is up."""
        raise NotImplementedError

    async def _tidy(self) -> None:
        """What else is to be done now and then."""

    def _due_in_s(self) -> float:
        """In how many seconds something falls due that a burst waits for."""
        return float("inf")

    # For all kinds

    def _start(self, running: Coroutine[Any, Any, None], about: Any) -> None:
        task = asyncio.create_task(running, name=f"ficha {self.what}")
        self._tasks[task] = about
        task.add_done_callback(self._end)

    def _look_within(self, seconds: float) -> None:
        """Looks again after so long, if not before."""
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
        """Until there is word of more, something under way ends, or it is time to look."""
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
