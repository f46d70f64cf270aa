"""The steps of one run: what earlier runs stored, who runs which step now, and what was asked for under which name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Protocol

from .results import FinalError

log = logging.getLogger("ficha.job")


class Say(Protocol):
    """How a run reaches the database: a verb of `LeaseOperations` with its arguments, fenced by the run's lease."""

    def __call__(self, verb: str, *args: Any, **options: Any) -> Awaitable[Any]: ...


class StepMismatch(FinalError):
    """Two different things were asked for under one step's name; each step needs a name of its own."""


class Steps:
    """Stored results by name. They are loaded when first asked for, where an earlier run may have left some."""

    def __init__(self, say: Say, *, is_resumed: bool) -> None:
        self._say = say
        self._stored: dict[str, Any] | None = None if is_resumed else {}
        self._loading = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        self._asked: dict[str, tuple[Any, ...]] = {}

    async def stored(self) -> dict[str, Any]:
        async with self._loading:
            if self._stored is None:
                self._stored = await self._say("steps")
            return self._stored

    async def enter(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any]:
        """Waits until nobody else runs this step, and returns the stored results; `leave` lets the next one in."""
        asked = (function, *args)
        if not _same(self._asked.setdefault(name, asked), asked):
            raise StepMismatch(
                f"the step {name!r} was asked for twice, for different things; give each step a name of its own"
            )
        await self._turns.setdefault(name, asyncio.Lock()).acquire()
        try:
            return await self.stored()
        except BaseException:
            self.leave(name)
            raise

    def leave(self, name: str) -> None:
        self._turns[name].release()

    async def keep(self, name: str, result: Any) -> None:
        stored = await self.stored()
        stored[name] = await self._say("save_step", name, result)

    async def items_done(self, name: str) -> int:
        """How many items of a loop were finished."""
        stored = await self.stored()
        done = 0
        while item(name, done) in stored:
            done += 1
        return done


def item(name: str, number: int) -> str:
    """The step that says that an item of a loop was finished."""
    return f"{name}[{number}]"


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two askings are the same. Arguments that cannot be compared with certainty are taken for the same."""
    if len(one) != len(other) or not (one[0] == other[0] or _is_written_once(one[0], other[0])):
        return False
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        try:
            if mine is not theirs and not bool(mine == theirs):
                return False
        except Exception:
            log.debug("arguments of a step cannot be compared", exc_info=True)
    return True


def _is_written_once(one: Any, other: Any) -> bool:
    """Whether two functions come from one place of the code, with the same values around it: a lambda is a new object
    each time that its line is come by."""
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType) or one.__code__ is not other.__code__:
        return False
    try:
        return bool((one.__defaults__, one.__closure__) == (other.__defaults__, other.__closure__))
    except Exception:
        return True
