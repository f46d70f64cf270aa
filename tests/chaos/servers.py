"""A PostgreSQL of one's own, to be stopped in the middle of everything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import SETTINGS, Server, server_folder

FRAGILE = {
    "max_connections": "60",
    # After a crash the whole file system is flushed at once, in place of each of a thousand files by itself.
    "recovery_init_sync_method": "syncfs",
}


class FragileServer(Server):
    """Can be stopped as a crash would stop it, and started again with recovery from its log."""

    def start(self) -> None:
        usual = dict(SETTINGS)
        SETTINGS.update(FRAGILE)
        try:
            super().start()
        finally:
            SETTINGS.clear()
            SETTINGS.update(usual)

    def __init__(self, folder: Path, programs: Path | None = None) -> None:
        super().__init__(folder)
        self._found = programs

    def _programs(self) -> Path:
        # As root they are copied; once is enough, and another server's copy will do.
        self._found = self._found or super()._programs()
        return self._found

    def stop_at_once(self) -> None:
        """As if it had crashed: nobody is told, nothing is finished."""
        self._run(self._programs() / "pg_ctl", "stop", "--mode=immediate", "--wait")

    def start_again(self) -> None:
        self._run(self._programs() / "pg_ctl", "start", "--wait", f"--log={self.data / 'log'}")


@contextmanager
def fragile_server(like: Server | None = None) -> Iterator[FragileServer]:
    """A running server; one that is `like` another that runs already uses that one's programs."""
    copies = [] if like is None else sorted(like.folder.glob("*/pginstall18/bin"))
    with server_folder() as server:
        fragile = FragileServer(server.folder, copies[0] if copies else None)
        fragile.start()
        yield fragile


async def crash(server: FragileServer, down_s: float) -> None:
    await asyncio.to_thread(server.stop_at_once)
    await asyncio.sleep(down_s)
    await asyncio.to_thread(server.start_again)
