"""Takes off a picture what says where and with which device it was made: EXIF, XMP and IPTC fields.

Only the parts of the file around the compressed picture are looked at, so nothing is decoded and the picture stays bit
for bit as it is. Kept are the orientation (as an EXIF block with this one field, which viewers apply), the colour
profile, texts that are no such fields, and provenance: C2PA manifests, and `DigitalSourceType` and `provenance` of XMP.
What does not follow its format is copied as it is; whether it can be decoded is for `inspection` to judge.
"""

from __future__ import annotations

import asyncio
import mmap
import re
import struct
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from .storage import StorageAway

HEAD_BYTES: Final = 16
CHUNK: Final = 262_144
PNG: Final = b"\x89PNG\r\n\x1a\n"
MARKER: Final = re.compile(rb"\xff+[^\x00\xd0-\xd7\xff]")
"""What ends compressed data of a JPEG: no stuffed byte and no restart."""
XMP_IN_JPEG: Final = b"http://ns.adobe.com/xap/1.0/\0"
XMP_IN_PNG: Final = b"XML:com.adobe.xmp"
FIELDS_AS_TEXT: Final = re.compile(rb"(?i)(?:raw profile type (?:exif|app1|iptc|xmp|8bim)|source)\0")
"""Texts of a PNG that hold such fields; PNG's `Source` is the device."""
PROVENANCE: Final = (
    ("http://iptc.org/std/Iptc4xmpExt/2008-02-29/", "DigitalSourceType"),
    ("http://purl.org/dc/terms/", "provenance"),
)
PRIVATE_WORDS: Final = re.compile(rb"(?i)gps|:make|:model|serialnumber|ownername|:city|:location|lens")
PLACE_OR_DEVICE: Final = frozenset({0x8825, 0x010F, 0x0110, 0xA430, 0xA431, 0xA433, 0xA434, 0xA435, 0x927C})
"""EXIF's position, maker, model, owner, serial numbers, lens and maker's note."""
ORIENTATION: Final = 0x0112
EXIF_BLOCK: Final = 0x8769

Piece = bytes | tuple[int, int]
"""New bytes, or where bytes of the file begin and end."""


