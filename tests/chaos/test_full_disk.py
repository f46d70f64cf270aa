"""A full disk: the refusal comes soon and names the disk, and with space again all goes on."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ficha import Ficha
from ficha.errors import Overloaded
from ficha.store.postgres import PostgresStore
from tests.chaos.disk import FaultyDisk
from tests.chaos.servers import fragile_server
from tests.chaos.space import FileSizes, Space
from tests.support.postgres import Server
from tests.support.shop import shop

AFTER_S = 4.0
"""A call waits for a second; the rest is for a busy machine. It was half a minute."""


class NoSpace:
    """SQLite's way to the disk finds none."""

    def __init__(self) -> None:
        self._is_full = False
        self.disk = FaultyDisk(lambda doing: "full" if self._is_full and doing == "write" else None)

    def fill(self) -> None:
        self._is_full = True

    def free(self) -> None:
        self._is_full = False


@asynccontextmanager
async def sqlite_disk(path: Path) -> AsyncIterator[tuple[str, Space]]:
    space = NoSpace()
    try:
        yield f"sqlite:///{path}", space
    finally:
        space.disk.unregister()


@asynccontextmanager
async def postgres_disk(like: Server) -> AsyncIterator[tuple[str, Space]]:
    """On a small file system of its own; where none can be mounted, files that may not grow."""
    like.start()
    with fragile_server(like=like, disk_mib=160) as server:
        await PostgresStore(server.url()).migrate()

        class Freed:
            def __init__(self) -> None:
                self.space: Space | None = None

            def fill(self) -> None:
                self.space = server.disk or FileSizes(server.processes, 8 * 2**20, server.user)
                self.space.fill()

            def free(self) -> None:
                assert self.space is not None
                self.space.free()
                if not server.processes:
                    server.start_again()

        yield server.url(), Freed()


async def refused(app: Ficha) -> tuple[Overloaded, float]:
    """The first submit that finds no space, and how long it took. Pages and log files that exist are filled first."""
    for _ in range(2_000):
        asked_at = time.monotonic()
        try:
            await app.submit("upscale", {"image": os.urandom(50_000).hex()}, account="ana")
        except Overloaded as error:
            return error, time.monotonic() - asked_at
    raise AssertionError("there was space after all")


@pytest.mark.req("A6", "C1")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_full_disk_is_named_soon_and_all_goes_on_once_there_is_space(
    kind: str, tmp_path: Path, postgres_server: Server
) -> None:
    disk = sqlite_disk(tmp_path / "ficha.db") if kind == "sqlite" else postgres_disk(postgres_server)
    async with disk as (url, space), shop(url) as app:
        await app.open_account("ana", plan="open", credits=100_000)
        space.fill()
        for _ in range(3):
            error, seconds = await refused(app)
            assert "no space left" in str(error) or "disk is full" in str(error)
            assert seconds < AFTER_S
        await asyncio.to_thread(space.free)
        # The last refusals may have been the server's going down.
        for _ in range(60):
            try:
                await app.submit("upscale", {"image": "x"}, account="ana")
                break
            except Overloaded:
                await asyncio.sleep(0.5)
        assert await app.verify() == []
