"""An issuer of JWTs: a real HTTP server on the loopback that publishes keys, or answers as badly as a test says."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Self

from tests.server.identity.signing import Signer


class Issuer:
    """Answers every request with `body`, once `gate` is open.

    fetches: how often it was asked.
    drips: it never pauses for long, and never ends.
    """

    def __init__(self) -> None:
        self.body = b'{"keys": []}'
        self.status = 200
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self.fetches = 0
        self.drips = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked = asyncio.Event()
        self._port = 0
        self._server: asyncio.Server | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/jwks.json"

    def publish(self, *signers: Signer) -> None:
        self.body = json.dumps({"keys": [signer.jwk for signer in signers]}).encode()

    async def go(self) -> None:
        """Goes away: whoever asks now finds nobody."""
        if self._server is not None:
            self._server.close()
            for task in tuple(self._answering):
                task.cancel()
            await asyncio.gather(*self._answering, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def come(self) -> None:
        """Comes, or comes back to where it was."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def __aenter__(self) -> Self:
        await self.come()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.go()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.fetches += 1
            self.asked.set()
            await self.gate.wait()
            headers = {"content-length": str(len(self.body)), "connection": "close"} | self.headers
            lines = [f"HTTP/1.1 {self.status} As told", *(f"{name}: {value}" for name, value in headers.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode() + self.body)
            await writer.drain()
            while self.drips:
                writer.write(b" ")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            pass  # Whoever asked has gone, or the issuer goes.
        finally:
            self._answering.discard(task)
            writer.close()
