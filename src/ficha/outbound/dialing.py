"""Connections: a name is resolved once, all its addresses are judged, and one of those is dialled.

The check is made where sockets are opened, so that no call can bypass it. TLS and the `Host` header keep the name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from typing import Any, Final

from ..extras import needs_extra
from .addresses import AddressRules, no_public_address
from .errors import OutboundError

with needs_extra("providers"):
    import httpcore
    import httpx

RESOLVING: Final = 50
"""Names that are resolved at a time. A name server that does not answer blocks a thread for many seconds."""
NEXT_ADDRESS_S: Final = 5.0
"""How long an address of a name may take to connect before the next is tried; the last may use the call's time."""
KEEPALIVE_S: Final = 15.0

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host name; raises OSError if it has none."""


class SystemResolver:
    """Asks the system, on threads of its own, because one user's slow names could block threads that are shared."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVING, thread_name_prefix="ficha-resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._ask, host, port)
        return [*dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)]

    @staticmethod
    def _ask(host: str, port: int) -> Sequence[tuple[Any, ...]]:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def resolved(resolve: Resolve, host: str, port: int, *, guarded: bool) -> Sequence[str]:
    """The host's addresses; if the host is an address, that one."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        pass
    try:
        addresses = await resolve(host, port)
    except (OSError, UnicodeError, ValueError) as error:
        words = no_public_address(host) if guarded else f"the name {host} could not be resolved"
        raise OutboundError(words, was_sent=False) from error
    if not addresses:
        raise OutboundError(no_public_address(host) if guarded else f"the name {host} has no address", was_sent=False)
    return addresses


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections to addresses that the rules allow.

    rules: None for hosts that the operator configured, which may be anywhere.
    is_plain: whether its calls are made without TLS.
    """

    def __init__(
        self, resolve: Resolve, rules: AddressRules | None, inner: httpcore.AsyncNetworkBackend, *, is_plain: bool
    ) -> None:
        self._resolve = resolve
        self._rules = rules
        self._inner = inner
        self._is_plain = is_plain

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await resolved(self._resolve, host, port, guarded=self._rules is not None)
        if self._rules is not None:
            self._rules.check_addresses(host, addresses, is_plain=self._is_plain)
        for number, address in enumerate(addresses, 1):
            is_last = number == len(addresses)
            try:
                return await self._inner.connect_tcp(address, port, None if is_last else NEXT_ADDRESS_S)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if is_last:
                    raise
        raise AssertionError("no address was tried")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 (httpcore's signature)
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise AssertionError("no call goes to a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Pools:
    """Connections, kept open for the next call to the same server; guarded and unguarded calls never share one."""

    def __init__(
        self,
        rules: AddressRules,
        at_once: int,
        resolve: Resolve,
        inner: httpcore.AsyncNetworkBackend | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        found = inner or httpcore.AnyIOBackend()
        context = tls or httpx.create_ssl_context()

        def pool(rules: AddressRules | None, *, is_plain: bool) -> httpcore.AsyncConnectionPool:
            return httpcore.AsyncConnectionPool(
                ssl_context=context,
                max_connections=at_once,
                max_keepalive_connections=max(1, at_once // 4),
                keepalive_expiry=KEEPALIVE_S,
                network_backend=GuardedBackend(resolve, rules, found, is_plain=is_plain),
            )

        self._free = pool(None, is_plain=False)
        self._guarded = pool(rules, is_plain=False)
        self._plain = pool(rules, is_plain=True)

    def of(self, url: httpx.URL, *, guarded: bool) -> httpcore.AsyncConnectionPool:
        if not guarded:
            return self._free
        return self._guarded if url.scheme == "https" else self._plain

    async def close(self) -> None:
        for pool in (self._free, self._guarded, self._plain):
            await pool.aclose()
