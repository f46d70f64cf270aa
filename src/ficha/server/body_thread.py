"""The thread that reads large bodies. One is enough: Python runs one thread at a time, and a second one would only take
more of that time from the event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


class BodyThread:
    """Runs the slices of work that reading a body takes, those of one request after those of another. A slice is short,
    and none is begun for a caller who has left."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._pool = ThreadPoolExecutor(1, "ficha body")

    async def run(self, request: Request, read: Callable[[], Generator[None, None, T]]) -> T:
        """What the generator returns. It yields after each slice."""
        reading = _Reading(read())
        while not reading.is_done:
            async with self._turn:
                if await request.is_disconnected():
                    raise ClientDisconnect
                await asyncio.get_running_loop().run_in_executor(self._pool, reading.advance)
        return reading.result

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class _Reading:
    """A generator under way, and what it returned."""

    result: object

    def __init__(self, slices: Generator[None, None, object]) -> None:
        self._slices = slices
        self.is_done = False

    def advance(self) -> None:
        with uncollected():
            try:
                next(self._slices)
            except StopIteration as end:
                self.is_done, self.result = True, end.value


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection: it would look at every list and object of a body again and again, though JSON has no
    cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
