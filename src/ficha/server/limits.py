"""Limits on the size of a request's body and on the time it takes to arrive. Pure ASGI, so that no part of a body that
is too large is buffered."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.codes import AnyCode
from .problems import problem_response
from .settings import Settings
from .usage import Usage

BATCHES: Final = ("/api/batches", "/api/batches/lines")
"""The routes that take many jobs at once, and therefore a larger body."""
SIGN_IN: Final = "/api/sign-in"
SIGN_IN_BYTES: Final = 16_384
"""The largest body of a sign-in, which anybody may send: more than the longest token."""
UPLOADS: Final = "/api/uploads"
"""The one route that takes files."""


class BodyLimits:
    """Middleware that answers a request whose body is too large (413) or too slow (408) in the application's place."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _has_body(scope) or _is_upload(scope):
            await self.app(scope, receive, send)
            return
        max_bytes = self._max_bytes(scope)
        body = _Body(scope, receive, send, max_bytes, self.settings.body_s)
        if (_length(scope) or 0) > max_bytes:
            await body.refuse_size()
            return
        try:
            await self.app(scope, body.receive, body.send)
        except Exception:
            # The body was cut off, and the caller has been answered already.
            if not body.is_refused:
                raise

    def _max_bytes(self, scope: Scope) -> int:
        root = scope.get("root_path", "")
        if scope["method"] == "POST" and scope["path"] in (root + path for path in BATCHES):
            return self.settings.batch_body_bytes
        most = self.settings.body_bytes
        return min(SIGN_IN_BYTES, most) if scope["path"] == root + SIGN_IN else most


class _Body:
    """The body of one request as it arrives, and whether it can still be answered."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, max_bytes: int, within_s: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._within_s = within_s
        self._deadline: float | None = None
        self._bytes = 0
        self._held_bytes = 0
        self._is_whole = False
        self._is_answered = False
        self.is_refused = False

    async def receive(self) -> Message:
        if self.is_refused:
            return {"type": "http.disconnect"}
        if self._is_whole:
            # From here on, `receive` only waits for the caller to disconnect, without a time limit.
            return await self._receive()
        if self._deadline is None:
            # The time starts when the application first reads: until then it is not the caller who is slow. By then the
            # caller is authenticated, so the bytes are counted as theirs.
            self._deadline = asyncio.get_running_loop().time() + self._within_s
            self._hold(_length(self._scope) or 0)
        usage: Usage | None = self._scope.get("state", {}).get("usage")
        # A slow sender does not keep its account's other requests waiting.
        had_turn = usage is not None and usage.leave_turn()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            await self._refuse("TIMEOUT", f"the body did not arrive within {self._within_s:g} s")
            return {"type": "http.disconnect"}
        if usage is not None and had_turn:
            await usage.take_turn()
        self._bytes += len(message.get("body", b""))
        self._hold(self._bytes - self._held_bytes)
        self._is_whole = not message.get("more_body", False)
        if self._bytes > self._max_bytes:
            await self.refuse_size()
            return {"type": "http.disconnect"}
        return message

    def _hold(self, more: int) -> None:
        """Counts bytes until the request ends; raises RATE_LIMITED if its caller has too many under way."""
        usage: Usage | None = self._scope.get("state", {}).get("usage")
        if usage is not None and more > 0:
            usage.take("bytes", more)
            self._held_bytes += more

    async def send(self, message: Message) -> None:
        if self.is_refused:
            return
        self._is_answered = True
        await self._send(message)

    async def refuse_size(self) -> None:
        await self._refuse("TOO_LARGE", f"the body is larger than {self._max_bytes} bytes; send less at a time")

    async def _refuse(self, code: AnyCode, detail: str) -> None:
        self.is_refused = True
        if not self._is_answered:
            correlation_id = self._scope.get("state", {}).get("correlation_id")
            response = problem_response(code, detail, correlation_id=correlation_id)
            await response(self._scope, self._receive, self._send)


def _is_upload(scope: Scope) -> bool:
    """Whether the body is a file. It is streamed, not held, and the route that reads it limits its size and time."""
    is_file = any(
        name == b"content-type" and value.lower().startswith(b"multipart/form-data") for name, value in scope["headers"]
    )
    return is_file and scope["method"] == "POST" and scope["path"] == scope.get("root_path", "") + UPLOADS


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _length(scope: Scope) -> int | None:
    """The body's declared length, if it is a number; anything else is left to the server's parser."""
    given = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(given) if given.isdigit() and len(given) < 20 else None