async def without_place_and_device(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The bytes of a file; those of a JPEG, PNG or WebP without these fields. A picture is put aside on disk first."""
    head = b""
    async for chunk in chunks:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    if _kind(head) is None:
        yield head
        async for chunk in chunks:
            yield chunk
        return
    copy: Any = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        await asyncio.to_thread(_write, copy, head)
        async for chunk in chunks:
            await asyncio.to_thread(_write, copy, chunk)
        with mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for piece in await asyncio.to_thread(pieces_of, data):
                if isinstance(piece, bytes):
                    yield piece
                    continue
                for start in range(piece[0], piece[1], CHUNK):
                    yield data[start : min(start + CHUNK, piece[1])]
    finally:
        copy.close()


def _write(copy: Any, chunk: bytes) -> None:
    try:
        copy.write(chunk)
        copy.flush()
    except OSError as error:
        raise StorageAway("the picture cannot be put aside: no room is left for a copy; try again later") from error


def pieces_of(data: Any) -> list[Piece]:
    """What a picture consists of without these fields."""
    kind = _kind(data[:HEAD_BYTES])
    found = [*_PARTS[kind](data)] if kind is not None else [(0, len(data))]
    return [piece for piece in found if isinstance(piece, bytes) or piece[0] < piece[1]]


def _kind(head: bytes) -> str | None:
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith(PNG):
        return "png"
    return "webp" if head.startswith(b"RIFF") and head[8:12] == b"WEBP" else None


def _jpeg(data: Any) -> Iterator[Piece]:
    signed = _is_signed(data, b"c2pa")
    at, end = 0, len(data)
    while data[at : at + 2] == b"\xff\xd8":
        yield at, at + 2
        at += 2
        while True:
            if at + 4 > end or data[at] != 0xFF:
                yield at, end
                return
            marker = data[at + 1]
            if marker in (0xFF, 0x01) or 0xD0 <= marker <= 0xD7:
                yield at, at + 1 + (marker != 0xFF)
                at += 1 + (marker != 0xFF)
                continue
            if marker == 0xD9:
                break
            length = int.from_bytes(data[at + 2 : at + 4])
            until = at + 2 + length
            if length < 2 or until > end:
                yield at, end
                return
            if marker in (0xE1, 0xED) and not (signed and not _tells(data[at:until])):
                yield from _jpeg_fields(data[at + 4 : until])
            else:
                yield at, until
            at = until
            if marker == 0xDA:
                following = MARKER.search(data, at)
                if following is None:
                    yield at, end
                    return
                yield at, following.end() - 2
                at = following.end() - 2
        if data[at : at + 2] != b"\xff\xd9":
            break
        yield at, at + 2
        # Further pictures may follow, such as a gain map; anything else behind the end is of the device.
        at += 2


def _jpeg_fields(body: bytes) -> Iterator[bytes]:
    kept = b""
    if body.startswith(b"Exif\0\0"):
        kept = _with(b"Exif\0\0", _upright(body[6:]))
    elif body.startswith(XMP_IN_JPEG):
        kept = _with(XMP_IN_JPEG, _provenance(body[len(XMP_IN_JPEG) :]))
    if kept and len(kept) <= len(body):
        yield b"\xff\xe1" + (len(kept) + 2).to_bytes(2) + kept


def _png(data: Any) -> Iterator[Piece]:
    signed = _is_signed(data, b"caBX")
    at, end = len(PNG), len(data)
    yield 0, at
    while at + 12 <= end:
        length, kind = int.from_bytes(data[at : at + 4]), data[at + 4 : at + 8]
        until = at + 12 + length
        if until > end:
            break
        body = data[at + 8 : until - 4] if kind in (b"eXIf", b"iTXt", b"tEXt", b"zTXt") and length < 2**26 else b""
        if not body or (signed and not _tells(body)):
            yield at, until
        elif kind == b"eXIf":
            yield from _chunk(kind, _upright(body), length)
        elif kind == b"iTXt" and body.startswith(XMP_IN_PNG + b"\0"):
            yield from _chunk(kind, _with(XMP_IN_PNG + b"\0\0\0\0\0", _provenance(body)), length)
        elif not FIELDS_AS_TEXT.match(body):
            yield at, until
        at = until
        if kind == b"IEND":
            break
    yield at, end


def _chunk(kind: bytes, body: bytes, most: int) -> Iterator[bytes]:
    if body and len(body) <= most:
        yield len(body).to_bytes(4) + kind + body + zlib.crc32(kind + body).to_bytes(4)


def _webp(data: Any) -> list[Piece]:
    signed = _is_signed(data, b"C2PA")
    pieces: list[Piece] = []
    at, end, flags_at = 12, min(len(data), 8 + int.from_bytes(data[4:8], "little")), None
    has_exif = has_xmp = False
    while at + 8 <= end:
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        until = at + 8 + length + length % 2
        if at + 8 + length > end:
            return [(0, len(data))]
        body = data[at + 8 : at + 8 + length] if kind in (b"EXIF", b"XMP ") else b""
        is_left = bool(body) and not (signed and not _tells(body))
        if kind == b"VP8X" and length >= 10:
            flags_at = len(pieces)
        if not is_left:
            pieces.append((at, min(until, len(data))))
            has_exif, has_xmp = has_exif or kind == b"EXIF", has_xmp or kind == b"XMP "
        else:
            kept = _upright(body.removeprefix(b"Exif\0\0")) if kind == b"EXIF" else _provenance(body)
            if kept and len(kept) <= length:
                pieces.append(kind + len(kept).to_bytes(4, "little") + kept + b"\0" * (len(kept) % 2))
                has_exif, has_xmp = has_exif or kind == b"EXIF", has_xmp or kind == b"XMP "
        at = until
    if flags_at is not None:
        start, stop = pieces[flags_at]
        header = bytearray(data[start:stop])
        header[8] = header[8] & ~0x0C | 0x08 * has_exif | 0x04 * has_xmp
        pieces[flags_at] = bytes(header)
    size = 4 + sum(len(piece) if isinstance(piece, bytes) else piece[1] - piece[0] for piece in pieces)
    return [b"RIFF" + size.to_bytes(4, "little") + b"WEBP", *pieces]


_PARTS: Final[dict[str, Any]] = {"jpeg": _jpeg, "png": _png, "webp": _webp}


def _is_signed(data: Any, name: bytes) -> bool:
    """Whether the file has a C2PA manifest, which is signed together with all other parts of the file."""
    return int(data.find(name)) >= 0


def _tells(part: bytes) -> bool:
    """Whether a part tells the place or the device. A part that does not stays in a signed file, whose signature holds
    only as long as nothing is changed."""
    exif = part.find(b"II*\0") if b"II*\0" in part else part.find(b"MM\0*")
    if exif >= 0 and b"<x:xmpmeta" not in part:
        tiff = part[exif:]
        return any(tag in PLACE_OR_DEVICE for tag, _ in _tags(tiff))
    return PRIVATE_WORDS.search(part) is not None


def _tags(tiff: bytes) -> Iterator[tuple[int, int]]:
    """The tags of the first directory and of EXIF's own, with short values."""
    order = "<" if tiff[:2] == b"II" else ">"
    try:
        directories = [struct.unpack_from(f"{order}I", tiff, 4)[0]]
        for place in directories:
            (count,) = struct.unpack_from(f"{order}H", tiff, place)
            for number in range(min(count, 512)):
                tag, kind, _, value = struct.unpack_from(f"{order}HHII", tiff, place + 2 + 12 * number)
                short = struct.unpack_from(f"{order}H", tiff, place + 2 + 12 * number + 8)[0] if kind == 3 else value
                yield tag, short
                if tag == EXIF_BLOCK and len(directories) == 1:
                    directories.append(value)
    except struct.error:
        return


def _upright(tiff: bytes) -> bytes:
    """An EXIF block with the orientation alone; empty if the picture is upright as it is."""
    turned = next((value for tag, value in _tags(tiff) if tag == ORIENTATION), 1)
    if not 2 <= turned <= 8:
        return b""
    return b"II*\0" + struct.pack("<IHHHIHHI", 8, 1, ORIENTATION, 3, 1, turned, 0, 0)


def _provenance(xmp: bytes) -> bytes:
    """An XMP packet with the words on provenance alone; empty without them."""
    kept = []
    for number, (space, name) in enumerate(PROVENANCE):
        found = re.search(rb"[\w.-]+:%s(?:\s*=\s*(?:\"([^\"<>]*)\"|'([^'<>]*)')|>([^<>]*)<)" % name.encode(), xmp)
        if found is not None:
            value = next(group for group in found.groups() if group is not None).replace(b'"', b"&quot;").strip()
            kept.append(b' xmlns:n%d="%s" n%d:%s="%s"' % (number, space.encode(), number, name.encode(), value))
    if not kept:
        return b""
    return (
        b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
        b'<rdf:Description rdf:about=""' + b"".join(kept) + b"/></rdf:RDF></x:xmpmeta>"
    )


def _with(prefix: bytes, body: bytes) -> bytes:
    return prefix + body if body else b""
