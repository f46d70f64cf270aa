"""Calls one handler, in the worker or in a child process: a coroutine on the loop, a plain function in a thread."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from ..tools import PayloadMismatch, Tool
from .context import JobContext, ThreadJobContext
from .failure import Failure
from .threads import in_thread


async def call_handler(tool: Tool, job: JobContext) -> Any:
    """Returns what the handler returned, or a failure if the payload does not fit it. Raises what it raised."""
    try:
        arguments = tool.arguments(job.facts.payload)
    except PayloadMismatch as mismatch:
        return Failure(str(mismatch))
    if tool.is_async:
        return await tool.handler(job, **arguments)
    context = ThreadJobContext(job, asyncio.get_running_loop())
    return await in_thread(f"ficha {tool.name}", partial(tool.handler, context, **arguments))
