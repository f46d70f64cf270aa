"""The hottest statements as text files, laid out for people: what a store sends for an act is what its file says.

`make sql` writes the files anew.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from ficha.core import commands as c
from ficha.store.base import GetDue
from ficha.store.postgres import PostgresStore
from tests.stores.postgres_setup import leased, opened, prepare, run, submit
from tests.support.sql_text import formatted

ACTS = ("submit", "claim", "heartbeat", "finish", "sweep")


async def sent(url: str, act: str, *, optimistic: bool) -> str:
    """All that the store sends for an act, once it has done the same before."""
    async with opened(url, committers=1, pool_size=1, optimistic=optimistic) as store:
        # The plain path shows how a pool with a limit is locked; the layer is for pools without one.
        await prepare(store, slots=None if optimistic else 100)
        for _ in range(2):
            lease = await _before(store, act)
            async with _heard(store) as texts:
                await _do(store, act, lease)
    assert texts
    return "\n".join(f"{formatted(text).rstrip()};\n" for text in texts)


async def _before(store: PostgresStore, act: str) -> tuple[str, int] | None:
    if act == "claim":
        await run(store, submit())
    return await leased(store) if act in ("heartbeat", "finish") else None


async def _do(store: PostgresStore, act: str, lease: tuple[str, int] | None) -> None:
    match act, lease:
        case "submit", _:
            await run(store, submit())
        case "claim", _:
            await run(store, c.Claim("w1", ("gpu",), 1, starts=True))
        case "heartbeat", (job_id, epoch):
            await run(store, c.Heartbeat(job_id, epoch))
        case "finish", (job_id, epoch):
            await run(store, c.Finish(job_id, c.Completed("{}"), epoch))
        case "sweep", _:
            await store.read(GetDue(1, 1))


@asynccontextmanager
async def _heard(store: PostgresStore) -> AsyncIterator[list[str]]:
    texts: list[str] = []

    def log(logged: Any) -> None:
        texts.append(logged.query)

    connections: list[asyncpg.Connection] = []
    for pool in (store._writers, store._readers):
        async with pool.take() as connection:
            connection.add_query_logger(log)
            connections.append(connection)
    yield texts
    await asyncio.sleep(0)  # the driver logs a little later
    for connection in connections:
        connection.remove_query_logger(log)


def compared(path: Path, text: str) -> None:
    """What is sent is what the file says; or, for `make sql`, it is written there."""
    if "WRITE" in os.environ:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert path.read_text("utf-8") == text, f"{path} is out of date: look at what changed, and run `make sql`"
