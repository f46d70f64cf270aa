"""Files that were made to do harm, made anew for each test."""

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib

from PIL import Image

ZEROS = b"\0" * 20_000_000


def image(kind: str = "PNG", width: int = 20, height: int = 10) -> bytes:
    written = io.BytesIO()
    Image.effect_noise((width, height), 50).convert("RGB").save(written, kind)
    return written.getvalue()


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    """A PNG that says it is so large, with as much of its content as is given."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    )


def gif(frames: int, width: int = 1, height: int = 1) -> bytes:
    frame = b"\x2c\0\0\0\0" + struct.pack("<HH", width, height) + b"\0\x02\x02\x44\x01\0"
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x80\0\0\xff\xff\xff\0\0\0" + frame * frames + b"\x3b"


def zipped(*entries: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for number, content in enumerate(entries):
            archive.writestr(f"entry-{number}", content)
    return written.getvalue()


def nested(depth: int, innermost: bytes = b"x") -> bytes:
    for _ in range(depth):
        innermost = zipped(innermost, method=zipfile.ZIP_STORED)
    return innermost


def lying_zip() -> bytes:
    """Its directory says that the entry is ten bytes long."""
    archive = bytearray(zipped(ZEROS))
    at = archive.rindex(b"PK\x01\x02")
    struct.pack_into("<I", archive, at + 24, 10)
    struct.pack_into("<I", archive, 22, 10)
    return bytes(archive)


def overlapping_zip(entries: int = 5) -> bytes:
    """All entries are the same bytes of the file."""
    archive = zipped(b"x" * 1_000)
    end = archive.rindex(b"PK\x05\x06")
    directory = archive.rindex(b"PK\x01\x02")
    record = archive[directory:end]
    ending = struct.pack("<HHII", entries, entries, len(record) * entries, directory)
    return archive[:directory] + record * entries + archive[end : end + 8] + ending + b"\0\0"


def encrypted_zip() -> bytes:
    archive = bytearray(zipped(b"secret"))
    archive[6] |= 1
    archive[archive.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(archive)


def sparse_tar(size: int = 10**12) -> bytes:
    """An entry without content that is unpacked to so many bytes."""
    entry = tarfile.TarInfo("holes")
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0%011o\0" % (0, 0)
    header[483:495] = tarfile.itn(size, 12, tarfile.GNU_FORMAT)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    return bytes(header[:512]) + b"\0" * 1024


def tar(*entries: bytes) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for number, content in enumerate(entries):
            entry = tarfile.TarInfo(f"entry-{number}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


BOMBS = {
    "a PNG of 60,000 by 60,000 pixels": (lambda: png(60_000, 60_000), "3600000000 pixels"),
    "a PNG of 2³¹ - 1 pixels in a row": (lambda: png(2**31 - 1, 1), "2147483647 pixels"),
    "a GIF of 1,001 frames": (lambda: gif(1_001), "more than the 1000 frames"),
    "a zip of zeros": (lambda: zipped(ZEROS), "more than 100 times its size"),
    "a zip whose directory lies": (lying_zip, "more than 100 times its size"),
    "a zip whose entries overlap": (overlapping_zip, "overlap"),
    "a zip bomb inside of a zip": (lambda: nested(1, zipped(ZEROS)), "more than 100 times its size"),
    "zips inside of zips": (lambda: nested(4), "more than 3 deep"),
    "a zip of many entries": (lambda: zipped(*[b""] * 10_001), "more than the 10000 entries"),
    "an encrypted zip": (encrypted_zip, "encrypted"),
    "a gzip of zeros": (lambda: gzip.compress(ZEROS), "more than 100 times its size"),
    "a bzip2 of zeros": (lambda: bz2.compress(ZEROS), "more than 100 times its size"),
    "an xz of zeros": (lambda: lzma.compress(ZEROS, preset=0), "more than 100 times its size"),
    "a gzip inside of a gzip": (lambda: gzip.compress(gzip.compress(ZEROS)), "more than 100 times its size"),
    "a gzip bomb inside of a tar": (lambda: tar(b"x", gzip.compress(ZEROS)), "more than 100 times its size"),
    "a zip bomb inside of a tar.gz": (lambda: gzip.compress(tar(zipped(ZEROS))), "more than 100 times its size"),
    "a tar with a hole of 10¹² bytes": (sparse_tar, "more than the 1073741824 bytes"),
    "a zip bomb after other bytes": (lambda: b"\x01nothing known" + zipped(ZEROS), "more than 100 times its size"),
    "an image that is also a zip": (lambda: image() + zipped(b"x"), "an image and an archive at once"),
    "an image in name only": (lambda: b"GIF89a/*" + b" " * 50 + b"*/=1;alert(1)", "broken"),
    "a cut PNG": (lambda: image("PNG", 200, 200)[:-3_000], "broken"),
    "a cut JPEG": (lambda: image("JPEG", 200, 200)[:-3_000], "broken"),
    "a cut WebP": (lambda: image("WEBP", 200, 200)[:-1_000], "broken"),
    "a cut TIFF": (lambda: image("TIFF", 200, 200)[:5_000], "broken"),
    "the head of a PNG": (lambda: image()[:20], "broken"),
    "a cut zip": (lambda: zipped(b"x" * 1_000)[:-10], "broken"),
    "a cut gzip": (lambda: gzip.compress(b"x" * 1_000)[:-10], "broken"),
    "a gzip followed by nonsense": (lambda: gzip.compress(b"x") + b"nonsense", "broken"),
    "a 7z": (lambda: b"7z\xbc\xaf\x27\x1c" + b"\0" * 50, "cannot be looked into"),
    "a rar": (lambda: b"Rar!\x1a\x07\x01\0" + b"\0" * 50, "cannot be looked into"),
}
"""What each is called, how it is made, and which words refuse it under the limits that hold unless others are set."""
