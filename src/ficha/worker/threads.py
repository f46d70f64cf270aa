"""Runs the plain functions that a coroutine handler calls, each in a thread of its own: none waits for another, and a
hanging one keeps neither a slot nor the process. Threads of handlers are reused; see `tool_threads`."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from ..futures import wake


async def in_thread(name: str, function: Callable[[], Any]) -> Any:
    """Returns or raises what the function does. When cancelled, it still waits for the function to end."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    outcome: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(context.run(function))
        except BaseException as error:
            errors.append(error)
        try:
            loop.call_soon_threadsafe(wake, ended)
        except RuntimeError:
            # The loop is closed: the worker has given this run up.
            return

    context = contextvars.copy_context()
    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        # The function has been asked to stop. Until it has, another run of the job must not begin.
        await asyncio.shield(ended)
        raise
    if errors:
        raise errors[0]
    return outcome[0]
