"""HTTP by hand, for what no well-behaved client would send: an application behind the real protocol, on a socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import uvicorn
from starlette.types import ASGIApp

from ficha.server.protocol import Protocol
from ficha.server.serving import listening


class Reply(NamedTuple):
    """One answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def reply(self) -> Reply:
        """The next answer, which must say its length."""
        async with asyncio.timeout(20):
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()[:-1]
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return Reply(int(first.split()[1]), headers, body)

    async def end(self) -> bytes:
        """What still comes before the server ends the connection."""
        async with asyncio.timeout(20):
            return await self.reader.read()


class Behind(NamedTuple):
    """A server that runs: its port, itself, and the protocol that it speaks."""

    port: int
    server: uvicorn.Server
    protocol: type[Protocol]

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Wire]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Wire(reader, writer)
        finally:
            writer.close()

    async def ask(self, *parts: bytes) -> Reply:
        async with self.connected() as wire:
            await wire.send(*parts)
            return await wire.reply()


@asynccontextmanager
async def behind(
    app: ASGIApp, *, most: int = 32_768, within_s: float = 10.0, keep_alive_s: int = 5, taken_s: float = 30.0
) -> AsyncIterator[Behind]:
    """Serves the application on this test's own loop."""

    class Bounded(Protocol):
        header_bytes = most
        header_s = within_s
        write_s = taken_s

    config = uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        server_header=False,
        timeout_keep_alive=keep_alive_s,
        timeout_graceful_shutdown=1,
    )
    started = asyncio.Event()

    class Here(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    sock = listening("127.0.0.1", 0)
    server = Here(config)
    running = asyncio.create_task(server._serve([sock]))
    await started.wait()
    try:
        yield Behind(sock.getsockname()[1], server, Bounded)
    finally:
        server.should_exit = True
        await running
