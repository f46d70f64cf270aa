"""The steps of one run: their stored results, a lock per step, and the call that each name stands for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Protocol

from ..declarations import name_problem
from ..errors import Refused
from ..json_values import returned_by
from .results import FinalError, UnstorableValue

log = logging.getLogger("ficha.job")


class LeaseCall(Protocol):
    """How a run reaches the database: calls a method of `LeaseOperations` by name, fenced by the run's lease."""

    def __call__(self, verb: str, *args: Any, **options: Any) -> Awaitable[Any]: ...


class StepMismatch(FinalError):
    """Two different calls used the same step name; each step needs its own name."""


@contextmanager
def refusing_unstorable(what: str) -> Iterator[None]:
    """Raises the refusal of a value as `UnstorableValue`, which fails the job for good."""
    try:
        yield
    except Refused as refused:
        if refused.code in ("INVALID_PAYLOAD", "TOO_LARGE"):
            raise UnstorableValue(f"{what} cannot be stored: {refused.message}") from refused
        raise


class Steps:
    """Stored results by name, as JSON text. If an earlier run may have stored some, they are loaded on first use."""

    def __init__(self, lease_call: LeaseCall, *, is_resumed: bool) -> None:
        self._lease_call = lease_call
        self._stored: dict[str, str] | None = None if is_resumed else {}
        self._loading = asyncio.Lock()
        self._locks: dict[str, asyncio.Lock] = {}
        self._calls: dict[str, tuple[Any, ...]] = {}

    async def stored(self) -> dict[str, str]:
        async with self._loading:
            if self._stored is None:
                self._stored = await self._lease_call("steps")
            return self._stored

    async def acquire(
        self, name: str, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> dict[str, str]:
        """Locks the step, and returns the stored results; `release` unlocks it.

        Refuses before the function is called what, by the step's name and the function's annotation, cannot be stored.
        """
        if (problem := name_problem(name, "the name of a step")) is not None:
            raise FinalError(problem)
        if (problem := returned_by(function).problem) is not None:
            raise UnstorableValue(f"the step {name!r} was not run, because its result cannot be stored: {problem}")
        call = (function, *args, *(part for option in sorted(options.items()) for part in option))
        if not _is_same_call(self._calls.setdefault(name, call), call):
            raise StepMismatch(
                f"the step {name!r} was called twice with a different function or arguments; give each its own name"
            )
        await self._locks.setdefault(name, asyncio.Lock()).acquire()
        try:
            return await self.stored()
        except BaseException:
            self.release(name)
            raise

    def release(self, name: str) -> None:
        self._locks[name].release()

    async def save(self, name: str, result: Any) -> None:
        stored = await self.stored()
        with refusing_unstorable(f"the result of the step {name!r}"):
            stored[name] = await self._lease_call("save_step", name, result)

    def value(self, name: str, function: Callable[..., Any], stored: Mapping[str, str]) -> Any:
        """A step's stored result, as the type that the function's annotation names. It is always read from the stored
        text, so the run that stored it gets the same value as later runs."""
        return returned_by(function).read(stored[name], f"the stored result of the step {name!r}")

    async def items_done(self, name: str) -> int:
        """How many items of a loop are finished."""
        stored = await self.stored()
        done = 0
        while item(name, done) in stored:
            done += 1
        return done


def item(name: str, number: int) -> str:
    """The name of the step that marks an item of a loop as finished."""
    return f"{name}[{number}]"


def _is_same_call(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two calls have the same function and arguments. Arguments that cannot be compared count as equal."""
    if len(one) != len(other) or not (one[0] == other[0] or _is_same_source(one[0], other[0])):
        return False
    for mine, theirs in zip(one[1:], other[1:], strict=True):
        try:
            if mine is not theirs and not bool(mine == theirs):
                return False
        except Exception:
            log.debug("arguments of a step cannot be compared", exc_info=True)
    return True


def _is_same_source(one: Any, other: Any) -> bool:
    """Whether two functions come from the same line of code with the same closure: a lambda is a new object each time
    its line runs."""
    if not isinstance(one, FunctionType) or not isinstance(other, FunctionType) or one.__code__ is not other.__code__:
        return False
    try:
        return bool((one.__defaults__, one.__closure__) == (other.__defaults__, other.__closure__))
    except Exception:
        return True
