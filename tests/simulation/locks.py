"""Row locks as a database keeps them: one owner each, waiters in the order they came, all released at the end."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from ficha.store.base import Transient, Unavailable

from .loop import VirtualLoop

LOCK_TIMEOUT_S: Final = 5.0

Key = tuple[str, ...]


class Owner:
    """Whoever may hold locks: a transaction."""

    def __init__(self) -> None:
        self.holds: set[Key] = set()
        self.waits_for: Key | None = None
        self.granted: asyncio.Future[None] | None = None
        self.has_ended = False
        self.is_repeating = False
        """It found that rows had moved while it locked them, and locks again: on top of what it holds, out of order."""


class Locks:
    """Who holds what, and who waits for it."""

    def __init__(self) -> None:
        self._owners: dict[Key, Owner] = {}
        self._waiting: dict[Key, deque[tuple[Owner, asyncio.Future[None]]]] = {}
        self.deadlocks = 0
        """Those that a fixed order would have prevented."""

    def __len__(self) -> int:
        return len(self._owners)

    def owner(self, key: Key) -> Owner | None:
        return self._owners.get(key)

    def take(self, owner: Owner, key: Key) -> bool:
        """Takes the lock if nobody else has it."""
        if owner.has_ended:
            raise Unavailable("the database closed the connection")
        holder = self._owners.setdefault(key, owner)
        if holder is owner:
            owner.holds.add(key)
        return holder is owner

    async def wait(self, owner: Owner, key: Key) -> None:
        """Takes the lock, after everybody who asked before. Raises Transient after a while, or in a deadlock."""
        if self.take(owner, key):
            return
        if (circle := self._circle(owner, key)) is not None:
            self.deadlocks += not any(one.is_repeating for one in circle)
            raise Transient("a deadlock with another transaction was broken")
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(key, deque()).append((owner, granted))
        owner.waits_for, owner.granted = key, granted
        timer = loop.call_later(LOCK_TIMEOUT_S, _time_out, owner, granted, context=_outside())
        try:
            await granted
        finally:
            timer.cancel()
            owner.waits_for = owner.granted = None

    def _circle(self, owner: Owner, key: Key | None) -> list[Owner] | None:
        """Everybody who would wait for each other for ever."""
        circle = [owner]
        while key is not None and (holder := self._owners.get(key)) is not None:
            if holder is owner:
                return circle
            circle.append(holder)
            key = holder.waits_for
        return None

    def release(self, owner: Owner) -> None:
        """The end of a transaction: everything it held goes to whoever waits."""
        owner.has_ended = True
        if owner.granted is not None and not owner.granted.done():
            owner.granted.set_exception(Unavailable("the database closed the connection"))
        for key in sorted(owner.holds):
            del self._owners[key]
            waiting = self._waiting.get(key)
            while waiting:
                heir, granted = waiting.popleft()
                if not granted.done() and not heir.has_ended:
                    self._owners[key] = heir
                    heir.holds.add(key)
                    # Now, and not when the client hears of it, which may be stopped for long.
                    heir.waits_for = None
                    granted.set_result(None)
                    break
            if not waiting:
                self._waiting.pop(key, None)
        owner.holds = set()


def _time_out(owner: Owner, granted: asyncio.Future[None]) -> None:
    if not granted.done():
        owner.waits_for = None
        granted.set_exception(Transient("another transaction held a lock for too long"))


def _outside() -> Any:
    """The database's own context: its timers run whatever becomes of the client."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.outside.context
