"""What every attacker has: connections of its own, a bound on time and requests, and a list of what did not hold."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.attack.site import Site
from tests.server.raw_http import Reply, Wire

MOST_REQUESTS: Final = 20_000
"""What one attacker sends at most, however fast it is answered."""
MOST_WRONG: Final = 8
SHOWN: Final = 200
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Attack:
    """One run of one attacker.

    got: how often each status was answered, and what else the attacker counts.
    wrong: what does not hold, as sentences: the first few, and the same one once.
    """

    def __init__(self, site: Site, seconds: float) -> None:
        self.site = site
        self.seconds = seconds
        self.ends_at = time.monotonic() + seconds
        self.sent = 0
        self._is_connected = False
        self.got: Counter[str] = Counter()
        self.wrong: list[str] = []

    @property
    def goes_on(self) -> bool:
        """Whether there is time for another request, and it may be sent. Who is connected sends one at least: to
        prepare an attack may take all of a short time."""
        is_first = self._is_connected and self.sent == 0
        return (time.monotonic() < self.ends_at or is_first) and self.sent < MOST_REQUESTS

    @property
    def left_s(self) -> float:
        return max(0.0, self.ends_at - time.monotonic())

    def must(self, holds: bool, words: str) -> None:
        if not holds and words not in self.wrong and len(self.wrong) < MOST_WRONG:
            self.wrong.append(words)

    @asynccontextmanager
    async def connected(self, key: str | None = None) -> AsyncIterator[Caller]:
        reader, writer = await asyncio.open_connection(self.site.host, self.site.port)
        caller = Caller(self, Wire(reader, writer), key)
        self._is_connected = True
        try:
            yield caller
        finally:
            caller.wire.writer.transport.abort()

    def look_at(self, reply: Reply, asked: str) -> Reply:
        """Counts an answer, and checks what holds of every answer to anybody: it is no failure of the server, it is a
        problem where it is a refusal, and it has nothing of the victim's."""
        self.got[str(reply.status)] += 1
        self.must(reply.status < 500 or reply.status == 503, f"{reply.status} for {asked}: {reply.body[:SHOWN]!r}")
        if reply.status >= 400:
            kind = reply.headers.get("content-type", "")
            self.must(kind == "application/problem+json", f"{reply.status} for {asked} is no problem but {kind!r}")
        for marker in self.site.markers:
            self.must(marker.encode() not in reply.body, f"the answer to {asked} has something of the victim's")
        return reply

    async def together(self, callers: int, run: Callable[[int], Awaitable[object]]) -> None:
        """Runs it several times side by side, each with its number."""
        async with asyncio.TaskGroup() as group:
            for number in range(callers):
                group.create_task(_awaited(run(number)))


async def _awaited(one: Awaitable[object]) -> None:
    await one


class Caller:
    """One connection of an attacker, with the key that it sends."""

    def __init__(self, attack: Attack, wire: Wire, key: str | None) -> None:
        self.attack = attack
        self.wire = wire
        self.key = key
        self._is_over = False

    async def get(self, path: str, **headers: str) -> Reply:
        return await self.ask("GET", path, None, headers)

    async def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        """Posts a body: bytes as they are, anything else as JSON."""
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.ask("POST", path, text, headers)

    async def ask(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Reply:
        fields = {"Host": "127.0.0.1"}
        if self.key is not None:
            fields["Authorization"] = f"Bearer {self.key}"
        if body is not None:
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return await self.exchange(head.encode("utf-8", "surrogatepass") + b"\r\n" + (body or b""), f"{method} {path}")

    async def exchange(self, sent: bytes, asked: str) -> Reply:
        """Sends bytes and reads the one answer to them. Where the server ends the connection then, the next request
        gets another one."""
        self.attack.sent += 1
        if self._is_over:
            self.wire.writer.close()
            self.wire = Wire(*await asyncio.open_connection(self.attack.site.host, self.attack.site.port))
        await self.wire.send(sent)
        reply = await self.wire.reply()
        self._is_over = reply.headers.get("connection", "").lower() == "close"
        return self.attack.look_at(reply, asked)

    async def stream(self, path: str) -> int:
        """Asks for a stream and reads no more than the status; what it tells stays on the wire."""
        self.attack.sent += 1
        key = "" if self.key is None else f"Authorization: Bearer {self.key}\r\n"
        await self.wire.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n{key}\r\n".encode())
        async with asyncio.timeout(20):
            head = await self.wire.reader.readuntil(b"\r\n\r\n")
        status = int(head.split()[1])
        self.attack.got[str(status)] += 1
        if status >= 400:
            length = _LENGTH.search(head)
            await self.wire.reader.readexactly(int(length[1]) if length else 0)
        self.attack.must(status < 500 or status == 503, f"{status} for a stream")
        return status
