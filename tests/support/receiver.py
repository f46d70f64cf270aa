"""A real HTTP server on the loopback that keeps what it receives and answers as a test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

from msgspec import Struct


class Received(Struct, frozen=True):
    """A request. Headers are named in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(Struct, frozen=True):
    """What to answer. A header named content-length replaces the true one."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


Script = Callable[[Received, asyncio.StreamWriter], Awaitable[Reply | None]]
"""The answer to a request; None if the script wrote it, or means to say nothing more."""


async def accept(request: Received, writer: asyncio.StreamWriter) -> Reply:
    return Reply()


class Receiver:
    """Answers every request by `script`, and keeps it in `received`.

    connections: how many were opened to it.
    """

    def __init__(self, script: Script = accept, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self._tls = tls
        self.received: list[Received] = []
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def come(self) -> None:
        """Comes, or comes back to where it was."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def go(self) -> None:
        """Goes away: whoever calls now finds nobody."""
        if self._server is not None:
            self._server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Self:
        await self.come()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.go()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in head[1:] if line)}
        request = Received(method, path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
        self.received.append(request)
        reply = await self.script(request, writer)
        if reply is None:
            return False
        lines = {"content-length": str(len(reply.body)), **dict(reply.headers)}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        writer.write(f"HTTP/1.1 {reply.status} OK\r\n{text}\r\n".encode() + reply.body)
        await writer.drain()
        return True
