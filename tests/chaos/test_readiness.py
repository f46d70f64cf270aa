"""What `/readyz` says of a real server whose database takes no writes, and what calls are told meanwhile."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from ficha import Ficha
from ficha.doctor import examine
from ficha.store.postgres import PostgresStore
from ficha.store.sqlite import SqliteStore
from tests.chaos.servers import FragileServer, fragile_server
from tests.chaos.space import FileSizes, Space, small_disk
from tests.support.postgres import Server, new_database
from tests.support.server_process import Served, served
from tests.support.waiting import until, until_sync

WITHOUT_RETENTION = 3
"""A version in which `jobs` lacks columns that a submit writes."""
OK = (200, {"status": "ok"})


def ready(server: Served) -> tuple[int, Any]:
    with server.client(None) as anybody:
        answer = anybody.get("/readyz")
        return answer.status_code, answer.json()


def until_away(server: Served, *words: str) -> None:
    """Until it is not ready, for a reason with one of these words."""

    def is_away() -> bool:
        code, body = ready(server)
        return code == 503 and any(word in body["problem"] for word in words)

    until_sync(is_away, what=f"not ready because of {words}")


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'ficha.db'}"
        return
    async with new_database(request.getfixturevalue("postgres_server")) as url:
        await PostgresStore(url).migrate()
        yield url


async def test_a_server_whose_tables_are_gone_is_not_ready_and_says_so(url: str) -> None:
    is_file = url.startswith("sqlite")
    migrator = SqliteStore(url.removeprefix("sqlite:///")) if is_file else PostgresStore(url)

    def trial() -> None:
        with served(url, "--processes", "1") as server:
            key = server.account("ana")
            assert ready(server) == OK
            asyncio.run(migrator.migrate(WITHOUT_RETENTION))
            until_away(server, "an operator has to migrate it")
            with server.client(key) as user:
                refused = user.post("/api/jobs", json={"tool": "anything"})
            assert refused.status_code == 503
            assert "an operator has to migrate it; nothing was changed" in refused.json()["detail"]
            asyncio.run(migrator.migrate())
            until_sync(lambda: ready(server) == OK)

    await asyncio.to_thread(trial)


def send(server: Served, key: str, size: int) -> httpx.Response:
    with server.client(key) as user:
        return user.post("/api/jobs", json={"tool": "anything", "payload": {"text": os.urandom(size // 2).hex()}})


def until_refused(server: Served, key: str, size: int) -> httpx.Response:
    for _ in range(2_000):
        if (answer := send(server, key, size)).status_code != 201:
            return answer
    raise AssertionError("there was space after all")


@pytest.mark.long
async def test_a_server_on_a_full_disk_is_not_ready_until_there_is_space(
    url: str, postgres_server: Server, tmp_path: Path
) -> None:
    def trial(url: str, fill: Callable[[Served], Space], free: Callable[[Space], None]) -> None:
        with served(url, "--processes", "1") as server:
            key = server.account("ana", credits=100_000)
            assert ready(server) == OK
            space = fill(server)
            refused = until_refused(server, key, 50_000)
            assert (refused.status_code, refused.json()["code"]) == (503, "OVERLOADED")
            until_away(server, "disk is full", "disk failed")
            free(space)
            until_sync(lambda: ready(server) == OK)
            until_sync(lambda: send(server, key, 10).status_code == 201)

    if url.startswith("sqlite"):
        folder = tmp_path / "disk"
        folder.mkdir()
        with small_disk(folder, mib=24) as disk:
            url = f"sqlite:///{folder / 'ficha.db'}"

            def fill_file(server: Served) -> Space:
                space: Space = disk or _no_longer(server, url)
                space.fill()
                return space

            await asyncio.to_thread(trial, url, fill_file, lambda space: space.free())
        return
    with fragile_server(like=postgres_server, disk_mib=160) as postgres:
        await PostgresStore(postgres.url()).migrate()

        def fill(_: Served) -> Space:
            space: Space = postgres.disk or FileSizes(postgres.processes, 8 * 2**20, postgres.user)
            space.fill()
            return space

        def free(space: Space) -> None:
            space.free()
            if not postgres.processes:
                postgres.start_again()

        await asyncio.to_thread(trial, postgres.url(), fill, free)


def _no_longer(server: Served, url: str) -> Space:
    """The files of the database may not grow."""
    assert server.process is not None
    path = url.removeprefix("sqlite:///")
    return FileSizes([server.process.pid], max(os.path.getsize(path), os.path.getsize(f"{path}-wal")))


async def test_a_server_whose_synchronous_standby_is_away_is_not_ready(postgres_server: Server) -> None:
    postgres_server.start()
    with fragile_server(like=postgres_server) as postgres:
        await PostgresStore(postgres.url()).migrate()
        with ExitStack() as stack:
            server = await asyncio.to_thread(stack.enter_context, served(postgres.url(), "--processes", "1"))
            assert await asyncio.to_thread(ready, server) == OK
            await _standby(postgres, "nobody")
            await asyncio.to_thread(until_away, server, "a synchronous standby is away")
            report = await examine(Ficha(postgres.url()))
            assert {"STANDBY_AWAY", "WRITES_FAIL"} <= {
                one.code for one in report.findings if one.severity == "critical"
            }
            await _standby(postgres, "")
            await until(lambda: asyncio.to_thread(lambda: ready(server) == OK))


async def _standby(postgres: FragileServer, name: str) -> None:
    connection = await asyncpg.connect(postgres.url())
    try:
        await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        connection.terminate()
