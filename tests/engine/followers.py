"""Those who follow in tests, and what they are followed with."""

from __future__ import annotations

import asyncio

from ficha.core import commands as c
from ficha.engine.engine import Engine
from ficha.engine.event_tail import Follower, account_events, job_events
from ficha.store.base import NumberedEvent
from tests.engine.engine_setup import StoreSetup, claimed, one, submitted

NEVER = 3_600.0
"""A time that no test waits for."""


async def running(engine: Engine, account: str = "ana") -> str:
    """A job that a worker holds: it has been submitted and claimed."""
    job_id = await submitted(engine, account)
    [lease] = await claimed(engine)
    assert lease.job.id == job_id
    return job_id


async def say(engine: Engine, job_id: str, *lines: str) -> None:
    """Adds lines to a job's history, one after the other."""
    for line in lines:
        await one(engine, c.Note(job_id, 1, line))


async def next_events(follower: Follower, count: int) -> list[NumberedEvent]:
    """The next events, so many of them at the least."""
    found: list[NumberedEvent] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await follower.next(NEVER)
    return found


async def listed(setup: StoreSetup, job_id: str | None = None, account_id: str | None = None) -> list[NumberedEvent]:
    """What the database has."""
    if job_id is not None:
        return await job_events(setup.store, job_id, 0, 100_000)
    found, is_last = await account_events(setup.store, account_id, 0, 100_000)
    assert is_last
    return found


def lines(found: list[NumberedEvent]) -> list[str]:
    """What was said."""
    return [numbered.event.data["text"] for numbered in found if numbered.event.kind == "log" and numbered.event.data]


def kinds(found: list[NumberedEvent]) -> list[str]:
    return [numbered.event.kind for numbered in found]
