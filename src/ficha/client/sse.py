"""Server-sent events, from bytes to messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

_BOM: Final = "\ufeff".encode()


class Message(Struct, frozen=True):
    """One message: its kind, its data, and its own id, if it has one, after which a reader resumes."""

    kind: str
    data: str
    id: str | None
    retry_ms: int | None


class Parser:
    """Takes bytes as they arrive, cut anywhere, and yields the messages that they complete.

    Lines end as the format says, with CR, LF or both, and nowhere else: JSON may hold other characters that Python
    treats as the end of a line.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._begun = False
        self._clear()

    def _clear(self) -> None:
        self._kind, self._data = "message", list[str]()
        self._id: str | None = None
        self._retry_ms: int | None = None

    def feed(self, part: bytes) -> Iterator[Message]:
        text = self._rest + part
        if not self._begun:
            if _BOM.startswith(text[:3]) and len(text) < 3:
                self._rest = text
                return
            self._begun, text = True, text.removeprefix(_BOM)
        # A CR at the very end may be the first half of a line's end.
        held = text.endswith(b"\r")
        lines = (text[:-1] if held else text).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop() + (b"\r" if held else b"")
        for line in lines:
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif (message := self._message()) is not None:
                yield message

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdecimal():
                self._retry_ms = int(value)
            case _:
                pass  # A comment, which keeps the connection alive, or a field that is not known yet.

    def _message(self) -> Message | None:
        told = self._data or self._retry_ms is not None
        message = Message(self._kind, "\n".join(self._data), self._id, self._retry_ms) if told else None
        self._clear()
        return message
