"""Waiting for what happens in another process or thread, which tells nobody: a condition is asked again and again."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

WITHIN_S = 40.0
"""Longer than anything takes on a busy machine; only a test that fails waits for so long."""
PAUSE_S = 0.02


async def until(condition: Callable[[], Any], within_s: float = WITHIN_S, what: str = "") -> Any:
    """What the condition, or the coroutine that it gives, comes to once it holds."""
    ends_at = time.monotonic() + within_s
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < ends_at, f"not within {within_s:g} s: {what or condition}"
        await asyncio.sleep(PAUSE_S)


def until_sync(condition: Callable[[], Any], within_s: float = WITHIN_S, what: str = "") -> Any:
    """The same for a test without an event loop."""
    ends_at = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < ends_at, f"not within {within_s:g} s: {what or condition}"
        time.sleep(PAUSE_S)
    return found
