"""A file as the body of a request: multipart/form-data, read piece by piece from its path, anew each time it is
sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

PIECE_BYTES: Final = 262_144


class FileForm(Struct, frozen=True):
    """One file under the form's field `file`."""

    name: str
    data: bytes | Path
    boundary: str
    size: int

    @classmethod
    def of(cls, name: str, data: bytes | Path, boundary: str) -> FileForm:
        return cls(name, data, boundary, len(data) if isinstance(data, bytes) else data.stat().st_size)

    @property
    def headers(self) -> dict[str, str]:
        length = len(self._head) + self.size + len(self._tail)
        return {
            "Content-Type": f"multipart/form-data; boundary={self.boundary}",
            "Content-Length": str(length),
        }

    @property
    def _head(self) -> bytes:
        # As browsers write it: the three characters that would end the name are escaped.
        name = self.name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        line = f'Content-Disposition: form-data; name="file"; filename="{name}"'
        return f"--{self.boundary}\r\n{line}\r\n\r\n".encode("utf-8", "replace")

    @property
    def _tail(self) -> bytes:
        return f"\r\n--{self.boundary}--\r\n".encode()

    def pieces(self) -> Iterator[bytes]:
        yield self._head
        if isinstance(self.data, bytes):
            yield self.data
        else:
            with self.data.open("rb") as file:
                while piece := file.read(PIECE_BYTES):
                    yield piece
        yield self._tail

    async def async_pieces(self) -> AsyncIterator[bytes]:
        """The same; the file is read on a thread."""
        pieces = self.pieces()
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece
