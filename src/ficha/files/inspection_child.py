"""Decodes untrusted files in a process that has little to lose: `inspection` starts it.

It is a program of its own that imports nothing of Ficha. Over a socket it gets one request at a time, a line of JSON
with the descriptor of the file, and answers with a line. It has limits on memory, on processor time per file and on
open files, and may write no file at all. An exploit of a decoder gets control of this process only, which has no
secrets and no part of the application.
"""

from __future__ import annotations

import bz2
import contextlib
import io
import itertools
import json
import lzma
import os
import resource
import socket
import struct
import sys
import tarfile
import warnings
import zipfile
import zlib
from typing import Any, BinaryIO, Final

CHUNK: Final = 262_144
LONGEST: Final = 65_536
OPEN_FILES: Final = 32


class Unsafe(Exception):
    """A file that is refused; the message is for the user."""


class Broken(Exception):
    """An archive that cannot be read further."""


class Budget:
    """The limits of all archives in a file together, those inside of others included, and what was used of them."""

    def __init__(self, limits: dict[str, Any], size: int) -> None:
        self.entries = limits["archive_entries"]
        self.depth = limits["archive_depth"]
        self.inner_bytes = limits["inner_archive_bytes"]
        self.most_bytes = limits["archive_bytes"]
        self.ratio = limits["archive_ratio"]
        self.by_ratio = max(size, 1) * limits["archive_ratio"] + limits["ratio_free_bytes"]
        self.unpacked = 0
        self.names = 0

    def unpack(self, size: int) -> None:
        self.unpacked += size
        if self.unpacked > self.most_bytes:
            raise Unsafe(f"the archive unpacks to more than the {self.most_bytes} bytes that are allowed")
        if self.unpacked > self.by_ratio:
            raise Unsafe(f"the archive unpacks to more than {self.ratio} times its size")

    def enter(self, count: int = 1) -> None:
        self.names += count
        if self.names > self.entries:
            raise Unsafe(f"the archive has more than the {self.entries} entries that are allowed")


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    memory, cpu_s = int(sys.argv[2]), int(sys.argv[3])
    warnings.simplefilter("ignore")
    from PIL import (  # noqa: F401 (each registers its format)
        AvifImagePlugin,
        BmpImagePlugin,
        GifImagePlugin,
        Image,
        JpegImagePlugin,
        MpoImagePlugin,
        PngImagePlugin,
        TiffImagePlugin,
        WebPImagePlugin,
    )

    # Pillow's own limit is off: those of the request are checked before anything is decoded.
    Image.MAX_IMAGE_PIXELS = None
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_AS, memory),
    ):
        _limit(what, most)
    control.sendall(b"ready\n")
    while True:
        text, files, _, _ = socket.recv_fds(control, LONGEST, 1)
        if not text:
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        until = int(used.ru_utime + used.ru_stime) + cpu_s + 1
        resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
        with open(files[0], "rb") as file:
            answer = inspected(json.loads(text), file)
        control.sendall(json.dumps(answer).encode() + b"\n")


def _limit(what: int, most: int) -> None:
    hard = resource.getrlimit(what)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # Not every system can limit everything; the parent's time limit stays.
    with contextlib.suppress(ValueError):
        resource.setrlimit(what, (most, most))


def inspected(request: dict[str, Any], file: BinaryIO) -> dict[str, Any]:
    """The findings, or `unsafe` with the message for the user."""
    try:
        if "image" in request:
            if end_of_zip(file) is not None:
                raise Unsafe("the file is an image and an archive at once; send one of them")
            file.seek(0)
            return image(file, request["image"], request["limits"])
        budget = Budget(request["limits"], os.fstat(file.fileno()).st_size)
        archive(file, request["archive"], budget, 1)
        return {"entries": budget.names, "unpacked": budget.unpacked}
    except Unsafe as error:
        return {"unsafe": str(error)}
    except MemoryError:
        return {"unsafe": "the file needs more memory to be read than is allowed"}
    except RecursionError:
        return {"unsafe": "the file is nested too deeply"}
    except Exception as error:
        # A decoder may raise anything on malformed data.
        words = " ".join(str(error).split())[:200] or type(error).__name__
        return {"unsafe": f"the file is broken or cut off; send it again, whole ({words})"}


def image(file: BinaryIO, kind: str, limits: dict[str, Any]) -> dict[str, Any]:
    """Decodes every frame, one at a time."""
    from PIL import Image

    pixels, frames, total = limits["pixels"], limits["frames"], limits["total_pixels"]
    with Image.open(file, formats=[kind]) as opened:
        width, height = opened.size
        count = decoded = 0
        while True:
            size = opened.size[0] * opened.size[1]
            if size > pixels:
                raise Unsafe(
                    f"the image has {size} pixels, more than the {pixels} that are allowed; send a smaller one"
                )
            count += 1
            if count > frames:
                raise Unsafe(f"the image has more than the {frames} frames that are allowed")
            decoded += size
            if decoded > total:
                raise Unsafe(f"the image's frames have more than the {total} pixels that are allowed in all")
            opened.load()
            try:
                opened.seek(count)
            except EOFError:
                break
    return {"width": width, "height": height, "frames": count}


def archive(file: Any, kind: str, budget: Budget, depth: int) -> None:
    """Unpacks an archive, discards the output and counts. A zip must be seekable; others are read as streams."""
    if depth > budget.depth:
        raise Unsafe(f"the archive has archives inside of archives, more than {budget.depth} deep")
    if kind == "zip":
        zip_archive(file, budget, depth)
    elif kind == "tar":
        tar_archive(file, budget, depth)
    else:
        budget.enter()
        inner(Unpacked(file, UNPACKERS[kind], budget), budget, depth)


def zip_archive(file: BinaryIO, budget: Budget, depth: int) -> None:
    """Unpacks and counts every entry, because the sizes that its header declares prove nothing."""
    entries = end_of_zip(file)
    if entries is None:
        raise Broken("it has no end, or something after its end")
    budget.enter(entries)
    with zipfile.ZipFile(file) as opened:
        budget.enter(max(0, len(opened.filelist) - entries))
        taken: list[tuple[int, int]] = []
        for entry in opened.filelist:
            if entry.flag_bits & 1:
                raise Unsafe("the archive is encrypted, so nobody can say what is in it; send it without a password")
            begins = content_begins(file, entry.header_offset)
            taken.append((entry.header_offset, begins + entry.compress_size))
        taken.sort()
        if any(end > start for (_, end), (start, _) in itertools.pairwise(taken)):
            raise Unsafe("the archive's entries overlap, so it unpacks to far more than it is")
        for entry in opened.filelist:
            if entry.compress_type not in METHODS:
                raise Unsafe(f"the archive is packed by method {entry.compress_type}, which is not read; use deflate")
            begins = content_begins(file, entry.header_offset)
            part = FileSlice(file, begins, entry.compress_size)
            inner(Unpacked(part, METHODS[entry.compress_type], budget), budget, depth)


def end_of_zip(file: BinaryIO) -> int | None:
    """How many entries the record at a zip's end names; None if there is no such record at the file's end."""
    size = file.seek(0, os.SEEK_END)
    tail_size = min(size, 65_535 + 22)
    file.seek(size - tail_size)
    tail = file.read(tail_size)
    at = len(tail)
    while (at := tail.rfind(b"PK\x05\x06", 0, at)) >= 0:
        if len(tail) - at >= 22 and at + 22 + struct.unpack_from("<H", tail, at + 20)[0] == len(tail):
            entries: int = struct.unpack_from("<H", tail, at + 10)[0]
            return entries
    return None


def content_begins(file: BinaryIO, header: int) -> int:
    file.seek(header)
    found = file.read(30)
    if len(found) < 30 or found[:4] != b"PK\x03\x04":
        raise Broken("an entry is not where its directory says")
    name, extra = struct.unpack_from("<HH", found, 26)
    return int(header + 30 + name + extra)


def tar_archive(file: Any, budget: Budget, depth: int) -> None:
    """Reads every entry. A tar compresses nothing, but a sparse entry may declare any size, and an entry may be an
    archive."""
    with tarfile.open(fileobj=file, mode="r|") as opened:
        for entry in opened:
            budget.enter()
            if entry.issparse():
                budget.unpack(entry.size)
            elif entry.isfile() and (content := opened.extractfile(entry)) is not None:
                inner(content, budget, depth)
            # tarfile would keep every entry in memory.
            opened.members = []  # type: ignore[attr-defined]


def inner(stream: Any, budget: Budget, depth: int) -> None:
    """Reads the content to its end, and unpacks it if it is an archive itself."""
    whole = Rejoined(stream)
    kind = archive_kind(whole.head)
    try:
        if kind == "zip":
            archive(_kept(whole, budget.inner_bytes), kind, budget, depth + 1)
        elif kind is not None:
            archive(whole, kind, budget, depth + 1)
    except BROKEN:
        pass  # Content that cannot be unpacked does not grow.
    while whole.read(CHUNK):
        pass


