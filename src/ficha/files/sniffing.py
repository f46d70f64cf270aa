"""Detects a file's type by its first bytes alone. Its name and the type that its sender declares are ignored."""

from __future__ import annotations

import codecs
import re
from typing import Final

from .storage import HEAD_BYTES

OCTETS: Final = "application/octet-stream"
IMAGES: Final = {
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/gif": "GIF",
    "image/webp": "WEBP",
    "image/bmp": "BMP",
    "image/tiff": "TIFF",
    "image/avif": "AVIF",
}
"""Images that are decoded before they are accepted, with Pillow's names for them."""
ARCHIVES: Final = {
    "application/zip": "zip",
    "application/gzip": "gzip",
    "application/x-bzip2": "bzip2",
    "application/x-xz": "xz",
    "application/x-tar": "tar",
}
"""Archives that are unpacked, without keeping the output, before they are accepted."""
UNREADABLE: Final = frozenset(
    {"application/x-7z-compressed", "application/vnd.rar", "application/zstd", "application/x-compress",
     "application/x-lzip", "application/vnd.ms-cab-compressed", "application/x-lz4"}
)  # fmt: skip
"""Archives that Python's own library cannot unpack, so that their unpacked size cannot be checked."""
BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"II+\0", "image/tiff"),
    (b"MM\0+", "image/tiff"),
    (b"8BPS", "image/vnd.adobe.photoshop"),
    (b"\0\0\x01\0", "image/vnd.microsoft.icon"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"PK\x07\x08", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x1f\x9d", "application/x-compress"),
    (b"\x1f\xa0", "application/x-compress"),
    (b"LZIP", "application/x-lzip"),
    (b"MSCF", "application/vnd.ms-cab-compressed"),
    (b"\x04\x22\x4d\x18", "application/x-lz4"),
    (b"\x1a\x45\xdf\xa3", "video/x-matroska"),
    (b"FLV\x01", "video/x-flv"),
    (b"\0\0\x01\xba", "video/mpeg"),
    (b"\0\0\x01\xb3", "video/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"MThd", "audio/midi"),
    (b"#!AMR", "audio/amr"),
    (b"%PDF-", "application/pdf"),
)
BRANDS: Final = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
    b"qt  ": "video/quicktime",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"3gp4": "video/3gpp",
    b"3gp5": "video/3gpp",
}
"""The type by the first brand of an ISO media file; any other brand is video/mp4."""
RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
UTF_16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MARKUP: Final = re.compile(
    r"<(?:!--|!doctype|\?xml|\?php|(?:html|head|body|script|style|svg|iframe|meta|title|table|img|div|a|p|h1|math|link|base"
    r"|form|object|embed|br|b|font|frameset|isindex|plaintext|listing|xmp|x:|\w+:\w+)(?=[\s>/:]|$))",
    re.IGNORECASE,
)
_SVG: Final = re.compile(r"<(?:\w+:)?svg[\s>/]", re.IGNORECASE)
_HTML: Final = re.compile(r"<(?:!doctype\s+html|html|head|body|script|iframe|style)[\s>/]", re.IGNORECASE)


def media_type_of(head: bytes) -> str:
    """The type of a file with this beginning. An unknown type is plain bytes, or text if it can be read as text."""
    for beginning, kind in BEGINNINGS:
        if head.startswith(beginning):
            return "video/webm" if kind == "video/x-matroska" and b"webm" in head[:64] else _ogg(kind, head)
    if head[:4] == b"RIFF" and head[8:12] in RIFF:
        return RIFF[head[8:12]]
    if head[4:8] == b"ftyp":
        return BRANDS.get(head[8:12], "video/mp4")
    if head[:2] == b"BM" and len(head) > 26 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    if head[:3] == b"BZh" and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "application/x-bzip2"
    if head[257:262] == b"ustar":
        return "application/x-tar"
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0 and head[:2] not in UTF_16:
        return "audio/aac" if head[1] & 0xF6 == 0xF0 else "audio/mpeg"
    return _text_type(head)


def _ogg(kind: str, head: bytes) -> str:
    return "video/ogg" if kind == "audio/ogg" and b"\x80theora" in head[:128] else kind


def _text_type(head: bytes) -> str:
    text = _text(head)
    if text is None:
        return OCTETS
    # Text that a browser would treat as markup is markup, wherever in the beginning it is.
    if _SVG.search(text):
        return "image/svg+xml"
    if _HTML.search(text):
        return "text/html"
    start = text.lstrip("\ufeff \t\r\n\f")
    if start[:5].lower() == "<?xml":
        return "application/xml"
    return "text/html" if _MARKUP.match(start) else "text/plain"


def _text(head: bytes) -> str | None:
    """The beginning as text; None if it is not text."""
    for mark, encoding in UTF_16.items():
        if head.startswith(mark):
            return head.decode(encoding, "replace")
    if any(byte < 32 and byte not in b"\t\n\f\r\x1b" for byte in head):
        return None
    try:
        # A character may be cut at the end of the beginning, but not at the end of the file.
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        return None
