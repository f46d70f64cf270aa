"""The thread that reads large bodies. One is enough: Python runs one thread at a time, and a second one would only take
more of that time from the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from starlette.requests import ClientDisconnect, Request

from ..json_values import uncollected

T = TypeVar("T")


class BodyThread:
    """Runs the slices of work that reading a body takes, those of one request after those of another. A slice is short,
    and none is begun for a caller who has left."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, request: Request, read: Callable[[], Generator[None, None, T]]) -> T:
        """What the generator returns. It yields after each slice."""
        reading = _Reading(read())
        while not reading.result:
            async with self._turn:
                if await request.is_disconnected():
                    raise ClientDisconnect
                self._pool = self._pool or ThreadPoolExecutor(1, "ficha body")
                await asyncio.get_running_loop().run_in_executor(self._pool, reading.advance)
        return reading.result[0]

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None


class _Reading(Generic[T]):
    """A generator under way, and what it returned, once it has."""

    def __init__(self, slices: Generator[None, None, T]) -> None:
        self._slices = slices
        self.result: tuple[()] | tuple[T] = ()

    def advance(self) -> None:
        with uncollected:
            try:
                next(self._slices)
            except StopIteration as end:
                self.result = (end.value,)
