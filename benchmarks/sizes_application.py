"""The application whose workers `benchmarks.sizes` measures: calls of a provider that take long, and a little work."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from pathlib import Path
from typing import Any, Final

from ficha import Ficha, Plan

POOL: Final = "default"
ACCOUNT: Final = "ana"

app: Final = Ficha(plans=[Plan("open", priority=10)])


@app.tool(timeout=600)
async def ask(job: Any, seconds: float) -> dict[str, float]:
    """Waits as a call of a provider does."""
    await asyncio.sleep(seconds)
    return {"seconds": seconds}


@app.tool(timeout=600)
def think(job: Any, seconds: float) -> str:
    """Keeps a processor busy for so long, in a thread: makes a thumbnail, say."""
    digest, ends_at = b"", time.thread_time() + seconds
    while time.thread_time() < ends_at:
        digest = hashlib.sha256(digest + bytes(50_000)).digest()
    return digest.hex()


@app.tool(timeout=600)
async def hold(job: Any, until: str) -> int | None:
    """Goes on until there is a file of this name: for whoever wants to see many at once."""
    gate = Path(until)
    for turn in itertools.count():
        if gate.exists():  # noqa: ASYNC240 (a look at a local file)
            return turn
        await asyncio.sleep(0.2)
