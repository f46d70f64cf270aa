"""Answers in the parent's process while no child of a server accepts connections.

The parent keeps the port open across the deaths of its children. Without this, callers would connect and wait
unanswered until a new child has started.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import Final

from starlette.types import Receive, Scope, Send

from ..extras import needs_extra
from .problems import problem_response
from .request_log import RequestLog

with needs_extra("server"):
    import uvicorn
    from uvicorn.server import ServerState

    from .protocol import Protocol
    from .serving import BACKLOG

log = logging.getLogger("ficha.server")

RESTARTING: Final = "the server is being restarted; nothing was changed. Try again shortly."
RETRY_AFTER_S: Final = 1.0


class StandIn:
    """Answers every request at a listening socket with 503 while it accepts, in a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._config = uvicorn.Config(
            RequestLog(_restarting),
            http=Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: asyncio.Server | None = None

    def accept(self) -> None:
        """Accepts connections from now on."""
        if self._server is None:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="ficha stand-in", daemon=True).start()
            try:
                self._server = asyncio.run_coroutine_threadsafe(self._accept(), self._loop).result()
            except OSError as error:
                # It is tried again when something happens to a child; the server goes on without it.
                log.error("callers cannot be answered while no process serves", extra={"error": str(error)})

    def leave(self) -> None:
        """Accepts no more; connections that it has are answered, and then closed."""
        if self._server is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._server.close)
            self._server = None

    async def _accept(self) -> asyncio.Server:
        loop, state = asyncio.get_running_loop(), ServerState()
        # On a copy of the socket, because the server closes the one that it accepts from.
        return await loop.create_server(
            lambda: Protocol(self._config, state, {}, loop), sock=self._sock.dup(), backlog=BACKLOG
        )


async def _restarting(scope: Scope, receive: Receive, send: Send) -> None:
    # Closed afterwards, so that the caller's next request reaches a child.
    response = problem_response(
        "OVERLOADED",
        RESTARTING,
        retry_after_s=RETRY_AFTER_S,
        correlation_id=scope["state"]["correlation_id"],
        headers={"Connection": "close"},
    )
    await response(scope, receive, send)
