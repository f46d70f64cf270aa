"""The parts of an upload (multipart/form-data), read as their bytes arrive: no more than a chunk of a file is held.

Everything that a sender chooses has a limit: headers, parts, bytes outside of parts, and the total time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from msgspec import Struct

from ..extras import needs_extra
from .names import clean_name

with needs_extra("files"):
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, parse_options_header

OVERHEAD_BYTES: Final = 16_384
"""The most bytes outside of the parts' contents, besides the headers that each part may have."""


class BadMultipart(Exception):
    """A body that is no valid upload; the message says what to send."""


class UploadTooSlow(Exception):
    """The bytes of an upload arrived too slowly."""


class MultipartLimits(Struct, frozen=True):
    """What an upload may have: parts, headers per part, bytes of one header, seconds without a byte, and seconds in
    all."""

    parts: int = 20
    headers: int = 8
    header_bytes: int = 4_096
    idle_s: float = 30.0
    total_s: float = 3_600.0


class UploadPart:
    """One part of an upload. Its unread content is skipped when the next part is requested.

    name: the form's field. file_name: what the user called the file, as text to show and never as a path; None for a
    part that is no file. declared_type: the type that the sender declares, which proves nothing.
    """

    def __init__(self, reader: _Reader, name: str, file_name: str | None, declared_type: str | None) -> None:
        self._reader = reader
        self.name = name
        self.file_name = file_name
        self.declared_type = declared_type
        self._is_read = False

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The part's content as it arrives."""
        while not self._is_read:
            event = await self._reader.next()
            if isinstance(event, bytes):
                yield event
            else:
                assert event is PART_END
                self._is_read = True

    async def text(self, most_bytes: int = 65_536) -> str:
        """The content of a field that is text. Raises BadMultipart if it is longer or no UTF-8."""
        content = bytearray()
        async for chunk in self.chunks():
            content += chunk
            if len(content) > most_bytes:
                raise BadMultipart(f"the field {self.name[:80]!r} is longer than {most_bytes} bytes; send less")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise BadMultipart(f"the field {self.name[:80]!r} is no UTF-8 text; send it as UTF-8") from None


async def upload_parts(
    content_type: str | None, body: AsyncIterator[bytes], limits: MultipartLimits | None = None
) -> AsyncGenerator[UploadPart, None]:
    """The parts of a request's body, one after the other. Raises BadMultipart, UploadTooSlow, and what `body` raises
    when the sender disconnects."""
    limits = limits or MultipartLimits()
    reader = _Reader(_boundary(content_type), body, limits)
    number = 0
    while (event := await reader.next()) is not END:
        assert isinstance(event, dict)
        number += 1
        if number > limits.parts:
            raise BadMultipart(f"the upload has more than {limits.parts} parts; send fewer")
        part = _part(reader, event)
        yield part
        async with aclosing(part.chunks()) as rest:
            async for _ in rest:
                pass


def _boundary(content_type: str | None) -> bytes:
    kind, options = parse_options_header(content_type or "")
    if kind != b"multipart/form-data":
        raise BadMultipart(f"send the file as multipart/form-data, not as {(content_type or 'nothing')[:80]!r}")
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 70:
        raise BadMultipart("the Content-Type of a multipart upload names its boundary, of 1 to 70 characters")
    return boundary


def _part(reader: _Reader, headers: dict[bytes, bytes]) -> UploadPart:
    kind, options = parse_options_header(headers.get(b"content-disposition", b""))
    if kind != b"form-data" or b"name" not in options:
        raise BadMultipart('each part of the upload needs the header Content-Disposition: form-data; name="…"')
    file_name = clean_name(_text(options[b"filename"])) if b"filename" in options else None
    declared = headers.get(b"content-type")
    return UploadPart(reader, _text(options[b"name"])[:200], file_name, _text(declared)[:200] if declared else None)


def _text(given: bytes) -> str:
    """Decodes a name: browsers send it as UTF-8, with three characters escaped."""
    text = given.decode("utf-8", "replace")
    return text.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")


PART_END: Final = object()
END: Final = object()


class _Reader:
    """Turns the parser's callbacks into a queue of events: a part's headers, pieces of its content, its end."""

    def __init__(self, boundary: bytes, body: AsyncIterator[bytes], limits: MultipartLimits) -> None:
        self._body = body
        self._limits = limits
        self._ends_at = time.monotonic() + limits.total_s
        self._events: deque[object] = deque()
        self._headers: dict[bytes, bytes] = {}
        self._name = bytearray()
        self._value = bytearray()
        self._received = 0
        self._content = 0
        self._parts = 0
        self._is_over = False
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._on_part_begin,
                    "on_header_field": self._on_header_field,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers_finished,
                    "on_part_data": self._on_part_data,
                    "on_part_end": self._on_part_end,
                    "on_end": self._on_end,
                },
                max_header_count=limits.headers,
                max_header_size=limits.header_bytes,
            )
        except FormParserError as error:
            raise BadMultipart(f"the upload's boundary cannot be used: {error}") from error

    async def next(self) -> object:
        while not self._events:
            if self._is_over:
                return END
            chunk = await self._receive()
            if chunk is None:
                raise BadMultipart("the upload ended before its last boundary; send it again, whole")
            self._received += len(chunk)
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise BadMultipart(f"the upload is no multipart/form-data that can be read: {error}") from error
            self._check_overhead()
        return self._events.popleft()

    async def _receive(self) -> bytes | None:
        left_s = max(0.0, self._ends_at - time.monotonic())
        try:
            async with asyncio.timeout(min(left_s, self._limits.idle_s)):
                return await anext(self._body, None)
        except TimeoutError:
            if left_s < self._limits.idle_s:
                words = f"the upload took longer than {self._limits.total_s:g} s; send less at once"
            else:
                words = f"nothing of the upload came for {self._limits.idle_s:g} s; send it again"
            raise UploadTooSlow(words) from None

    def _check_overhead(self) -> None:
        """Limits the bytes outside of parts: line ends before the first boundary, for example, have no other limit."""
        parts = min(self._parts, self._limits.parts + 1)
        most = OVERHEAD_BYTES + parts * self._limits.headers * (self._limits.header_bytes + 2)
        if not self._is_over and self._received - self._content > most:
            raise BadMultipart("the upload has too many bytes outside of its parts; send only the parts")

    def _on_part_begin(self) -> None:
        self._parts += 1
        self._headers = {}

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        # If a header comes twice, readers may disagree about which counts; here the first does.
        self._headers.setdefault(bytes(self._name).strip().lower(), bytes(self._value))
        self._name.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        self._events.append(self._headers)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._content += end - start
        if end > start:
            self._events.append(data[start:end])

    def _on_part_end(self) -> None:
        self._events.append(PART_END)

    def _on_end(self) -> None:
        self._is_over = True
