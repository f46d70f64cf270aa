"""Faults beside the attackers: processes that are killed, and connections to the database that are cut."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from typing import Final

import asyncpg

from tests.attack.attack import Attack

PAUSE_S: Final = 0.4
SILENT_S: Final = 10.0
"""A connection that was accepted must be answered or ended within this time."""
BACK_S: Final = 60.0
"""So long after the last kill a child must serve again; a busy machine takes its time to start one."""
_TERMINATE: Final = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


async def kill_children(attack: Attack) -> None:
    """kill -9 of the serving processes, one after the other: whoever connects is answered, or told at once."""
    server, chance = attack.site.server, random.Random(0)
    assert server.process is not None
    while attack.goes_on:
        if server.process.pid not in (children := attack.site.children):
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
                attack.got["killed"] += 1
        pause = asyncio.create_task(asyncio.sleep(PAUSE_S))
        while not pause.done() and attack.goes_on:
            await _probe(attack)
        await pause
    attack.must(server.process.poll() is None, "the server ended with one of its children")
    give_up_at = time.monotonic() + BACK_S
    while not await _probe(attack):
        if time.monotonic() > give_up_at:
            attack.must(False, f"nobody serves {BACK_S:g} s after the last kill")
            break
        await asyncio.sleep(0.05)


async def _probe(attack: Attack) -> bool:
    """Whether a stranger gets an answer; a connection that is refused or reset has told as much."""
    began_at = time.monotonic()
    try:
        async with asyncio.timeout(SILENT_S), attack.connected() as caller:
            return (await caller.get("/healthz")).status == 200
    except TimeoutError:
        attack.must(False, f"the port accepts, and nobody answers for {time.monotonic() - began_at:.0f} s")
    except (ConnectionError, asyncio.IncompleteReadError):
        attack.got["refused or reset"] += 1
        await asyncio.sleep(0.01)
    return False


async def kill_workers(attack: Attack) -> None:
    """kill -9 of the worker while it runs the honest clients' jobs; another one takes over."""
    while attack.goes_on:
        await asyncio.sleep(min(1.5, attack.left_s))
        attack.site.stop_worker()
        attack.site.start_worker()
        attack.got["killed"] += 1


async def cut_connections(attack: Attack) -> None:
    """Every connection to PostgreSQL is terminated, again and again. SQLite has none: there, nothing is done."""
    url = attack.site.server.database
    while attack.goes_on and url.startswith("postgresql:"):
        connection = await asyncpg.connect(url)
        try:
            attack.got["cut"] += await connection.fetchval(_TERMINATE)
        finally:
            await connection.close()
        await asyncio.sleep(min(1.0, attack.left_s))
