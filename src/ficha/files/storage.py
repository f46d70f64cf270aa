"""Where the bytes of files are kept: on local disk (`local_disk`) or in an S3-compatible store (`s3`).

A storage knows keys and bytes, but not whose a file is, its name or how long it is kept. A file appears under its key
whole or not at all; bytes pass through in pieces, so memory does not grow with a file.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Any, Final

from msgspec import Struct

HEAD_BYTES: Final = 4096
"""How much of a file's beginning is kept in memory, to detect its type."""
PIECE_BYTES: Final = 1_048_576
"""How much is read or written at once, unless the storage asks for other pieces."""
INCOMING: Final = ".incoming"
"""The folder of files that are not complete or not accepted yet; no key can name it. Presigned uploads go there too, so
that a URL that is still valid cannot change a file."""
NOT_UPLOADED: Final = "nothing was uploaded; PUT the file to its upload URL first"

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,128}(?:/[A-Za-z0-9_-]{1,128}){0,3}")


class StorageError(Exception):
    """Bytes that could not be stored or read; the message is for people."""


class FileTooLarge(StorageError):
    """The bytes are more than the caller allows. Nothing was stored."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the file is larger than the {most_bytes} bytes that are allowed; send a smaller one")
        self.most_bytes = most_bytes


class StorageFull(StorageError):
    """The storage is full: an operator has to make room. Nothing was stored."""

    def __init__(self, words: str = "the file storage is full; try again later") -> None:
        super().__init__(words)


class StorageAway(StorageError):
    """The storage cannot be reached or does not work; the same call may succeed later. Nothing was stored."""

    def __init__(self, words: str = "the file storage cannot be reached at the moment; try again later") -> None:
        super().__init__(words)


class FileMissing(StorageError):
    """No bytes are stored under the key."""

    def __init__(self, words: str = "the file is not in the storage") -> None:
        super().__init__(words)


class StoredBytes(Struct, frozen=True):
    """What was stored: how many bytes, their SHA-256 in hexadecimal digits, and the first of them."""

    size: int
    digest: str
    head: bytes


class FileStorage(ABC):
    """A place for bytes under keys like `account/file`, made of ASCII letters, digits, - and _."""

    @abstractmethod
    async def put(self, key: str, chunks: AsyncIterable[bytes], most_bytes: int) -> StoredBytes:
        """Stores the chunks under the key and replaces what was there, once all of them are on stable storage.

        Raises FileTooLarge, StorageFull, StorageAway, or what `chunks` raises. The key then has what it had before."""

    @abstractmethod
    def get(self, key: str, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `start` to before `end`. Raises FileMissing before the first byte, StorageAway at any time.
        Close the generator (`aclosing`) if it may not be read to its end."""

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Removes the bytes, also those uploaded to a presigned URL; it is no error if there are none."""

    @abstractmethod
    async def size(self, key: str) -> int | None:
        """How many bytes are stored under the key; None if none are."""

    async def presign_put(self, key: str, expires_s: int, size: int, media_type: str) -> str | None:
        """A URL to which anyone may PUT exactly `size` bytes, with this Content-Type, for `expires_s`. None if the
        storage takes no direct uploads. The uploaded bytes are a file only after `accept`."""
        return None

    async def accept(self, key: str, most_bytes: int) -> StoredBytes:
        """Makes the bytes uploaded to a presigned URL the file of this key; later uploads to the URL no longer change
        it. Raises FileMissing if nothing was uploaded, and FileTooLarge after it has removed the bytes."""
        raise FileMissing(NOT_UPLOADED)

    async def presign_get(self, key: str, expires_s: int, media_type: str, disposition: str) -> str | None:
        """A URL from which anyone may read the file for `expires_s`, with these headers. None if the storage has no
        direct downloads."""
        return None

    async def close(self) -> None:  # noqa: B027 (nothing to close is the rule)
        """Releases threads and connections."""


def open_storage(url: str, **options: Any) -> FileStorage:
    """The storage that a URL names: `file:folder`, `file:///folder` or `s3://bucket/prefix?endpoint=…`. Raises
    ValueError for any other. options: those of the storage's class."""
    scheme, colon, _ = url.partition(":")
    if colon and scheme == "file":
        from .local_disk import LocalDisk

        return LocalDisk.at(url, **options)
    if colon and scheme == "s3":
        from .s3 import S3Storage

        return S3Storage.at(url, **options)
    raise ValueError(
        "a file storage's URL is like file:folder, file:///folder or s3://bucket/prefix?endpoint=…, "
        f"not {scheme[:20]!r}"
    )


def checked_key(key: str) -> str:
    """The key, which Ficha makes, never a user. Raises ValueError for a key that could be a path."""
    if not _KEY.fullmatch(key):
        raise ValueError(
            f"a storage key is one to four names of letters, digits, - and _, with / between: {key[:80]!r}"
        )
    return key


class ByteCount:
    """Counts and digests bytes as they pass, and keeps the first of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._digest = hashlib.sha256()
        self.size = 0
        self._head = b""

    def count(self, chunk: bytes) -> None:
        """Counts a chunk; raises FileTooLarge once there are too many bytes."""
        self.size += len(chunk)
        if self.size > self._most_bytes:
            raise FileTooLarge(self._most_bytes)
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - len(self._head)]

    def digest(self, chunk: bytes) -> None:
        """Digests a chunk. Separate from `count`, because this takes long enough to belong on a thread."""
        self._digest.update(chunk)

    def stored(self) -> StoredBytes:
        return StoredBytes(self.size, self._digest.hexdigest(), self._head)


async def pieces(
    chunks: AsyncIterable[bytes], counted: ByteCount, piece_bytes: int
) -> AsyncGenerator[list[bytes], None]:
    """The chunks, counted and gathered into lists of at least `piece_bytes` bytes, the last of which may be shorter."""
    gathered: list[bytes] = []
    size = 0
    async for chunk in chunks:
        counted.count(chunk)
        gathered.append(chunk)
        size += len(chunk)
        if size >= piece_bytes:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered
