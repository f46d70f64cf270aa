"""Disks that are really full: the system itself refuses to write, and nothing is simulated.

A small file system in memory needs the right to mount. A limit on the size of files needs no right at all, and can be
set on a process that runs; beyond it the system says "file too large" where a full disk says "no space left".
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

# Takes the file system away when its owner is gone, however that one ended.
GUARD: Final = 'cat >/dev/null; umount --lazy "$1"'
PIECE: Final = bytes(64 * 1024)


class Space(Protocol):
    """Room on a disk, that can be taken and given back while others write there."""

    def fill(self) -> None: ...

    def free(self) -> None: ...


class SmallDisk:
    """A small file system of one's own, filled by a file that nobody needs."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Takes the last byte."""
        file = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        piece = PIECE
        try:
            while piece:
                try:
                    os.write(file, piece)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    piece = piece[: len(piece) // 2]
        finally:
            os.close(file)

    def free(self) -> None:
        self._ballast.unlink()


class FileSizes:
    """A limit on the size of all files that some processes write.

    user: whose they are, if not one's own: a process may set limits only on those of its own user.
    """

    def __init__(self, processes: list[int], most: int, user: str | None = None) -> None:
        self._processes = processes
        self._most = most
        self._user = user

    def fill(self) -> None:
        self._limit(str(self._most))

    def free(self) -> None:
        self._limit("unlimited")

    def _limit(self, most: str) -> None:
        """Those that are gone by now need none."""
        for process in self._processes:
            command = ["prlimit", f"--pid={process}", f"--fsize={most}:"]
            assert _is_done(command, self._user) or not Path(f"/proc/{process}").exists()


@contextmanager
def small_disk(folder: Path, mib: int, options: str = "") -> Iterator[SmallDisk | None]:
    """Mounts a file system of that size there, until the end; None where that is not permitted."""
    options = f"size={mib}m,mode=700{options}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "ficha", str(folder)]
    if not _is_done(mount):
        yield None
        return
    guard = subprocess.Popen(["/bin/sh", "-c", GUARD, "guard", folder], stdin=subprocess.PIPE, start_new_session=True)
    assert guard.stdin is not None
    try:
        yield SmallDisk(folder)
    finally:
        guard.stdin.close()
        guard.wait()


def _is_done(command: list[str], user: str | None = None) -> bool:
    try:
        return subprocess.run(command, capture_output=True, user=user, check=False).returncode == 0
    except OSError:
        return False
