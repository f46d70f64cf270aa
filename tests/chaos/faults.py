"""Faults of processes and clocks, on any database. Each strikes a running load and returns how often."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from tests.chaos.application import LEASE_S, SWEEP_S
from tests.chaos.crashes import ACTS, POINTS, Act, Point
from tests.chaos.supervisor import Actor, Load

Fault: TypeAlias = Callable[[Load, float], Awaitable[int]]


async def kill_at_random(load: Load, seconds: float) -> int:
    """kill -9 of any process, several times a second; at least once of one that holds a job."""
    until, struck = time.monotonic() + seconds, 1
    (await _stopped_holder(load)).send(signal.SIGKILL)
    while time.monotonic() < until:
        await asyncio.sleep(load.choice.uniform(0.02, 0.25))
        actor = load.choice.choice(load.actors)
        if actor.is_alive:
            actor.send(signal.SIGKILL)
            struck += 1
    return struck


async def kill_everybody(load: Load, seconds: float) -> int:
    """kill -9 of all processes at once, whoever leads the sweeping among them and at least one that holds a job."""
    until, struck = time.monotonic() + seconds, 0
    while struck == 0 or time.monotonic() < until:
        await _stopped_holder(load)
        for actor in load.actors:
            actor.send(signal.SIGKILL)
            struck += 1
        await asyncio.sleep(load.choice.uniform(0.5, 1.5) if seconds else 0.1)
    return struck


async def _stopped_holder(load: Load) -> Actor:
    """A worker that holds a job, stopped so that it goes on holding it."""
    for _ in range(10_000):
        worker = load.choice.choice(load.workers)
        name = f"{worker.order.name}.{worker.order.life}"
        worker.send(signal.SIGSTOP)
        if await load.holds(name):
            # What it had sent before it was stopped may still arrive.
            await asyncio.sleep(0.02)
            if await load.holds(name):
                return worker
        worker.send(signal.SIGCONT)
        await asyncio.sleep(load.choice.uniform(0.01, 0.1))
    raise AssertionError("no worker ever held a job")


async def kill_at_named_points(load: Load, seconds: float) -> int:
    """Each process dies by itself at a point between load and reply; at least once at every point of every act."""
    until, struck = time.monotonic() + seconds, 0
    while True:
        for act in ACTS:
            able = load.submitters if act == "submit" else load.workers
            for first in range(0, len(POINTS), len(able)):
                points = POINTS[first : first + len(able)]
                struck += sum(
                    await asyncio.gather(
                        *(_die_at(actor, point, act, load) for actor, point in zip(able, points, strict=False))
                    )
                )
        if time.monotonic() >= until:
            return struck


async def _die_at(actor: Actor, point: Point, act: Act, load: Load) -> int:
    actor.is_kept = False
    try:
        actor.send(signal.SIGKILL)
        assert await actor.gone(5.0)
        actor.start((point, act, load.choice.randint(1, 3)))
        assert await actor.gone(15.0), f"{actor.order.name} never came to {act}: {point}\n{load.last_words()}"
        return 1
    finally:
        actor.is_kept = True


async def stop_past_the_lease(load: Load, seconds: float) -> int:
    """SIGSTOP of a worker for longer than its lease, while others take over; then it goes on, and finds it has lost.

    One that is stopped in the middle of a transaction keeps its locks, and nobody can take over before the database
    ends that transaction: PostgreSQL does after 30 s, here at once, so as not to wait; SQLite never does, and such a
    stop does not count here.
    """
    until, struck = time.monotonic() + seconds, 0
    for _ in range(10_000):
        worker = await _stopped_holder(load)
        name = f"{worker.order.name}.{worker.order.life}"
        if not await load.is_locked():
            await asyncio.sleep(LEASE_S + 3 * SWEEP_S)
            struck += not await load.holds(name)
        worker.send(signal.SIGCONT)
        if struck and time.monotonic() >= until:
            return struck
        await asyncio.sleep(load.choice.uniform(0.01, 0.1))
    raise AssertionError("no worker that was stopped ever lost its lease")


async def move_the_clock(load: Load, seconds: float) -> int:
    """The machine's wall clock goes an hour ahead: every lease is over at once, though its holder is alive."""
    load.board.clock_ahead_s += 3_600
    await asyncio.sleep(seconds)
    return 1


async def nothing(load: Load, seconds: float) -> int:
    """Nothing: for loads whose processes themselves are what is unusual."""
    await asyncio.sleep(seconds)
    return 0
