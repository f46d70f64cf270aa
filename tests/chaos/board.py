"""A page of memory that the supervisor and all its processes share: what they are to do, and how far they are.

It only steers and measures. What is true is in the records, which the processes write before they count.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

RUN: Final = 0
"""Submit and work."""
DRAIN: Final = 1
"""Submit nothing new."""
LEAVE: Final = 2
"""Stop working, in good order."""

_NUMBER: Final = struct.Struct("=q")
_ACTORS_FROM: Final = 16
_SIZE: Final = 4096


class Board:
    """Numbers in a file that everybody has mapped. Each number has one writer."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with open(path, "r+b") as file:
            self._page = mmap.mmap(file.fileno(), _SIZE)

    def close(self) -> None:
        self._page.close()

    def _get(self, index: int) -> int:
        return int(_NUMBER.unpack_from(self._page, index * _NUMBER.size)[0])

    def _set(self, index: int, value: int) -> None:
        _NUMBER.pack_into(self._page, index * _NUMBER.size, value)

    @property
    def phase(self) -> int:
        return self._get(0)

    @phase.setter
    def phase(self, value: int) -> None:
        self._set(0, value)

    @property
    def is_disk_full(self) -> bool:
        return bool(self._get(1))

    @is_disk_full.setter
    def is_disk_full(self, value: bool) -> None:
        self._set(1, value)

    @property
    def fails_every(self) -> int:
        """Every how many writes and flushes one fails; 0 for never."""
        return self._get(2)

    @fails_every.setter
    def fails_every(self, value: int) -> None:
        self._set(2, value)

    @property
    def clock_ahead_s(self) -> int:
        """How far the clock of all processes is ahead of the true one."""
        return self._get(3)

    @clock_ahead_s.setter
    def clock_ahead_s(self, value: int) -> None:
        self._set(3, value)

    def count(self, slot: int, what: int) -> None:
        """One more submit (0), ended job (1) or failed disk operation (2) of the actor in this slot."""
        index = _ACTORS_FROM + 4 * slot + what
        self._set(index, self._get(index) + 1)

    def counted(self, what: int, slots: int) -> int:
        return sum(self._get(_ACTORS_FROM + 4 * slot + what) for slot in range(slots))
