"""Futures that several callers may complete, of which only the first counts; and the end of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


def settle(future: asyncio.Future[Any], value: Any) -> None:
    """Gives the future its result, unless it is done: completed before, or cancelled by its waiter."""
    if not future.done():
        future.set_result(value)


def wake(future: asyncio.Future[None], *_: object) -> None:
    """Completes a future that has no result. Can be the callback of another future."""
    settle(future, None)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """Gives the future an exception, unless it is done."""
    if not future.done():
        future.set_exception(error)


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]], within_s: float) -> None:
    """Lets tasks end within `within_s`, then cancels the others; at once if the caller is cancelled."""
    left = [*tasks]
    try:
        if left:
            await asyncio.wait(left, timeout=within_s)
    finally:
        for task in left:
            task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
