"""A proxy between a store and its PostgreSQL that cuts the connection at a moment of the test's choice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import parse_qs, urlsplit

Cut = Literal["before commit", "after commit"]
ANYTHING = b""
COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"


class Proxy:
    """Passes everything on, until `cut` says to cut the connection at the next COMMIT, or at whatever `at` says.

    "before commit": the database never sees the COMMIT. "after commit": it does, and its answer is dropped.
    """

    def __init__(self, folder: Path, server: str) -> None:
        self.url_folder = folder
        self.cut: Cut | None = None
        self.at = COMMIT
        self.cuts = 0
        self._server = server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_unix_connection(self._server)
        back = asyncio.create_task(self._copy(upstream_reader, writer))
        try:
            while data := await reader.read(65536):
                if self.cut is not None and self.at in (data, ANYTHING):
                    await self._cut(self.cut, data, upstream_writer, back)
                    break
                upstream_writer.write(data)
                await upstream_writer.drain()
        except ConnectionError:
            pass
        finally:
            back.cancel()
            await asyncio.gather(back, return_exceptions=True)
            for end in (writer, upstream_writer):
                end.transport.abort()

    async def _cut(self, cut: Cut, data: bytes, upstream: asyncio.StreamWriter, back: asyncio.Task[None]) -> None:
        self.cut = None
        self.cuts += 1
        back.cancel()
        await asyncio.gather(back, return_exceptions=True)
        if cut == "after commit":
            upstream.write(data)
            # The orderly end of the stream: the database works off what it was sent before it notices.
            upstream.write_eof()
            with suppress(ConnectionError):
                await upstream.drain()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[tuple[Proxy, str]]:
    """The proxy for the database at this address (a socket's folder), and the address through it."""
    parts = urlsplit(url)
    folder = parse_qs(parts.query)["host"][0]
    with TemporaryDirectory(prefix="ficha-proxy-") as own:
        proxy = Proxy(Path(own), f"{folder}/.s.PGSQL.5432")
        server = await asyncio.start_unix_server(proxy.serve, f"{own}/.s.PGSQL.5432")
        try:
            yield proxy, url.replace(folder, own)
        finally:
            server.close()
