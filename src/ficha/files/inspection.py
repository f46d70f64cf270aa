"""Inspects a file before anybody uses it: detects its type by its bytes, and checks that it may safely be decoded.

A child process with limits (`inspection_child`) decodes images and unpacks archives, and discards the output. A few
children are kept for the next files; one that exceeds a limit dies alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..extras import needs_extra
from .inspection_limits import InspectionLimits
from .local_disk import LocalDisk
from .sniffing import ARCHIVES, IMAGES, UNREADABLE, media_type_of
from .storage import FileStorage, StorageAway, StoredBytes

with needs_extra("files"):
    import PIL  # noqa: F401 (the child needs it, and cannot say so)

PROGRAM: Final = Path(__file__).with_name("inspection_child.py")
VARIABLES: Final = (
    *("DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH", "TMPDIR"),
    *("VIRTUAL_ENV",),
)
"""The only environment variables that the child gets. None of them holds a secret."""
FILES_PER_CHILD: Final = 200
"""How many files a child inspects before it is replaced, so that leaks and leftovers in it do not stay for long."""
START_S: Final = 60.0
ANSWER_BYTES: Final = 65_536
ZIP_END_BYTES: Final = 65_535 + 22
"""The longest that the record at the end of a zip can be."""


class UnsafeFile(Exception):
    """A file that is refused for its content; the message is for its sender."""


class Inspected(Struct, frozen=True):
    """What a file is. width, height and frames: of an image. entries, unpacked: of an archive."""

    media_type: str
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    entries: int | None = None
    unpacked: int | None = None


class Inspector:
    """Inspects files, `at_once` at a time, and one at a time per account, which the first name of a key stands for.
    Raises StorageAway if a file waits too long for its turn."""

    def __init__(self, limits: InspectionLimits | None = None) -> None:
        self.limits = limits or InspectionLimits()
        self._turns = asyncio.Semaphore(self.limits.at_once)
        self._owners: dict[str, asyncio.Lock] = {}
        self._waiting: Counter[str] = Counter()
        self._idle: list[InspectionProcess] = []
        self._is_closed = False

    async def inspect(self, storage: FileStorage, key: str, stored: StoredBytes) -> Inspected:
        """Inspects the file. Raises UnsafeFile; FileMissing and StorageAway if it cannot be inspected now."""
        media_type = media_type_of(stored.head)
        if media_type in IMAGES:
            task = {"image": IMAGES[media_type]}
        elif media_type in ARCHIVES:
            task = {"archive": ARCHIVES[media_type]}
        elif media_type in UNREADABLE and not self.limits.unreadable_archives:
            raise UnsafeFile(f"{media_type} cannot be looked into; send a zip or a gzip")
        elif await _ends_as_zip(storage, key, stored.size):
            # Programs that unpack zips skip any data before the archive.
            task = {"archive": "zip"}
        else:
            return Inspected(media_type)
        async with self._turn(key.partition("/")[0]), _as_file(storage, key) as file:
            found = await self._ask(task, file)
        if found.unsafe is not None:
            raise UnsafeFile(found.unsafe[:500])
        return Inspected(media_type, found.width, found.height, found.frames, found.entries, found.unpacked)

    async def close(self) -> None:
        """Ends the children."""
        self._is_closed = True
        for child in self._idle:
            await child.end()
        self._idle.clear()

    @contextlib.asynccontextmanager
    async def _turn(self, owner: str) -> AsyncIterator[None]:
        lock = self._owners.setdefault(owner, asyncio.Lock())
        self._waiting[owner] += 1
        try:
            async with contextlib.AsyncExitStack() as held:
                try:
                    async with asyncio.timeout(self.limits.wait_s):
                        await held.enter_async_context(lock)
                        await held.enter_async_context(self._turns)
                except TimeoutError:
                    raise StorageAway("too many files are looked into at the moment; try again later") from None
                yield
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner], self._owners[owner]

    async def _ask(self, task: dict[str, str], file: int) -> ChildAnswer:
        child = self._idle.pop() if self._idle else await InspectionProcess.start(self.limits)
        try:
            answer = await child.ask(msgspec.json.encode({**task, "limits": self.limits}), file)
        except BaseException:
            await child.end()
            raise
        if self._is_closed or answer.is_last or child.asked >= FILES_PER_CHILD:
            await child.end()
        else:
            self._idle.append(child)
        return answer


class ChildAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What a child found. The file that it decoded may control the child, so nothing but this shape is trusted.
    is_last: the child is not used again."""

    unsafe: str | None = None
    width: int | None = None
    height: int | None = None
    frames: int | None = None
    entries: int | None = None
    unpacked: int | None = None
    is_last: bool = False


