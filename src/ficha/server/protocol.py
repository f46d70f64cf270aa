"""HTTP on the wire, with bounds: uvicorn's protocol, which by itself waits for headers for ever and keeps all of them.

A connection is always either being answered or has a timer: for the head of a request, for a body that nobody reads any
more, or uvicorn's own for one that is idle between requests.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any, ClassVar, Final

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..core.codes import HttpCode
from ..ids import new_id
from .problems import problem_response
from .request_log import completed, security_headers

log = logging.getLogger("ficha.server")

INVALID: Final[HttpCode] = "INVALID_REQUEST"
"""The code of what is not HTTP. It has no place in the documents of the routes, none of which can be asked so."""
MOST_FIELDS: Final = 100
LINGER_S: Final = 2.0
"""How long a connection stays after an answer that came before the end of the request: what its sender still has under
way is thrown away, up to the next number. Closed at once, it would be reset, and the answer lost on its way."""
LINGER_BYTES: Final = 32 * 2**20
PER_BODY_BYTE: Final = 8
"""Bytes around each byte of a body that are put up with: those of a body sent in pieces of one byte are six."""
_UPGRADE: Final = re.compile(rb"\r\nUpgrade(?=:)", re.IGNORECASE)


class Protocol(HttpToolsProtocol):
    """One connection. `header_bytes`: the request line and all headers together; `header_s`: how long they may take."""

    header_bytes: ClassVar[int] = 32_768
    header_s: ClassVar[float] = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._is_in_head = False
        self._is_in_body = False
        self._is_refused = False
        self._refusal: tuple[HttpCode, str] | None = None
        self._around = 0
        """Bytes of the request that are not its body: headers, and what chunks and trailers are made of."""
        self._body_bytes = 0
        self._thrown_away = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait(self.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._throw_away(data)
            return
        self._around += len(data)
        super().data_received(data if self._is_in_body else self._without_upgrade(data))
        self._look_after()

    def _look_after(self) -> None:
        """After data was read: whether it was too much, and whether there is more to wait for."""
        if self._is_refused or self.transport.is_closing():
            return
        if self._around > self.header_bytes + PER_BODY_BYTE * self._body_bytes:
            self._refuse(*self._too_large())
        elif self._timer is None and (self._is_in_head or self._is_forgotten()):
            self._wait(self.header_s)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        # What else is in the same piece of data is not counted: it may belong to the request before.
        self._around = self._body_bytes = self._thrown_away = 0

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > MOST_FIELDS or size > self.header_bytes:
            self._refusal = self._too_large()
            raise ValueError("the headers are too large")
        if self.parser.should_upgrade():
            self._refusal = INVALID, "there is no other protocol here; leave the Upgrade header out"
            raise ValueError("an upgrade")
        super().on_headers_complete()
        self._is_in_head, self._is_in_body = False, True
        self._stop_waiting()
        # Fields that come after the body would otherwise become headers that nobody checked.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        self._around -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._throw_away(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_body = False
        if self.cycle.response_complete:
            # The answer did not wait for the body, but now that it is here, the connection can be used again.
            self._stop_waiting()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_in_body and self.cycle.response_complete and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._wait(LINGER_S)

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or (INVALID, "this is not HTTP/1.1 as it is written; check the client")))

    def _without_upgrade(self, data: bytes) -> bytes:
        """Data with a request's head in it, but for the wish for another protocol: some clients say it with every first
        request, and the parser would take all that follows, the body among it, for that protocol."""
        if _UPGRADE.search(data, 0, self.header_bytes) is None:
            return data
        head, blank, rest = data.partition(b"\r\n\r\n")
        return _UPGRADE.sub(b"\r\nX-Upgrade", head) + blank + rest

    def _too_large(self) -> tuple[HttpCode, str]:
        return "HEADERS_TOO_LARGE", (
            f"the request line and the headers may have {self.header_bytes} bytes and {MOST_FIELDS} fields; send less"
        )

    def _is_forgotten(self) -> bool:
        """Whether nothing is under way and no timer runs: blank lines between requests stop uvicorn's."""
        return self._unanswered() is None and not self._is_in_body and self.timeout_keep_alive_task is None

    def _unanswered(self) -> RequestResponseCycle | None:
        """The latest request, if its answer is not complete."""
        latest: RequestResponseCycle | None = self.cycle
        return None if latest is None or latest.response_complete else latest

    def _throw_away(self, data: bytes) -> None:
        self._thrown_away += len(data)
        if self._thrown_away > LINGER_BYTES:
            self.transport.close()

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._waited)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _waited(self) -> None:
        self._timer = None
        if self.flow.read_paused and not self._is_refused:
            # It is not the sender who is slow: what was sent waits for the answer to an earlier request.
            self._wait(self.header_s)
        elif self._is_in_head and not self._is_refused:
            self._refuse("TIMEOUT", f"the headers were not there within {self.header_s:g} s; send them faster")
        else:
            self.transport.close()

    def _refuse(self, code: HttpCode, detail: str) -> None:
        """Answers what is not a request that the application can be asked, and lets the sender read the answer."""
        self._is_refused = True
        self._unset_keepalive_if_required()
        request = self._unanswered()
        is_its_body = request is not None and self._is_in_body and not request.response_started
        if self.pipeline or not (request is None or is_its_body):
            # The answer to an earlier request is under way, and this one would be taken for it, or for a part of it.
            self.transport.close()
            return
        if request is not None:
            request.disconnected = True
            request.message_event.set()
        correlation_id = new_id()
        response = problem_response(code, detail, correlation_id=correlation_id)
        log.info(
            "request refused",
            extra={"status": response.status_code, "code": code, "correlation_id": correlation_id},
        )
        self.transport.write(self._written(response, correlation_id))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._wait(LINGER_S)

    def _written(self, response: Response, correlation_id: str) -> bytes:
        ours = [*security_headers(self.scheme), (b"x-correlation-id", correlation_id.encode())]
        headers = completed([*self.server_state.default_headers, *response.raw_headers], ours)
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        body = bytes(response.body)
        return b"".join([STATUS_LINE[response.status_code], *lines, b"connection: close\r\n\r\n", body])
