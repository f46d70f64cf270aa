"""Limits on answers: how long a client may take for each part of one, and how many bytes a caller's answers may hold.

Pure ASGI, so that they hold under any server. Under our own, `protocol` also drops a connection that takes no bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import Refused
from .guard import SAFE_METHODS
from .problems import refused_response
from .settings import Settings
from .usage import UnderWay, Usage

PART_BYTES: Final = 262_144
"""A larger answer is sent in parts of this size, each with the time limit, and its bytes are counted."""
OTHERS_FIRST_S: Final = 1.0
"""How much longer this limit is than that of the server, which should act first: it can also drop what it buffers."""


class TakesNothing(TimeoutError):
    """The client did not take a part of an answer in time."""


class AnswerLimits:
    """Middleware that aborts an answer which its client does not take in time, and counts what requests have under
    way."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.under_way = UnderWay(settings)
        self._within_s = settings.write_s + OTHERS_FIRST_S

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        usage = scope.setdefault("state", {})["usage"] = Usage(self.under_way)
        answer = _Answer(scope, receive, send, usage, self._within_s)
        try:
            await in_steps(self._answered(scope, receive, answer.send), usage.spent)
        except TakesNothing:
            # Nobody is left to answer. As the answer stays incomplete, the server closes the connection.
            pass
        finally:
            usage.end()

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@coroutine
def in_steps(request: Coroutine[Any, Any, None], told: Callable[[float], None]) -> Generator[Any, Any, None]:
    """Runs a request. Passes to `told` how long each of its steps, from one wait to the next, kept the event loop."""
    step = partial(request.send, None)
    while True:
        began_at = time.perf_counter()
        try:
            awaited = step()
        except StopIteration:
            return
        finally:
            told(time.perf_counter() - began_at)
        try:
            step = partial(request.send, (yield awaited))
        except BaseException as error:
            step = partial(request.throw, error)


class _Answer:
    """One answer as it is sent."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, usage: Usage, within_s: float) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._usage = usage
        self._within_s = within_s
        self._has_length = False
        self._is_refused = False

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            self._usage.leave_turn()
            # A file is sent as it is read: only one piece of it is in memory.
            is_held = not self._scope["state"].get("sends_file", False)
            if is_held and (size := _length(message)) > PART_BYTES and not await self._is_counted_whole(size):
                return
            await self._send(message)
        elif len(message.get("body", b"")) > PART_BYTES:
            await self._send_parts(message)
        elif message.get("more_body"):
            await self._part(message)
        else:
            await self._send(message)

    async def _is_counted_whole(self, size: int) -> bool:
        """Counts the whole answer until the request ends, or refuses the request and returns False. Only a call that
        changes nothing is refused: the answer to any other is always sent."""
        try:
            if self._scope["method"] in SAFE_METHODS:
                self._usage.take("bytes", size)
            else:
                self._usage.add("bytes", size)
        except Refused as refused:
            response = refused_response(refused, self._scope["state"].get("correlation_id"))
            await response(self._scope, self._receive, self._send)
            self._is_refused = True
            return False
        self._has_length = True
        return True

    async def _send_parts(self, message: Message) -> None:
        body = memoryview(message["body"])
        # A message of a stream is held only while it is sent.
        held = 0 if self._has_length else len(body)
        self._usage.add("bytes", held)
        for start in range(0, len(body), PART_BYTES):
            more = message.get("more_body", False) or start + PART_BYTES < len(body)
            await self._part({**message, "body": bytes(body[start : start + PART_BYTES]), "more_body": more})
        self._usage.give_back("bytes", held)

    async def _part(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                await self._send(message)
        except TimeoutError:
            raise TakesNothing from None


def _length(message: Message) -> int:
    given = next((value for name, value in message.get("headers", ()) if name == b"content-length"), b"0")
    return int(given)
