"""HTTP/1.1 with as little around it as can be, so that what is measured is the server: one connection that carries one
request at a time, and one that carries a live stream."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

import msgspec

HOST: Final = "127.0.0.1"
HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)

T = TypeVar("T", bound=asyncio.BaseProtocol)


class Answer(NamedTuple):
    """A status, and all that came: the head and then the body."""

    status: int
    text: bytes


class Lost(Exception):
    """The connection ended before the answer did."""


def request(path: str, key: str | None = None, body: bytes | None = None, **headers: str) -> bytes:
    """A GET, or a POST of JSON where there is a body. Headers are named with underscores."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {HOST}"]
    lines += [] if key is None else [f"Authorization: Bearer {key}"]
    lines += [] if body is None else ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + HEAD_END + (body or b"")


async def connect(port: int, kind: type[T]) -> T:
    _, protocol = await asyncio.get_running_loop().create_connection(kind, HOST, port)
    return protocol


class Wire(asyncio.Protocol):
    """A connection that is asked, answers, and is asked again."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._text = b""
        self._size = 0
        """Of the whole answer, once its head is there."""
        self._answer: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def ask(self, asked: bytes) -> asyncio.Future[Answer]:
        assert self._answer is None, "one request at a time"
        self._text, self._size = b"", 0
        answer = self._answer = self._loop.create_future()
        if self._transport.is_closing():
            self.connection_lost(None)
        else:
            self._transport.write(asked)
        return answer

    def data_received(self, data: bytes) -> None:
        text = self._text = self._text + data if self._text else data
        if not self._size:
            head = text.find(HEAD_END)
            if head < 0:
                return
            length = _LENGTH.search(text, 0, head + 2)
            # Without a length there is no body: a 304.
            self._size = head + 4 + (0 if length is None else int(length[1]))
        if len(text) >= self._size and self._answer is not None:
            answer, self._answer = self._answer, None
            answer.set_result(Answer(int(text[9:12]), text))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            answer.set_exception(Lost(str(exc or "the server closed the connection")))

    def close(self) -> None:
        self._transport.close()


class _Event(msgspec.Struct):
    """What is looked at of an event's data."""

    at: datetime


_EVENT: Final = msgspec.json.Decoder(_Event)


class Stream(asyncio.Protocol):
    """A live stream, from the request on: counted and timed, and not kept."""

    def __init__(self) -> None:
        self.began: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The answer's status."""
        self.kinds: Counter[str] = Counter()
        """Events by their kind."""
        self.lags_s: list[float] = []
        """From when an event was decided until it was here, for those that happened since the clock was set."""
        self.keep_alives = 0
        self.is_ended = False
        """Whether the last message was the one that says that there is no more to come."""
        self.is_lost = False
        self.is_in_order = True
        self._last = 0
        self._since = time.time()
        self._raw = b""
        self._text = b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def ask(self, asked: bytes) -> asyncio.Future[int]:
        self._transport.write(asked)
        return self.began

    def set_clock(self) -> None:
        self._since = time.time()
        self.lags_s = []

    def data_received(self, data: bytes) -> None:
        self._raw += data
        if not self.began.done():
            head, blank, rest = self._raw.partition(HEAD_END)
            if not blank:
                return
            self._raw = rest
            self.began.set_result(int(head[9:12]))
        self._unpack()
        *messages, self._text = self._text.split(b"\n\n")
        for message in messages:
            self._hear(message)

    def _unpack(self) -> None:
        """Takes the chunks that are whole out of what came."""
        raw, at = self._raw, 0
        while (line := raw.find(b"\r\n", at)) >= 0:
            begins = line + 2
            ends = begins + int(raw[at:line], 16)
            if len(raw) < ends + 2:
                break
            self._text += raw[begins:ends]
            at = ends + 2
        self._raw = raw[at:]

    def _hear(self, message: bytes) -> None:
        if message.startswith(b":"):
            self.keep_alives += 1
            return
        fields = dict(line.split(b": ", 1) for line in message.split(b"\n"))
        kind = fields[b"event"].decode()
        self.is_ended = kind == "end"
        if b"id" not in fields:
            return
        number = int(fields[b"id"])
        self.is_in_order &= number > self._last
        self._last = number
        self.kinds[kind] += 1
        happened_at = _EVENT.decode(fields[b"data"]).at.timestamp()
        if happened_at >= self._since:
            self.lags_s.append(time.time() - happened_at)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = not self.is_ended
        if not self.began.done():
            self.began.set_exception(Lost(str(exc or "the server closed the connection")))

    def close(self) -> None:
        self._transport.close()
