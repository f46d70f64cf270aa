"""The two clients: the same operations, driven over httpx with and without `await`."""

from __future__ import annotations

import asyncio
import os
import random as _random
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, closing
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from ..outbound import Answer
from ..trace_context import current, headers_of
from ..version import __version__
from .accounts import AccountMethods
from .admin import AdminMethods
from .batches import BatchMethods
from .brakes import BrakeMethods
from .bulk_acts import BulkMethods
from .effects import Emit, Flow, Open, Pause, Read, Ride, Send, Step, Stream
from .errors import ServerError, Unreachable
from .files import FileMethods
from .library import LibraryMethods
from .operation import AsyncDriver, SyncDriver
from .retries import STANDARD, Retries
from .schedules import ScheduleMethods
from .searches import SearchMethods
from .sessions import SessionMethods
from .webhooks import WebhookMethods

T = TypeVar("T")

CONNECT_S: Final = 5.0
NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
"""The errors of a request that has not reached the server."""


class _Operations(
    AccountMethods,
    BatchMethods,
    AdminMethods,
    LibraryMethods,
    SearchMethods,
    WebhookMethods,
    FileMethods,
    SessionMethods,
    BulkMethods,
    BrakeMethods,
    ScheduleMethods,
):
    """All operations, and where they are sent."""

    def __init__(
        self,
        url: str | None,
        token: str | None,
        retries: Retries,
        clock: Callable[[], float],
        random: Callable[[], float],
    ) -> None:
        self.url = _server(url or os.environ.get("FICHA_URL"))
        self.retries = retries
        self.clock = clock
        self.random = random
        self._headers = {"User-Agent": f"ficha-python/{__version__}", "Accept": "application/json"}
        if given := token or os.environ.get("FICHA_TOKEN"):
            self._headers["Authorization"] = f"Bearer {_sendable(given)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"


class Client(_Operations, SyncDriver):
    """A Ficha server, for programs that wait for each call.

    url: where it is. Defaults to FICHA_URL.
    token: an API key, or a JWT that the server takes. Defaults to FICHA_TOKEN.
    retries: how requests are retried.
    transport, clock, sleep, random: httpx's transport, a monotonic clock in seconds, a pause, a number from 0 to 1.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries = STANDARD,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        super().__init__(url, token, retries, clock, random)
        self._http = httpx.Client(base_url=self.url, headers=self._headers, transport=transport)
        self._sleep = sleep

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def run(self, begin: Callable[[], Flow[T]]) -> T:
        with closing(_Wire(self._http, self.url, self._sleep)) as wire:
            ride = Ride(begin())
            while ride.step is not None:
                wire.take(ride, ride.step)
            return ride.result

    def iterate(self, begin: Callable[[], Stream[T]]) -> Generator[T]:
        with closing(_Wire(self._http, self.url, self._sleep)) as wire:
            ride = Ride(begin())
            while ride.step is not None:
                if isinstance(ride.step, Emit):
                    yield ride.step.value
                    ride.answer(None)
                else:
                    wire.take(ride, ride.step)


class AsyncClient(_Operations, AsyncDriver):
    """A Ficha server, for programs that await each call. The arguments are those of `Client`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retries: Retries = STANDARD,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = _random.random,
    ) -> None:
        super().__init__(url, token, retries, clock, random)
        self._http = httpx.AsyncClient(base_url=self.url, headers=self._headers, transport=transport)
        self._sleep = sleep

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def run(self, begin: Callable[[], Flow[T]]) -> T:
        async with aclosing(_AsyncWire(self._http, self.url, self._sleep)) as wire:
            ride = Ride(begin())
            while ride.step is not None:
                await wire.take(ride, ride.step)
            return ride.result

    async def iterate(self, begin: Callable[[], Stream[T]]) -> AsyncGenerator[T]:
        async with aclosing(_AsyncWire(self._http, self.url, self._sleep)) as wire:
            ride = Ride(begin())
            while ride.step is not None:
                if isinstance(ride.step, Emit):
                    yield ride.step.value
                    ride.answer(None)
                else:
                    await wire.take(ride, ride.step)


