"""What may be given as the content of a file: bytes, a path, an open file, or chunks as they come."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from pathlib import Path
from typing import BinaryIO, Final

PIECE_BYTES: Final = 1_048_576
"""How much of a path or an open file is read at once."""

FileData = bytes | bytearray | memoryview | os.PathLike[str] | BinaryIO | Iterable[bytes] | AsyncIterable[bytes]


def size_of(data: FileData) -> int | None:
    """The number of bytes; None if it is unknown before they are read. Raises OSError if a path is inaccessible."""
    if isinstance(data, bytes | bytearray):
        return len(data)
    if isinstance(data, memoryview):
        return data.nbytes
    return Path(data).stat().st_size if isinstance(data, os.PathLike) else None


def can_be_read_again(data: FileData) -> bool:
    return isinstance(data, bytes | bytearray | memoryview | os.PathLike)


def name_of(data: FileData) -> str | None:
    """The name of a path or an open file."""
    found = data if isinstance(data, os.PathLike) else getattr(data, "name", None)
    return Path(found).name if isinstance(found, str | os.PathLike) else None


async def chunks_of(data: FileData) -> AsyncIterator[bytes]:
    """The content, piece by piece. Paths and open files are read on a thread."""
    if isinstance(data, str):
        raise TypeError("a file's content is bytes or a pathlib.Path, not text: encode it, or write Path(…)")
    if isinstance(data, bytes | bytearray | memoryview):
        view = memoryview(data).cast("B")
        for start in range(0, len(view), PIECE_BYTES):
            yield bytes(view[start : start + PIECE_BYTES])
    elif isinstance(data, os.PathLike):
        with await asyncio.to_thread(Path(data).open, "rb") as file:
            while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
                yield piece
    elif isinstance(data, AsyncIterable):
        async for chunk in data:
            yield bytes(chunk)
    elif hasattr(data, "read"):
        while piece := await asyncio.to_thread(data.read, PIECE_BYTES):
            if not isinstance(piece, bytes):
                raise TypeError("the open file gives text; open it in binary mode ('rb')")
            yield piece
    else:
        for chunk in data:
            yield bytes(chunk)
