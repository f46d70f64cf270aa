"""The one client of all HTTP calls that Ficha makes: bounded in number, time and bytes.

It uses no proxy of the environment, keeps no cookies, and follows a redirect only if the caller asks for it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from .addresses import AddressRules, url_problem
from .errors import ForbiddenAddress, OutboundError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    import httpcore
    import httpx

    from .dialing import Pools, Resolve

TIMEOUT_S: Final = 30.0
MOST_BYTES: Final = 1_048_576
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OF_ONE_ORIGIN: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that are not sent to the other origin of a redirect."""


class Answer(Struct, frozen=True):
    """What a server answered.

    headers: by name in lower case; several of one name are joined by commas.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class AnswerStream:
    """An answer whose body is read in parts, once: `async for chunk in stream`."""

    def __init__(
        self, status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes], most_bytes: int, call: _Call
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._most_bytes = most_bytes
        self._call = call

    async def __aiter__(self) -> AsyncIterator[bytes]:
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > self._most_bytes:
            raise self._too_long()
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            # The bytes that are counted do not bound the unpacked size of a compressed body.
            raise OutboundError(
                f"the answer of {self._call.host} is compressed, though that was not asked for", was_sent=True
            )
        read = 0
        while True:
            with self._call.errors():
                async with asyncio.timeout_at(self._call.deadline):
                    chunk = await anext(self._chunks, None)
            if chunk is None:
                return
            read += len(chunk)
            if read > self._most_bytes:
                raise self._too_long()
            yield chunk

    def _too_long(self) -> OutboundError:
        return OutboundError(f"the answer of {self._call.host} is longer than {self._most_bytes} bytes", was_sent=True)


class _Call:
    """One call under way: its host, for errors; its deadline; and whether the server may have received the request."""

    def __init__(self, host: str, timeout_s: float) -> None:
        self.host = host
        self.timeout_s = timeout_s
        self.deadline = asyncio.get_running_loop().time() + timeout_s
        self.was_sent = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith(".send_request_headers.started"):
            self.was_sent = True

    @contextmanager
    def errors(self) -> Generator[None]:
        """Turns the libraries' exceptions into `OutboundError`."""
        import httpcore
        import httpx

        try:
            yield
        except TimeoutError as error:
            words = f"{self.host} did not answer within {self.timeout_s:g} s"
            raise OutboundError(words, was_sent=self.was_sent) from error
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            words = f"{self.host} could not be reached: {str(error) or type(error).__name__}"
            raise OutboundError(words, was_sent=self.was_sent) from error
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.TimeoutException,
            httpcore.UnsupportedProtocol,
        ) as error:
            words = f"the call to {self.host} failed: {str(error) or type(error).__name__}"
            raise OutboundError(words, was_sent=self.was_sent) from error
        except httpx.InvalidURL as error:
            raise ForbiddenAddress(f"the URL is malformed: {error}") from error


