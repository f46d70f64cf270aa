"""Faults of PostgreSQL, of the way to it, and of others who use it. Each strikes a running load."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import asyncpg

from tests.chaos.faults import Fault
from tests.chaos.proxy import BadNetwork
from tests.chaos.servers import FragileServer, crash
from tests.chaos.space import FileSizes, Space
from tests.chaos.supervisor import Load

OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def crash_the_server(server: FragileServer, every_s: float = 1.5) -> Fault:
    """PostgreSQL stopped in immediate mode every few seconds, and started again."""

    async def fault(load: Load, seconds: float) -> int:
        until, struck = time.monotonic() + seconds, 0
        while struck < 2 or time.monotonic() < until:
            await crash(server, load.choice.uniform(0.0, 0.5))
            struck += 1
            await asyncio.sleep(load.choice.uniform(0.5, 1.5) * every_s)
        return struck

    return fault


def run_out_of_space(server: FragileServer) -> Fault:
    """PostgreSQL's disk is full: its log cannot begin a new file, so it crashes, and cannot recover either.

    Then there is space again, the server is started as a service manager would, and work goes on. Where only the size
    of files can be limited, it does recover, and crashes again with the next file.
    """

    async def fault(load: Load, seconds: float) -> int:
        until, struck = time.monotonic() + seconds, 0
        while struck == 0 or time.monotonic() < until:
            space: Space = server.disk or FileSizes(server.processes, 8 * 2**20, server.user)
            space.fill()
            try:
                await _crash_for_want_of_space(server)
                assert server.disk is None or await load.stands_still(20.0), "the server was down, and work went on"
            finally:
                space.free()
            if not server.processes:
                await asyncio.to_thread(server.start_again)
            struck += 1
            await load.progress(5, 20.0)
        return struck

    return fault


async def _crash_for_want_of_space(server: FragileServer) -> None:
    """Has it begin new files of its log until it can begin no more, and for a moment longer."""
    crashed_at = 0.0
    until = time.monotonic() + 30.0
    while not crashed_at or time.monotonic() < crashed_at + 1.0:
        assert time.monotonic() < until, "the server found space"
        try:
            connection = await asyncpg.connect(server.url(), timeout=2.0)
            try:
                await connection.execute("SELECT pg_logical_emit_message(true, 'chaos', 'x'); SELECT pg_switch_wal()")
            finally:
                connection.terminate()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            crashed_at = crashed_at or time.monotonic()
        await asyncio.sleep(0.05)


async def terminate_backends(load: Load, seconds: float) -> int:
    """pg_terminate_backend on any of the connections, ten times a second or more."""
    until, struck = time.monotonic() + seconds, 0
    connection = await asyncpg.connect(load.direct)
    try:
        while time.monotonic() < until:
            struck += await connection.fetchval(
                f"SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid {OTHERS} ORDER BY random() LIMIT 2) AS b"
            )
            await asyncio.sleep(load.choice.uniform(0.02, 0.15))
    finally:
        await connection.close()
    return struck


def cut_commits(network: BadNetwork) -> Fault:
    """Connections cut around COMMIT: now before the database sees it, now after, with its answer dropped."""

    async def fault(load: Load, seconds: float) -> int:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            network.cut = load.choice.choice(("before commit", "after commit", "after commit"))
            await asyncio.sleep(load.choice.uniform(0.01, 0.1))
        network.cut = None
        return network.cuts

    return fault


def spoil_the_network(network: BadNetwork) -> Fault:
    """Delay, then silence for longer than a lease, then broken connections; over and over."""

    async def fault(load: Load, seconds: float) -> int:
        until, struck = time.monotonic() + seconds, 0
        while struck == 0 or time.monotonic() < until:
            network.delay_s = 0.05
            await asyncio.sleep(1.0)
            network.delay_s = 0.0
            network.fall_silent()
            await asyncio.sleep(1.3)
            network.speak()
            struck += 2 + network.break_all()
            await asyncio.sleep(0.2)
        return struck

    return fault


async def take_all_connections(load: Load, seconds: float) -> int:
    """Others take every connection that is free, just when ours are ended; `max_connections` is reached."""
    taken: list[asyncpg.Connection] = []
    connection = await asyncpg.connect(load.direct)
    refused = 0
    until = time.monotonic() + seconds
    try:
        await connection.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}")
        while time.monotonic() < until:
            try:
                taken.append(await asyncpg.connect(load.direct))
            except asyncpg.TooManyConnectionsError:
                refused += 1
                await asyncio.sleep(0.05)
        return len(taken) if refused else 0
    finally:
        for other in (*taken, connection):
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await other.close(timeout=2)


def lock_from_outside(row_s: float, table_s: float) -> Fault:
    """Somebody holds an account's row, then a whole table, in transactions of their own."""

    async def fault(load: Load, seconds: float) -> int:
        until, struck = time.monotonic() + seconds, 0
        connection = await asyncpg.connect(load.direct)
        try:
            while struck == 0 or time.monotonic() < until:
                for statement, held_s in (
                    ("SELECT FROM ficha.accounts ORDER BY id LIMIT 1 FOR UPDATE", row_s),
                    ("LOCK TABLE ficha.jobs IN ACCESS EXCLUSIVE MODE", table_s),
                ):
                    async with connection.transaction():
                        await connection.execute(statement)
                        await asyncio.sleep(held_s)
                    struck += 1
        finally:
            await connection.close()
        return struck

    return fault