class InspectionProcess:
    """One child."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, limits: InspectionLimits) -> None:
        self._process = process
        self._control = control
        self._limits = limits
        self.asked = 0

    @classmethod
    async def start(cls, limits: InspectionLimits) -> InspectionProcess:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            command = [sys.executable, "-P", str(PROGRAM), str(theirs.fileno())]
            command += [str(limits.memory_bytes), str(limits.cpu_s)]
            try:
                process = await asyncio.to_thread(_popen, command, theirs.fileno())
            except OSError as error:
                ours.close()
                raise StorageAway("files cannot be looked into at the moment; try again later") from error
        child = cls(process, ours, limits)
        try:
            async with asyncio.timeout(START_S):
                is_ready = await child._line() == b"ready"
        except TimeoutError:
            is_ready = False
        except BaseException:
            await child.end()
            raise
        if not is_ready:
            await child.end()
            raise StorageAway("files cannot be looked into at the moment; try again later")
        return child

    async def ask(self, request: bytes, file: int) -> ChildAnswer:
        self.asked += 1
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                # A request is far smaller than a socket's buffer, so it is sent at once.
                socket.send_fds(self._control, [request], [file])
                line = await self._line()
        except (TimeoutError, OSError):
            line = b""
        try:
            return msgspec.json.decode(line, type=ChildAnswer)
        except msgspec.MsgspecError:
            # It ran out of time, was killed by a limit, or crashed.
            return ChildAnswer("the file takes more time or memory to be read than is allowed", is_last=True)

    async def end(self) -> None:
        self._control.close()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def _line(self) -> bytes:
        """Reads a line; returns what has arrived so far if the child ends first."""
        loop = asyncio.get_running_loop()
        line = b""
        while not line.endswith(b"\n") and len(line) < ANSWER_BYTES:
            chunk = await loop.sock_recv(self._control, ANSWER_BYTES)
            if not chunk:
                break
            line += chunk
        return line.removesuffix(b"\n")


def _popen(command: list[str], control: int) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return subprocess.Popen(  # noqa: S603 (this interpreter, and a program of this room)
        command,
        env=environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control,),
        start_new_session=True,
    )


@contextlib.asynccontextmanager
async def _as_file(storage: FileStorage, key: str) -> AsyncIterator[int]:
    """A descriptor of the file: its own on local disk, else that of a temporary copy without a name."""
    if isinstance(storage, LocalDisk):
        file = await asyncio.to_thread(storage.open_file, key)
        try:
            yield file
        finally:
            os.close(file)
        return
    copy: Any = await asyncio.to_thread(tempfile.TemporaryFile, buffering=0)
    try:
        async with aclosing(storage.get(key)) as chunks:
            async for chunk in chunks:
                await asyncio.to_thread(_write, copy, chunk)
        copy.seek(0)
        yield copy.fileno()
    finally:
        copy.close()


def _write(copy: Any, chunk: bytes) -> None:
    rest = memoryview(chunk)
    try:
        while rest:
            rest = rest[copy.write(rest) :]
    except OSError as error:
        raise StorageAway("the file cannot be looked into: no room is left for a copy; try again later") from error


async def _ends_as_zip(storage: FileStorage, key: str, size: int) -> bool:
    tail = b""
    async with aclosing(storage.get(key, max(0, size - ZIP_END_BYTES), size)) as chunks:
        async for chunk in chunks:
            tail += chunk
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at)) >= 0:
        if len(tail) - at >= 22 and at + 22 + int.from_bytes(tail[at + 20 : at + 22], "little") == len(tail):
            return True
    return False
