"""Creates a file that only its owner can read and write, whatever the process's umask is."""

from __future__ import annotations

import os
from contextlib import suppress

MODE = 0o600


def create_private(path: str) -> None:
    """Creates an empty file, unless there is one: whoever made that chose its mode. SQLite gives the files that it
    creates beside a database (-wal, -shm, -journal) the database's own mode."""
    # Where it cannot be created, SQLite says why when it opens it.
    with suppress(OSError):
        file = os.open(os.path.realpath(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), MODE)
        try:
            # A umask can take even the owner's rights away. (Windows has neither modes nor this function.)
            if hasattr(os, "fchmod"):
                os.fchmod(file, MODE)
        finally:
            os.close(file)