def _kept(stream: Any, most: int) -> BinaryIO:
    kept = io.BytesIO()
    while chunk := stream.read(CHUNK):
        if kept.tell() + len(chunk) > most:
            raise Unsafe(f"a zip inside of the archive is larger than the {most} bytes that are looked into")
        kept.write(chunk)
    return kept


def archive_kind(head: bytes) -> str | None:
    for beginning, kind in (
        (b"PK\x03\x04", "zip"),
        (b"PK\x05\x06", "zip"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\xfd7zXZ\0", "xz"),
    ):
        if head.startswith(beginning):
            return kind
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return "tar" if head[257:262] == b"ustar" else None


class Rejoined:
    """A stream whose first bytes were peeked at, read from its start."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.head = b""
        while len(self.head) < 512 and (chunk := stream.read(512 - len(self.head))):
            self.head += chunk
        self._rest = self.head

    def read(self, size: int = CHUNK) -> bytes:
        if self._rest:
            found, self._rest = self._rest[:size], self._rest[size:]
            return found
        chunk: bytes = self._stream.read(size)
        return chunk


class FileSlice:
    """A range of a file, read from its start."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        self._file = file
        self._at = start
        self._left = size

    def read(self, size: int = CHUNK) -> bytes:
        self._file.seek(self._at)
        found = self._file.read(min(size, self._left))
        self._at += len(found)
        self._left -= len(found)
        return found


class Unpacked:
    """A packed stream, unpacked in bounded pieces and counted."""

    def __init__(self, packed: Any, kind: Any, budget: Budget) -> None:
        self._packed = packed
        self._kind = kind
        self._budget = budget
        self._unpacker = kind()
        self._ready = b""

    def read(self, size: int = CHUNK) -> bytes:
        while not self._ready:
            given = b""
            if self._unpacker.eof:
                given = self._unpacker.unused_data or self._packed.read(CHUNK)
                # Several packed streams may follow each other, and zeros may pad the end.
                if not self._unpacker.repeats or not given.strip(b"\0"):
                    return b""
                self._unpacker = self._kind()
            elif self._unpacker.needs_input and not (given := self._packed.read(CHUNK)):
                if self._unpacker.may_end:
                    return b""
                raise Broken("it is cut off")
            self._ready = self._unpacker.decompress(given, CHUNK)
            self._budget.unpack(len(self._ready))
        found, self._ready = self._ready[:size], self._ready[size:]
        return found


class Deflate:
    """zlib's decompressor with the interface of the others."""

    window = -zlib.MAX_WBITS
    repeats = False
    may_end = False

    def __init__(self) -> None:
        self._object = zlib.decompressobj(self.window)
        self._has_more = False

    @property
    def eof(self) -> bool:
        return self._object.eof

    @property
    def needs_input(self) -> bool:
        return not self._has_more and not self._object.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._object.unused_data

    def decompress(self, data: bytes, most: int) -> bytes:
        found = self._object.decompress(self._object.unconsumed_tail + data, most)
        self._has_more = len(found) == most
        return found


class Gzip(Deflate):
    window = 16 + zlib.MAX_WBITS
    repeats = True


class Bzip2:
    repeats = True
    may_end = False

    def __init__(self) -> None:
        self._object: Any = bz2.BZ2Decompressor()
        self.decompress = self._object.decompress

    @property
    def eof(self) -> bool:
        return bool(self._object.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._object.needs_input)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._object.unused_data)


class Xz(Bzip2):
    """LZMA with a limit on the memory that a stream may request."""

    def __init__(self) -> None:
        self._object = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=134_217_728)
        self.decompress = self._object.decompress


class NotPacked:
    eof = repeats = False
    needs_input = may_end = True
    unused_data = b""

    def decompress(self, data: bytes, most: int) -> bytes:
        return data


UNPACKERS: Final[dict[str, Any]] = {"gzip": Gzip, "bzip2": Bzip2, "xz": Xz}
METHODS: Final[dict[int, Any]] = {
    zipfile.ZIP_STORED: NotPacked,
    zipfile.ZIP_DEFLATED: Deflate,
    zipfile.ZIP_BZIP2: Bzip2,
}
BROKEN: Final = (
    *(Broken, EOFError, OSError, ValueError, IndexError, KeyError, NotImplementedError, struct.error, zlib.error),
    *(lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile),
)
"""The exceptions for an archive that cannot be read."""

if __name__ == "__main__":
    main()
