"""uvicorn's HTTP protocol with limits; without them it waits for headers forever and keeps all of them.

A connection is always either being answered or has a timer: for the headers of a request, for a body that is no longer
read, or uvicorn's own timer for a connection idle between requests. While something waits to be written, another timer
runs, also after the answer is complete or the connection was told to close.
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
from .request_log import security_headers, with_defaults

log = logging.getLogger("ficha.server")

INVALID: Final[HttpCode] = "INVALID_REQUEST"
"""The code for what is not HTTP. The OpenAPI document does not have it: such a request reaches no route."""
MAX_FIELDS: Final = 100
LINGER_S: Final = 2.0
"""How long a connection stays open after an answer that came before the end of the request; up to `LINGER_BYTES` of the
rest are discarded. If closed at once, the connection would be reset and the answer lost."""
LINGER_BYTES: Final = 32 * 2**20
FRAMING_PER_BODY_BYTE: Final = 8
"""How many bytes of framing are allowed per byte of a body: chunks of one byte have six."""
VERSIONS: Final = ("1.0", "1.1")
_UPGRADE: Final = re.compile(rb"\r\nUpgrade(?=:)", re.IGNORECASE)
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Za-z:._-]+\])(?::[0-9]*)?")
"""What the header Host may be (RFC 9110): a name or an address, and a port."""


class Protocol(HttpToolsProtocol):
    """One connection. `header_bytes`: the most for request line and headers together; `header_s`: their time limit;
    `write_s`: how long the client may take for what was last written."""

    header_bytes: ClassVar[int] = 32_768
    header_s: ClassVar[float] = 10.0
    write_s: ClassVar[float] = 30.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The parser calls `on_body` for each part of a body, and each byte may be a part; uvicorn's own method would
        # copy all earlier parts each time.
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # type: ignore[method-assign, assignment]
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._is_in_head = False
        self._is_in_body = False
        self._is_refused = False
        self._refusal: tuple[HttpCode, str] | None = None
        self._framing_bytes = 0
        """Bytes of the request that are not its body: headers, chunk framing and trailers."""
        self._body_bytes = 0
        self._discarded_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Writing pauses as soon as the socket does not take all, so that no unsent byte is without a timer.
        transport.set_write_buffer_limits(high=0)
        self._set_timer(self.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cancel_write_timer()
        # Not `close`, which would wait for the client and hold the bytes that it does not read.
        self._write_timer = self.loop.call_later(self.write_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(data)
            return
        self._framing_bytes += len(data)
        super().data_received(data if self._is_in_body else self._without_upgrade(data))
        self._pass_body_on()
        self._check_limits()

    def _check_limits(self) -> None:
        """After each read: refuses too many bytes, and sets a timer if there is none."""
        if self._is_refused or self.transport.is_closing():
            return
        if self._framing_bytes > self.header_bytes + FRAMING_PER_BODY_BYTE * self._body_bytes:
            self._refuse(*self._too_large())
        elif self._timer is None and (self._is_in_head or self._has_no_timer()):
            self._set_timer(self.header_s)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        # The rest of the same read is not counted: it may belong to the request before.
        self._framing_bytes = self._body_bytes = self._discarded_bytes = 0

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if len(self.headers) > MAX_FIELDS or size > self.header_bytes:
            self._refusal = self._too_large()
            raise ValueError("the headers are too large")
        if (problem := self._head_problem()) is not None:
            self._refusal = INVALID, problem
            raise ValueError(problem)
        super().on_headers_complete()
        self._is_in_head, self._is_in_body = False, True
        self._cancel_timer()
        # Otherwise trailers would be added to the headers unchecked.
        self.headers = []

    def _head_problem(self) -> str | None:
        """What is wrong with a head that the parser let pass, if anything."""
        version = self.parser.get_http_version()
        if version not in VERSIONS:
            return f"this server speaks HTTP/1.1, not HTTP/{version}"
        if not self.url.isascii():
            return "the URL has bytes that are not ASCII; percent-encode them"
        # Of several, two servers on the way could each use another one.
        hosts = [value for name, value in self.headers if name == b"host"]
        if len(hosts) > 1 or (not hosts and version != "1.0"):
            return "send the header Host exactly once"
        if hosts and _HOST.fullmatch(hosts[0]) is None:
            return "the header Host is not a host name or address with an optional port"
        if self.parser.should_upgrade():
            return "this server upgrades to no other protocol; leave the Upgrade header out"
        return None

    def _pass_body_on(self) -> None:
        """Gives the application what has arrived of the body."""
        if not self._parts or self._is_refused:
            self._parts.clear()
            return
        body = b"".join(self._parts)
        self._parts.clear()
        self._framing_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._discard(body)

    def on_message_complete(self) -> None:
        self._pass_body_on()
        super().on_message_complete()
        self._is_in_body = False
        if self.cycle.response_complete:
            # The answer did not wait for the body; now that it has arrived, the connection can be reused.
            self._cancel_timer()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_in_body and self.cycle.response_complete and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._set_timer(LINGER_S)

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or (INVALID, "the request is not valid HTTP/1.1; check the client")))

    def _without_upgrade(self, data: bytes) -> bytes:
        """Disarms the Upgrade header: some clients send it with every first request, and the parser would then take all
        that follows, the body included, for the other protocol."""
        if _UPGRADE.search(data, 0, self.header_bytes) is None:
            return data
        head, blank, rest = data.partition(b"\r\n\r\n")
        return _UPGRADE.sub(b"\r\nX-Upgrade", head) + blank + rest

    def _too_large(self) -> tuple[HttpCode, str]:
        return "HEADERS_TOO_LARGE", (
            f"the request line and headers may have at most {self.header_bytes} bytes and {MAX_FIELDS} fields"
        )

    def _has_no_timer(self) -> bool:
        """Whether the connection is idle without a timer: blank lines between requests cancel uvicorn's."""
        return self._unanswered() is None and not self._is_in_body and self.timeout_keep_alive_task is None

    def _unanswered(self) -> RequestResponseCycle | None:
        """The latest request, if its answer is not complete."""
        latest: RequestResponseCycle | None = self.cycle
        return None if latest is None or latest.response_complete else latest

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes > LINGER_BYTES:
            self.transport.close()

    def _set_timer(self, seconds: float) -> None:
        self._cancel_timer()
        self._timer = self.loop.call_later(seconds, self._timed_out)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _timed_out(self) -> None:
        self._timer = None
        if self.flow.read_paused and not self._is_refused:
            # The sender is not slow: its data waits for the answer to an earlier request.
            self._set_timer(self.header_s)
        elif self._is_in_head and not self._is_refused:
            self._refuse("TIMEOUT", f"the headers did not arrive within {self.header_s:g} s")
        else:
            self.transport.close()

    def _refuse(self, code: HttpCode, detail: str) -> None:
        """Answers a request that cannot be passed to the application, and lets the sender read the answer."""
        self._is_refused = True
        self._unset_keepalive_if_required()
        request = self._unanswered()
        is_its_body = request is not None and self._is_in_body and not request.response_started
        if self.pipeline or not (request is None or is_its_body):
            # The answer to an earlier request is under way; this one would be mistaken for it, or for a part of it.
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
        self.transport.write(self._encoded(response, correlation_id))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._set_timer(LINGER_S)

    def _encoded(self, response: Response, correlation_id: str) -> bytes:
        ours = [*security_headers(self.scheme), (b"x-correlation-id", correlation_id.encode())]
        headers = with_defaults([*self.server_state.default_headers, *response.raw_headers], ours)
        lines = [name + b": " + value + b"\r\n" for name, value in headers]
        body = bytes(response.body)
        return b"".join([STATUS_LINE[response.status_code], *lines, b"connection: close\r\n\r\n", body])
