"""Everything that Ficha calls over HTTP, in virtual time: sites that answer, late, or not at all.

A request that has arrived is dealt with whatever becomes of the process that sent it. `SimulatedOutbound` stands for
the shared HTTP client of an application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from ficha.outbound import OutboundError
from ficha.outbound.http_client import Answer

from .faults import Faults
from .loop import VirtualLoop


class Request(Struct, frozen=True):
    """A request as it arrives."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Site(Protocol):
    """One server outside."""

    host: str

    def send(self, timeout_s: float) -> Any:
        """A request leaves for it now; what is returned goes to `end`, once."""

    def end(self, sent: Any) -> None:
        """The request is answered, or its sender has given it up."""

    def serve(self, request: Request) -> tuple[float, Answer | None]:
        """After how many seconds it answers, and what; None for never."""


class Network:
    """The way to all sites, on which messages get lost."""

    def __init__(self, loop: VirtualLoop, faults: Faults, random: Random) -> None:
        self.loop = loop
        self.faults = faults
        self.random = random
        self.sites: dict[str, Site] = {}

    def add(self, site: Site) -> None:
        self.sites[site.host] = site

    def latency_s(self) -> float:
        return self.random.expovariate(1.0) * self.faults.latency_s

    def later(self, delay_s: float, act: Any, *args: Any) -> None:
        """What happens outside happens whatever becomes of those who sent something."""
        self.loop.call_later(delay_s, act, *args, context=self.loop.outside.context)

    async def exchange(self, url: str, request: Request, timeout_s: float) -> Answer:
        """The answer; raises OutboundError where there is none in time."""
        parts = urlsplit(url)
        site = self.sites[parts.netloc]
        sent = site.send(timeout_s)
        reply: asyncio.Future[Answer] = self.loop.create_future()
        is_over = False

        def end() -> None:
            nonlocal is_over
            if not is_over:
                is_over = True
                site.end(sent)

        def answer(given: Answer) -> None:
            end()
            if not reply.done() and self.random.random() >= self.faults.answer_lost:
                reply.set_result(given)

        def arrive() -> None:
            delay_s, given = site.serve(request)
            if given is not None:
                self.later(delay_s + self.latency_s(), answer, given)

        self.later(timeout_s, end)
        if self.random.random() < self.faults.request_lost:
            if self.random.random() < 0.5:
                end()
                await asyncio.sleep(self.latency_s())
                raise OutboundError(f"{parts.netloc} could not be reached", was_sent=False)
        else:
            self.later(self.latency_s(), arrive)
        try:
            async with asyncio.timeout(timeout_s):
                return await reply
        except TimeoutError:
            raise OutboundError(f"{parts.netloc} did not answer within {timeout_s:g} s", was_sent=True) from None
        finally:
            # Whoever is cancelled closes the connection.
            end()


class _Streamed:
    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._body = answer.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class SimulatedOutbound:
    """What an application calls as `app.outbound`."""

    def __init__(self, network: Network, allow: Any = ()) -> None:
        self._network = network

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float = 30.0,
        **_: Any,
    ) -> Answer:
        body = content or b"" if json is None else msgspec.json.encode(json)
        return await self._network.exchange(
            url, Request(method, urlsplit(url).path, dict(headers or {}), body), timeout_s
        )

    @asynccontextmanager
    async def stream(self, method: str, url: str, **options: Any) -> AsyncGenerator[_Streamed]:
        yield _Streamed(await self.request(method, url, **options))

    async def check(self, url: str) -> None:
        """Every address is a good one here."""

    async def close(self) -> None:
        """Nothing is open."""
