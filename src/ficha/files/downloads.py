"""The response that sends a file, or a range of it, with headers that keep browsers from running its content."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from ..extras import needs_extra
from .names import content_disposition
from .storage import FileStorage

with needs_extra("server"):
    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

INLINE: Final = frozenset(
    {
        *("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"),
        *("audio/mpeg", "audio/ogg", "audio/wav", "audio/flac", "audio/mp4", "audio/aac"),
        *("video/mp4", "video/webm", "video/quicktime", "video/x-matroska"),
    }
)
"""Types that a browser may show in place. They cannot run code; SVG, HTML, XML and PDF can, and are only saved."""
SAFE_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Referrer-Policy": "no-referrer",
}
RUN: Final = ("html", "javascript", "pdf", "svg", "xml")
"""Endings of the types that a browser, or a program that it starts, may run."""
_TYPE: Final = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}")
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


class ByteRange(Struct, frozen=True):
    """From `start` to before `end`."""

    start: int
    end: int


class Download(Response):
    """Sends a stored file. It supports Range (one range; for several it sends the whole file, as RFC 9110 allows),
    If-Range, If-None-Match and HEAD. It reads the first bytes from the storage before anything is sent, so the
    storage's errors can still become an answer.

    digest: of the content; it is the ETag. inline: whether a browser may show the file in place, if its kind is safe.
    """

    def __init__(
        self,
        storage: FileStorage,
        key: str,
        *,
        size: int,
        digest: str,
        media_type: str,
        name: str,
        inline: bool = False,
        max_age_s: int = 0,
    ) -> None:
        self._storage = storage
        self._key = key
        self._size = size
        self.status_code = 200
        self.background = None
        self.body = b""
        self._tag = f'"{digest}"'
        is_inline = inline and media_type in INLINE
        self.init_headers(
            SAFE_HEADERS
            | {
                "Content-Type": _told_type(media_type),
                "Content-Disposition": content_disposition(name, inline=is_inline),
                "Content-Length": str(size),
                "Accept-Ranges": "bytes",
                "ETag": self._tag,
                "Cache-Control": f"private, max-age={max_age_s}" if max_age_s else "private, no-cache",
            }
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = Headers(scope=scope)
        if _is_seen(asked.get("if-none-match"), self._tag):
            self.status_code = 304
            del self.headers["content-length"]
            return await self._start(send, is_over=True)
        wanted: ByteRange | None = ByteRange(0, self._size)
        if "range" in asked and asked.get("if-range", self._tag).strip() == self._tag:
            wanted = self._ranged(asked["range"])
        if wanted is None:
            self.status_code = 416
            self.headers["content-length"] = "0"
            self.headers["content-range"] = f"bytes */{self._size}"
            return await self._start(send, is_over=True)
        if scope["method"] == "HEAD":
            return await self._start(send, is_over=True)
        async with aclosing(self._storage.get(self._key, wanted.start, wanted.end)) as chunks:
            await self._send(wanted.end - wanted.start, chunks, send)

    def _ranged(self, header: str) -> ByteRange | None:
        """The requested range; None if it is outside of the file. Anything but a single range is ignored."""
        found = _RANGE.fullmatch(header.strip())
        if found is None or found.groups() == ("", ""):
            return ByteRange(0, self._size)
        first, last = found.groups()
        if first:
            wanted = ByteRange(int(first), min(int(last) + 1 if last else self._size, self._size))
            if last and int(last) < int(first):
                return ByteRange(0, self._size)
        else:
            wanted = ByteRange(max(0, self._size - int(last)), self._size)
        if wanted.start >= wanted.end:
            return None
        self.status_code = 206
        self.headers["content-length"] = str(wanted.end - wanted.start)
        self.headers["content-range"] = f"bytes {wanted.start}-{wanted.end - 1}/{self._size}"
        return wanted

    async def _send(self, size: int, chunks: AsyncGenerator[bytes, None], send: Send) -> None:
        chunk: bytes | None = await anext(chunks, b"") if size else b""
        await self._start(send)
        while chunk:
            size -= len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": size > 0})
            chunk = await anext(chunks, None) if size > 0 else None
        if size > 0:
            # The headers promised more bytes: only breaking the connection tells the client that some are missing.
            raise RuntimeError(f"the storage has {size} bytes less than were recorded of {self._key}")
        if self._size == 0:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _start(self, send: Send, *, is_over: bool = False) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if is_over:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _told_type(media_type: str) -> str:
    """The Content-Type to send. A type that can run is sent as plain bytes: an old browser might still run it."""
    if media_type == "text/plain":
        return "text/plain; charset=utf-8"
    can_run = media_type.startswith("text/") or media_type.endswith(RUN)
    return media_type if _TYPE.fullmatch(media_type) and not can_run else "application/octet-stream"


def _is_seen(header: str | None, tag: str) -> bool:
    if header is None:
        return False
    return header.strip() == "*" or tag in (part.strip().removeprefix("W/") for part in header.split(","))
