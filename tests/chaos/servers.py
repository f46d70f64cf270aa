"""A PostgreSQL of one's own, to be stopped in the middle of everything."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.chaos.space import SmallDisk, small_disk
from tests.support.postgres import SETTINGS, Server, server_folder

FRAGILE = {
    "max_connections": "60",
    # After a crash the whole file system is flushed at once, in place of each of a thousand files by itself.
    "recovery_init_sync_method": "syncfs",
}


class FragileServer(Server):
    """Can be stopped as a crash would stop it, and started again with recovery from its log."""

    def start(self) -> None:
        usual = dict(SETTINGS)
        SETTINGS.update({**FRAGILE, **self.settings})
        try:
            super().start()
        finally:
            SETTINGS.clear()
            SETTINGS.update(usual)

    def __init__(self, folder: Path, programs: Path | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(folder)
        self.settings = settings or {}
        self.disk: SmallDisk | None = None
        self._found = programs

    def _programs(self) -> Path:
        # As root they are copied; once is enough, and another server's copy will do.
        self._found = self._found or super()._programs()
        return self._found

    def stop_at_once(self) -> None:
        """As if it had crashed: nobody is told, nothing is finished."""
        self._run(self._programs() / "pg_ctl", "stop", "--mode=immediate", "--wait")

    def start_again(self) -> None:
        # Not into the data: there may be no space there.
        self._run(self._programs() / "pg_ctl", "start", "--wait", f"--log={self.folder / 'log'}")

    @property
    def user(self) -> str:
        """Whose the server is."""
        return self.folder.owner()

    @property
    def processes(self) -> list[int]:
        """The server's own process and all that it has started; none while it is down."""
        try:
            first = int((self.data / "postmaster.pid").read_text().split()[0])
            children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        except (OSError, IndexError):
            return []
        return [first, *map(int, children)]


@contextmanager
def fragile_server(
    like: Server | None = None, disk_mib: int = 0, settings: Mapping[str, str] | None = None
) -> Iterator[FragileServer]:
    """A running server; one that is `like` another that runs already uses that one's programs.

    With `disk_mib` its data is on a small file system of its own, where that can be had.
    """
    copies = [] if like is None else sorted(like.folder.glob("*/pginstall18/bin"))
    with server_folder() as server, ExitStack() as stack:
        fragile = FragileServer(server.folder, copies[0] if copies else None, settings)
        if disk_mib:
            owner = server.folder.stat()
            fragile.data.mkdir()
            options = f",uid={owner.st_uid},gid={owner.st_gid}"
            fragile.disk = stack.enter_context(small_disk(fragile.data, disk_mib, options))
            if fragile.disk is None:
                fragile.data.rmdir()
        fragile.start()
        yield fragile
        # It goes before its file system does, which cannot be taken away under it.
        if fragile.disk is not None:
            fragile.stop_at_once()


async def crash(server: FragileServer, down_s: float) -> None:
    await asyncio.to_thread(server.stop_at_once)
    await asyncio.sleep(down_s)
    await asyncio.to_thread(server.start_again)
