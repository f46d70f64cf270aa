"""A bad network between the load and PostgreSQL: commits cut off, delays, silence, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, urlsplit

from tests.stores.proxy import Proxy


class BadNetwork(Proxy):
    """The proxy of the store's tests, with every piece of data `delay_s` late, or held back while it is silent."""

    def __init__(self, folder: Path, server: str) -> None:
        super().__init__(folder, server)
        self.delay_s = 0.0
        self._speaks = asyncio.Event()
        self.speak()
        self._lines: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.add(writer)
        slow = asyncio.StreamReader()
        pump = asyncio.create_task(self._pump(reader, slow))
        try:
            await super().serve(slow, writer)
        except OSError:
            # The server is away: the client sees its connection end.
            writer.transport.abort()
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
            self._lines.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, slow: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(65536):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                await self._speaks.wait()
                slow.feed_data(data)
        except ConnectionError:
            pass
        finally:
            slow.feed_eof()

    def fall_silent(self) -> None:
        """Nothing comes through, and nobody is told."""
        self._speaks.clear()

    def speak(self) -> None:
        self._speaks.set()

    def break_all(self) -> int:
        """Ends every connection, whatever is under way."""
        broken = list(self._lines)
        for line in broken:
            line.transport.abort()
        return len(broken)


@asynccontextmanager
async def bad_network(url: str) -> AsyncIterator[tuple[BadNetwork, str]]:
    """The network to the database at this address (a socket's folder), and the address through it."""
    folder = parse_qs(urlsplit(url).query)["host"][0]
    with TemporaryDirectory(prefix="ficha-network-") as own:
        network = BadNetwork(Path(own), f"{folder}/.s.PGSQL.5432")
        server = await asyncio.start_unix_server(network.serve, f"{own}/.s.PGSQL.5432")
        try:
            yield network, url.replace(folder, own)
        finally:
            network.break_all()
            server.close()
