"""One HTTP server process: uvicorn, with our limits, logging and graceful stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from .. import tracing
from ..backoff import away_pause_s
from ..extras import needs_extra
from ..garbage import freeze_objects
from ..store.base import Unavailable
from ..store.connect import store_for
from .application import asgi
from .settings import Settings

with needs_extra("server"):
    import uvicorn

    from .protocol import Protocol

if TYPE_CHECKING:
    from ..app import Ficha

log = logging.getLogger("ficha.server")

CLOSE_S: Final = 2.0
"""How long the application may take to close, after the grace of the requests."""
BACKLOG: Final = 2_048
GC_THRESHOLDS: Final = (20_000, 20, 100)
"""The garbage collector's thresholds: new objects until a young collection, then collections until an older one. Each
open stream has a hundred objects or more; with Python's own thresholds, traversing those of thousands of streams every
few seconds would block the loop for a quarter of a second."""
SWITCH_S: Final = 0.000_5
"""How long a thread keeps the interpreter while the event loop wants it. With Python's own 5 ms, a request waits many
times that while a large body is read: once for each step on the event loop and on SQLite's thread."""
KEEP_ALIVE_S: Final = 75
"""How long a connection may be idle: longer than proxies and clients allow, so that they close it and no request is
sent on a connection that is being closed."""


class NotServed(Exception):
    """The server could not be started; the message says why and what to do."""


class PortTaken(NotServed):
    """Another program listens there."""


class ServerProcess(uvicorn.Server):
    """Serves the application; opens and closes it, unless it is open already.

    grace_s: how long requests under way may take to end after `stop`.

    `on_started` is called once the server listens and the application is open.
    """

    def __init__(self, app: Ficha, settings: Settings, *, grace_s: float) -> None:
        class Bounded(Protocol):
            header_bytes = settings.header_bytes
            header_s = settings.header_s
            write_s = settings.write_s

        config = uvicorn.Config(
            _without_cancellation(asgi(app, settings)),
            http=Bounded,
            ws="none",
            lifespan="on",
            # uvloop where there is one: not on Windows.
            loop="auto",
            # Log lines go through the process's logging; below errors, this server logs its own instead of uvicorn's.
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            forwarded_allow_ips=list(settings.trusted_proxies),
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=grace_s,  # type: ignore[arg-type]  # A float works: it is a plain timeout.
        )
        super().__init__(config)
        self._app = app
        self._write_s = settings.write_s
        self._opened = False
        self.on_started: Callable[[], None] = lambda: None
        self._stopped = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def prepare(self) -> None:
        """Does in advance what takes long at the start of serving: it imports what the server and the application
        need. Opens nothing."""
        self.config.load()
        self.config.get_loop_factory()
        store_for(self._app.database, self._app.schema)
        tracing.import_exporter()
        freeze_objects()

    def stop(self, *, at_once: bool = False) -> None:
        """Stops accepting, ends live streams with a hint to reconnect, lets requests end within the grace, and closes
        the application. `at_once` waits for nothing more. May be called from any thread."""
        self.should_exit = True
        self.force_exit |= at_once
        if self._loop is not None:
            # The loop may have ended already.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopped.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: the code that runs the process handles signals, and calls `stop`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        if not self._app.is_open:
            await self._open()
        if self.should_exit:
            await self._close()
            return
        for found in sockets or ():
            _limit_unread(found, self._write_s)
        try:
            await super().startup(sockets)
        except OSError as error:
            await self._close()
            assert sockets
            raise _listen_error(error, *sockets[0].getsockname()[:2]) from error
        freeze_objects()
        gc.set_threshold(*GC_THRESHOLDS)
        sys.setswitchinterval(SWITCH_S)
        self.on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping", extra={"connections": len(self.server_state.connections)})
        # Live streams never end by themselves, so they are ended first.
        self._app.engine.live.close()
        try:
            await super().shutdown(sockets)
        finally:
            await self._close()

    async def _open(self) -> None:
        """Opens the application; retries while the database is unreachable."""
        tries = 0
        while not self.should_exit:
            try:
                await self._app.open()
            except Unavailable as error:
                tries += 1
                wait_s = away_pause_s(tries)
                log.warning("the database is unreachable", extra={"error": str(error), "again_in_s": round(wait_s, 1)})
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), wait_s)
            else:
                self._opened = True
                return

    async def _close(self) -> None:
        if self._opened:
            await self._app.close(CLOSE_S)


def _limit_unread(found: socket.socket, seconds: float) -> None:
    """Makes the system end connections accepted here whose client takes nothing for that long. Only the system knows
    what waits in the socket's own buffer, which can hold the messages of a quiet stream for hours. Linux only."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, min(int(seconds * 1_000), 2**31 - 1))


def _without_cancellation(app: ASGIApp) -> ASGIApp:
    """Hides cancellation from uvicorn: a request that is cut off after the grace has been answered and logged."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return served


def bound(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen: callers cannot connect before it is served."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise NotServed(f"cannot listen at {host!r}: {error.strerror or error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        raise _listen_error(error, host, port) from error
    return found


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens already: nobody else can take the port, and callers wait until it is served."""
    found = bound(host, port)
    try:
        found.listen(BACKLOG)
    except OSError as error:
        found.close()
        raise _listen_error(error, host, port) from error
    return found


def _listen_error(error: OSError, host: str, port: int) -> NotServed:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTaken(
                f"port {port} of {host} is taken by another program; choose another with --port (0: any free one)"
            )
        case errno.EACCES:
            return NotServed(f"this program lacks the rights to listen at port {port}; choose one from 1024 up")
        case errno.EADDRNOTAVAIL:
            return NotServed(f"{host} is not an address of this machine; choose another with --host (0.0.0.0: all)")
    return NotServed(f"cannot listen at {host}, port {port}: {error.strerror or error}")


def url_of(found: socket.socket) -> str:
    """The address of a listening socket, for people."""
    host, port = found.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