class _Wire:
    """Does the steps of one flow, with at most one stream open."""

    def __init__(self, http: httpx.Client, url: str, sleep: Callable[[float], object]) -> None:
        self._http = http
        self._url = url
        self._sleep = sleep
        self._stream: httpx.Response | None = None
        self._parts: Iterator[bytes] = iter(())

    def take(self, ride: Ride[Any, Any], step: Step) -> None:
        try:
            got = self._do(step)
        except httpx.RequestError as error:
            trouble = _trouble(error, self._url)
        else:
            return ride.answer(got)
        # Outside the `except`, so that the caller's error does not refer to the request, which holds the token.
        ride.fail(trouble)

    def _do(self, step: Step) -> Any:
        match step:
            case Pause():
                self._sleep(step.seconds)
                return None
            case Read():
                return next(self._parts, b"")
            case Open():
                self.close()
                found = self._stream = self._http.send(_request(self._http, step.request), stream=True)
                if found.status_code != 200:
                    found.read()
                    return _answer(found)
                self._parts = found.iter_bytes()
                return Answer(found.status_code, found.headers)
            case Send():
                self.close()
                return _answer(self._http.send(_request(self._http, step)))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


class _AsyncWire:
    """Does the steps of one flow, with at most one stream open."""

    def __init__(self, http: httpx.AsyncClient, url: str, sleep: Callable[[float], Awaitable[object]]) -> None:
        self._http = http
        self._url = url
        self._sleep = sleep
        self._stream: httpx.Response | None = None
        self._parts: AsyncIterator[bytes]

    async def take(self, ride: Ride[Any, Any], step: Step) -> None:
        try:
            got = await self._do(step)
        except httpx.RequestError as error:
            trouble = _trouble(error, self._url)
        else:
            return ride.answer(got)
        ride.fail(trouble)

    async def _do(self, step: Step) -> Any:
        match step:
            case Pause():
                await self._sleep(step.seconds)
                return None
            case Read():
                return await anext(self._parts, b"")
            case Open():
                await self.aclose()
                found = self._stream = await self._http.send(_request(self._http, step.request), stream=True)
                if found.status_code != 200:
                    await found.aread()
                    return _answer(found)
                self._parts = found.aiter_bytes()
                return Answer(found.status_code, found.headers)
            case Send():
                await self.aclose()
                return _answer(await self._http.send(_request(self._http, step)))

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None


def _request(http: httpx.Client | httpx.AsyncClient, wanted: Send) -> httpx.Request:
    content: Any = wanted.body
    if wanted.form is not None:
        content = wanted.form.pieces() if isinstance(http, httpx.Client) else wanted.form.async_pieces()
    return http.build_request(
        wanted.method,
        wanted.path,
        params=wanted.query or None,
        content=content,
        headers={**({} if (trace := current()) is None else headers_of(trace)), **wanted.headers},
        timeout=httpx.Timeout(wanted.read_s, connect=CONNECT_S),
    )


def _answer(found: httpx.Response) -> Answer:
    return Answer(found.status_code, found.headers, found.content)


def _trouble(error: httpx.RequestError, url: str) -> ServerError:
    """The error that the flow gets in place of httpx's."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ServerError(f"{url} has no certificate that is trusted here: {cause.verify_message}")
        cause = cause.__cause__ or cause.__context__
    what = str(error) or type(error).__name__
    return Unreachable(f"the server at {url} does not answer: {what}", reached=not isinstance(error, NOT_SENT))


def _server(url: str | None) -> str:
    if not url:
        raise ValueError("which server? Give its URL, or set FICHA_URL")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        shown = "this one" if set(url) & set("@?#") else repr(url)  # Otherwise it may hold a password.
        raise ValueError(f"a server's URL begins with https:// or http://, unlike {shown}")
    if parts.username or parts.password:
        raise ValueError("a server's URL holds no password; give the token by itself, or set FICHA_TOKEN")
    return url.rstrip("/")


def _sendable(token: str) -> str:
    """A token that can be sent in a header. Checked here, because the HTTP library would show it in its error."""
    found = token.strip()
    if not found.isascii() or not found.isprintable() or " " in found:
        raise ValueError("the token holds characters that no token has; check FICHA_TOKEN, or where it comes from")
    return found