class Outbound:
    """Makes HTTP calls.

    allow: host names and networks that guarded calls may reach although they are not public, and without TLS.
    at_once: calls at a time; others wait, which counts towards their timeouts.
    resolve, network, tls: for tests: how names are resolved, sockets opened, and certificates checked.
    """

    def __init__(
        self,
        allow: Iterable[str] = (),
        at_once: int = 100,
        *,
        resolve: Resolve | None = None,
        network: httpcore.AsyncNetworkBackend | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._rules = AddressRules(allow)
        self._at_once = at_once
        self._resolve = resolve
        self._network = network
        self._tls = tls
        self._free = asyncio.Semaphore(at_once)
        self._pools: Pools | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
        most_bytes: int = MOST_BYTES,
        guarded: bool = True,
        redirects: int = 0,
    ) -> Answer:
        """Makes a call and reads the whole answer.

        timeout_s: for all of it, from the wait for a free place to the last byte.
        most_bytes: the longest body of an answer.
        guarded: whether the URL comes from outside; False for one that the operator configured.
        redirects: how many are followed (GET and HEAD only). Any other redirect is returned as the answer.
        """
        opened = self.stream(
            method,
            url,
            headers=headers,
            json=json,
            content=content,
            timeout_s=timeout_s,
            most_bytes=most_bytes,
            guarded=guarded,
            redirects=redirects,
        )
        async with opened as stream:
            return Answer(stream.status, stream.headers, b"".join([chunk async for chunk in stream]))

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        content: bytes | None = None,
        timeout_s: float = TIMEOUT_S,
        most_bytes: int = MOST_BYTES,
        guarded: bool = True,
        redirects: int = 0,
    ) -> AbstractAsyncContextManager[AnswerStream]:
        """Makes a call whose answer is read in parts; the arguments are those of `request`."""
        return self._streamed(method, url, headers or {}, json, content, timeout_s, most_bytes, guarded, redirects)

    async def check(self, url: str) -> None:
        """Raises `ForbiddenAddress` if a guarded call to this URL would, and `OutboundError` if its name does not
        resolve. The call checks again, because the name may resolve to other addresses by then."""
        from .dialing import resolved

        parsed = self._parsed(url, guarded=True)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        call = _Call(parsed.host, TIMEOUT_S)
        self._opened()
        assert self._resolve is not None
        with call.errors():
            async with asyncio.timeout_at(call.deadline):
                addresses = await resolved(self._resolve, parsed.host, port, guarded=True)
        self._rules.check_addresses(parsed.host, addresses, is_plain=parsed.scheme == "http")

    async def close(self) -> None:
        pools, self._pools = self._pools, None
        if pools is not None:
            await pools.close()
        close = getattr(self._resolve, "close", None)
        if close is not None:
            close()
            self._resolve = None

    @asynccontextmanager
    async def _streamed(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        json: Any,
        content: bytes | None,
        timeout_s: float,
        most_bytes: int,
        guarded: bool,
        redirects: int,
    ) -> AsyncGenerator[AnswerStream]:
        import httpcore
        import httpx

        pools = self._opened()
        parsed = self._parsed(url, guarded=guarded)
        call = _Call(parsed.host, timeout_s)
        with call.errors():
            async with asyncio.timeout_at(call.deadline):
                await self._free.acquire()
        answer: httpcore.Response | None = None
        try:
            while True:
                # Uncompressed, so that the counted bytes are the bytes in memory.
                request = httpx.Request(
                    method, parsed, headers={"accept-encoding": "identity", **headers}, json=json, content=content
                )
                sent = httpcore.Request(
                    method,
                    httpcore.URL(
                        scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions={"trace": call.trace},
                )
                with call.errors():
                    async with asyncio.timeout_at(call.deadline):
                        answer = await pools.of(parsed, guarded=guarded).handle_async_request(sent)
                found = httpx.Headers(answer.headers)
                target = found.get("location") if answer.status in _REDIRECTS else None
                if not redirects or target is None or method not in ("GET", "HEAD"):
                    break
                redirects -= 1
                await answer.aclose()
                answer = None
                with call.errors():
                    onwards = self._parsed(str(parsed.join(target)), guarded=guarded)
                if (onwards.scheme, onwards.host, onwards.port) != (parsed.scheme, parsed.host, parsed.port):
                    headers = {name: text for name, text in headers.items() if name.lower() not in _OF_ONE_ORIGIN}
                parsed, call.host = onwards, onwards.host
            chunks = aiter(answer.aiter_stream())
            yield AnswerStream(answer.status, dict(found.items()), chunks, most_bytes, call)
        finally:
            self._free.release()
            if answer is not None:
                await answer.aclose()

    def _parsed(self, url: str, *, guarded: bool) -> httpx.URL:
        import httpx

        if guarded and (problem := url_problem(url)) is not None:
            raise ForbiddenAddress(problem)
        try:
            parsed = httpx.URL(url)
            host = parsed.host
        except (httpx.InvalidURL, ValueError) as error:
            raise ForbiddenAddress("the URL is malformed") from error
        if (
            parsed.scheme not in ("http", "https")
            or not host
            or not 0 < (443 if parsed.port is None else parsed.port) < 65_536
        ):
            raise ForbiddenAddress("the URL is malformed")
        if guarded:
            self._rules.check_host(host)
        return parsed

    def _opened(self) -> Pools:
        if self._pools is None:
            from .dialing import Pools, SystemResolver

            self._resolve = self._resolve or SystemResolver()
            self._pools = Pools(self._rules, self._at_once, self._resolve, self._network, self._tls)
        return self._pools
