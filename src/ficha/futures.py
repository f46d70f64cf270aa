"""Futures that several may complete, where whoever comes second changes nothing; and the end of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


def settle(future: asyncio.Future[Any], value: Any) -> None:
    """Gives the future its result, unless it is done: answered before, or given up by whoever waited for it."""
    if not future.done():
        future.set_result(value)


def wake(future: asyncio.Future[None], *_: object) -> None:
    """Ends the waiting for a future that has no result; also as a callback of another one."""
    settle(future, None)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Gives the future an exception, unless it is done."""
    if not future.done():
        future.set_exception(error)


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]], within_s: float) -> None:
    """Lets tasks end within so many seconds, and cancels those that have not; at once if the caller is cancelled."""
    left = [*tasks]
    try:
        if left:
            await asyncio.wait(left, timeout=within_s)
    finally:
        for task in left:
            task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
