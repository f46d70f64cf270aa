"""Files of web pages, as answers: with the headers that bound what a page may do, an ETag, and compressed.

A folder's files are read once, and again after its index.html changed. Only what was found there is served, so that no
path leads out of the folder.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from pathlib import Path
from threading import Lock
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from .responses import has_seen

INDEX: Final = "index.html"
ASSETS: Final = "assets/"
"""Below it, every file has a hash of its content in its name."""
PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
FOREVER: Final = "public, max-age=31536000, immutable"
ASKED_AGAIN: Final = "no-cache"
"""The browser keeps the file, and revalidates it by its ETag before each use."""
NOT_KEPT: Final = "no-store"
"""For pages of operators: the browser keeps no copy, also none to go back to after a sign-out."""
HTML: Final = "text/html; charset=utf-8"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": HTML,
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_PACKED: Final = frozenset({".css", ".html", ".js", ".json", ".svg", ".txt", ".webmanifest"})


class PageFile(Struct, frozen=True):
    """A file of a page. `packed`: its body, compressed; None where that does not help."""

    body: bytes
    packed: bytes | None
    media_type: str
    cached: str
    tag: str

    @classmethod
    def of(cls, name: str, body: bytes) -> PageFile:
        kind = Path(name).suffix
        return cls(
            body,
            # Without a time in it, so that the same content has the same bytes.
            gzip.compress(body, mtime=0) if kind in _PACKED else None,
            _MEDIA_TYPES.get(kind, "application/octet-stream"),
            FOREVER if name.startswith(ASSETS) else ASKED_AGAIN,
            f'W/"{hashlib.sha256(body).hexdigest()[:32]}"',
        )

    def answer(self, request: Request, status: int = 200, *, cached: str | None = None) -> Response:
        headers = {**PAGE_HEADERS, "Cache-Control": cached or self.cached, "ETag": self.tag, "Vary": "Accept-Encoding"}
        if status == 200 and has_seen(request, self.tag):
            return Response(None, 304, headers)
        if self.packed is not None and _takes_gzip(request):
            return Response(self.packed, status, {**headers, "Content-Encoding": "gzip"}, self.media_type)
        return Response(self.body, status, headers, self.media_type)


def _takes_gzip(request: Request) -> bool:
    given = request.headers.get("accept-encoding", "").lower().replace(" ", "").split(",")
    return any(part.partition(";")[0] == "gzip" and not part.endswith(";q=0") for part in given)


class PageFolder:
    """The files of a folder that a build wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, PageFile] = {}
        self._built_at: int | None = None
        self._lock = Lock()

    async def files(self) -> dict[str, PageFile]:
        """All files by their path in the folder; none if the pages were not built."""
        return await asyncio.to_thread(self._read_if_changed)

    def _read_if_changed(self) -> dict[str, PageFile]:
        with self._lock:
            try:
                built_at = (self._folder / INDEX).stat().st_mtime_ns
            except OSError:
                built_at = None
            if built_at != self._built_at:
                self._files = {} if built_at is None else self._read()
                self._built_at = built_at
            return self._files

    def _read(self) -> dict[str, PageFile]:
        found = {}
        for path in sorted(self._folder.rglob("*")):
            # A link could lead out of the folder.
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(self._folder).as_posix()
                found[name] = PageFile.of(name, path.read_bytes())
        return found
