"""Files in a folder of a local or mounted disk.

obstore is not used here: it neither flushes a file before it renames it, nor makes it private, nor tells a full disk
from another error.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from .storage import (
    INCOMING,
    PIECE_BYTES,
    ByteCount,
    FileMissing,
    FileStorage,
    StorageAway,
    StorageFull,
    StoredBytes,
    checked_key,
    pieces,
)

T = TypeVar("T")
THREADS: Final = 8
"""Threads that read and write, so that a slow disk blocks neither the event loop nor other threads of the process."""
SENT_BYTES: Final = 262_144
"""The size of the pieces that `get` yields: what a server sends at once, so that no piece is cut again."""
FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class LocalDisk(FileStorage):
    """Files under a folder that only its owner may open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()
        self._threads = ThreadPoolExecutor(THREADS, "ficha-files")
        with _told_apart(self._folder):
            for made in (self._folder, self._folder / INCOMING):
                made.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_abandoned()

    @classmethod
    def at(cls, url: str) -> LocalDisk:
        return cls(folder_of(url))

    async def put(self, key: str, chunks: AsyncIterable[bytes], most_bytes: int) -> StoredBytes:
        target = self._path(key)
        counted = ByteCount(most_bytes)
        writer = await self._call(IncomingFile, self._folder / INCOMING, undo=IncomingFile.close)
        # One piece is written while the next one arrives.
        writing: asyncio.Task[None] | None = None
        try:
            async with aclosing(pieces(chunks, counted, PIECE_BYTES)) as arriving:
                async for piece in arriving:
                    if writing is not None:
                        await writing
                    writing = asyncio.create_task(self._call(writer.write, piece, counted))
            if writing is not None:
                await writing
            await self._call(writer.keep, target, self._folder)
        finally:
            if writing is not None:
                await asyncio.wait([writing])
            await self._call(writer.close)
        return counted.stored()

    async def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """Reads the next pieces while the ones before are being sent."""
        file = await self._call(os.open, self._path(key), os.O_RDONLY | os.O_CLOEXEC, undo=os.close)
        reading = asyncio.create_task(self._call(_read, file, start, end))
        try:
            while pieces_read := await reading:
                start += sum(map(len, pieces_read))
                reading = asyncio.create_task(self._call(_read, file, start, end))
                for piece in pieces_read:
                    yield piece
        finally:
            await asyncio.wait([reading])
            os.close(file)

    async def delete(self, key: str) -> None:
        with contextlib.suppress(FileMissing):
            await self._call(os.unlink, self._path(key))

    async def size(self, key: str) -> int | None:
        try:
            return (await self._call(os.stat, self._path(key))).st_size
        except FileMissing:
            return None

    async def close(self) -> None:
        self._threads.shutdown(wait=False)

    def open_file(self, key: str) -> int:
        """A descriptor for reading the file, for a process that decodes it. Blocks for as long as the disk does."""
        with _told_apart(self._folder):
            return os.open(self._path(key), os.O_RDONLY | os.O_CLOEXEC)

    def _path(self, key: str) -> Path:
        return self._folder / checked_key(key)

    async def _call(self, call: Callable[..., T], *args: Any, undo: Callable[[T], None] | None = None) -> T:
        """Calls on a thread. A cancelled caller first waits for the thread, which may still use the file; a result that
        the caller never gets is undone."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, call, *args)
        with _told_apart(self._folder):
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])
                if undo is not None and running.exception() is None:
                    undo(running.result())
                raise

    def _remove_abandoned(self) -> None:
        """Removes files that processes left when they were killed while writing: nobody holds their locks."""
        for path in (self._folder / INCOMING).iterdir():
            with contextlib.suppress(FileNotFoundError, BlockingIOError):
                file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()
                finally:
                    os.close(file)


def folder_of(url: str) -> Path:
    """`file:folder` is relative to the working folder, `file:///folder` and `file:/folder` are not."""
    path = unquote(url.removeprefix("file:"))
    if path.startswith("//"):
        if not path.startswith("///"):
            raise ValueError(f"a folder's URL is like file:folder or file:///folder, not file:{path[:80]}")
        path = path[2:]
    if not path or "\0" in path:
        raise ValueError("the file storage's URL names no folder; write file:folder or file:///folder")
    return Path(path).absolute()


class IncomingFile:
    """A file that is being written: locked and private, and renamed once it is complete."""

    def __init__(self, folder: Path) -> None:
        self._is_kept = False
        while True:
            self._path = folder / uuid.uuid4().hex
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            # Another process that starts may have removed the file before it was locked.
            if os.fstat(self._file).st_nlink:
                return
            os.close(self._file)

    def write(self, chunks: list[bytes], counted: ByteCount) -> None:
        for chunk in chunks:
            counted.digest(chunk)
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(self._file, rest) :]

    def keep(self, target: Path, root: Path) -> None:
        """Flushes the file, then gives it its name, then flushes the folders that changed."""
        os.fsync(self._file)
        made = _make_folders(target.parent, root)
        os.replace(self._path, target)
        self._is_kept = True
        for folder in made:
            _flush(folder)

    def close(self) -> None:
        if not self._is_kept:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
        os.close(self._file)


def _read(file: int, start: int, end: int | None) -> list[bytes]:
    """The next bytes, in pieces that a server sends at once; none at the end."""
    last = start + PIECE_BYTES if end is None else min(start + PIECE_BYTES, end)
    found = []
    while start < last and (piece := os.pread(file, min(SENT_BYTES, last - start), start)):
        start += len(piece)
        found.append(piece)
    return found


def _make_folders(folder: Path, root: Path) -> list[Path]:
    """Makes the folders below the root that are missing, and returns those whose entries change. The root itself is
    not made: if it is gone, so is the disk that was mounted there."""
    changed = [folder]
    while folder != root and not folder.exists():
        folder = folder.parent
        changed.append(folder)
    for made in reversed(changed[:-1]):
        made.mkdir(mode=0o700, exist_ok=True)
    return changed


def _flush(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextlib.contextmanager
def _told_apart(folder: Path) -> Iterator[None]:
    """Turns the system's errors into those of a storage. If the folder itself is missing, not only the file, the whole
    storage is away."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull from error
        if isinstance(error, FileNotFoundError) and (folder / INCOMING).exists():
            raise FileMissing from error
        raise StorageAway from error
