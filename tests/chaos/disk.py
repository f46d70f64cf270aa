"""SQLite's way to the disk, with faults: no space, failing operations, and writes that were never flushed.

These are VFS of apsw: everything that SQLite reads and writes goes through them.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

T = TypeVar("T")

CONTENT = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL


class FaultyDisk(apsw.VFS):
    """The default way of this process, with faults as a function tells: before each write, truncation and flush.

    fault: "full", "broken" or None, for what would be done ("write", "truncate" or "sync").
    """

    def __init__(self, fault: Callable[[str], str | None]) -> None:
        super().__init__("chaos-faulty", "unix", makedefault=True)
        self._fault = fault

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _FaultyFile(self, name, flags)

    def check(self, doing: str) -> None:
        match self._fault(doing):
            case "full":
                raise apsw.FullError("no space")
            case "broken":
                raise apsw.IOError(f"the {doing} failed")


class _FaultyFile(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._is_content = bool(flags[0] & CONTENT)

    def xWrite(self, data: Any, offset: int) -> None:
        if self._is_content:
            self._disk.check("write")
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        if self._is_content:
            self._disk.check("truncate")
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        if self._is_content:
            self._disk.check("sync")
        super().xSync(flags)


class VolatileDisk(apsw.VFS):
    """Knows which writes were never flushed, and what a power cut would leave of a folder's files at any moment."""

    def __init__(self, home: Path) -> None:
        super().__init__("chaos-volatile", "unix", makedefault=True)
        self.home = home
        self.lock = threading.Lock()
        self.flushed: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes | None]]] = {}
        """By file, in order: (offset, data), or (size, None) for a truncation."""
        self.broken = ""
        """A file whose next flush fails and gives up what it was to write, as an operating system may."""
        self._left = 0
        self._seen: Callable[[], Any] | None = None
        self._cut: Future[Any] | None = None

    def xOpen(self, name: Any, flags: Any) -> apsw.VFSFile:
        return _VolatileFile(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        if Path(name).parent == self.home:
            with self.lock:
                self.flushed.pop(Path(name).name, None)
                self.pending.pop(Path(name).name, None)

    def cut_at(self, operation: int, seen: Callable[[], T]) -> Future[Cut[T]]:
        """What the power cut leaves that comes in the middle of the nth write or flush from now on.

        seen: what has been told to anybody, asked for at that very instant.
        """
        with self.lock:
            self._left, self._seen, self._cut = operation, seen, Future()
            return self._cut

    def operate(self) -> None:
        """Called under the lock, before each flush and after each write."""
        self._left -= 1
        if self._left == 0 and self._cut is not None and self._seen is not None:
            files = {name: (bytes(data), list(self.pending[name])) for name, data in self.flushed.items()}
            self._cut.set_result(Cut(files, self._seen()))


class Cut(Generic[T]):
    """An instant: what had been flushed, what not, and what had been told."""

    def __init__(self, files: dict[str, tuple[bytes, list[tuple[int, bytes | None]]]], told: T) -> None:
        self._files = files
        self.told = told

    def leave(self, folder: Path, choice: random.Random) -> int:
        """Writes into a folder what is left on the disk, and returns how many writes are lost.

        Of the writes that were not flushed any may have reached the disk, and some may be torn.
        """
        lost = 0
        for name, (flushed, pending) in self._files.items():
            data = bytearray(flushed)
            reached = choice.choice((0.0, 0.5, 1.0))
            for offset, written in pending:
                if choice.random() >= reached:
                    lost += 1
                    continue
                if written is not None and choice.random() < 0.1:
                    written = written[: choice.randrange(0, len(written) + 1, 512)]
                _do(data, offset, written)
            (folder / name).write_bytes(data)
        return lost


class _VolatileFile(apsw.VFSFile):
    def __init__(self, disk: VolatileDisk, name: Any, flags: Any) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._name = ""
        path = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "")
        if flags[0] & CONTENT and path.parent == disk.home:
            self._name = path.name
            with disk.lock:
                if self._name not in disk.flushed:
                    disk.flushed[self._name] = bytearray(path.read_bytes())
                    disk.pending[self._name] = []

    def xWrite(self, data: Any, offset: int) -> None:
        super().xWrite(data, offset)
        self._note(offset, bytes(data))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        self._note(size, None)

    def xSync(self, flags: int) -> None:
        if self._name:
            with self._disk.lock:
                self._disk.operate()
                if self._name == self._disk.broken:
                    self._disk.broken = ""
                    self._disk.pending[self._name].clear()
                    raise apsw.IOError("the flush failed")
        super().xSync(flags)
        if self._name:
            with self._disk.lock:
                for offset, data in self._disk.pending[self._name]:
                    _do(self._disk.flushed[self._name], offset, data)
                self._disk.pending[self._name].clear()

    def _note(self, offset: int, data: bytes | None) -> None:
        if self._name:
            with self._disk.lock:
                self._disk.pending[self._name].append((offset, data))
                self._disk.operate()


def _do(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
