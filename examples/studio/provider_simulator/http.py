"""What the four APIs share: each request is logged, and answered as planned, well or badly."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .behaviour import Logged
from .pictures import BadInput
from .tasks import Simulator

MOST_BODY_BYTES = 48 * 1024 * 1024
HUGE_BYTES = 10 * 1024 * 1024

Endpoint = Callable[[Request], Awaitable[Response]]
_transports: dict[Any, asyncio.Transport] = {}


class Protocol(HttpToolsProtocol):
    """Remembers the transport of each connection, so that an endpoint can cut it."""

    def connection_made(self, transport: Any) -> None:
        _transports[transport.get_extra_info("peername")] = transport
        # asyncio sets this only on sockets that were made with the protocol's number.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        _transports.pop(self.transport.get_extra_info("peername"), None)
        super().connection_lost(exc)


class Close(Response):
    """The connection is closed without an answer, or in the middle of one."""

    def __init__(self, whole: bytes = b"", media_type: str = "application/octet-stream") -> None:
        self._whole = whole
        self._media_type = media_type
        self.status_code = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._whole:
            length = str(len(self._whole)).encode()
            headers = [(b"content-type", self._media_type.encode()), (b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            half = self._whole[: len(self._whole) // 2]
            await send({"type": "http.response.body", "body": half, "more_body": True})
        _transports[tuple(scope["client"])].close()
        while not await _is_gone(receive):
            pass


async def _is_gone(receive: Receive) -> bool:
    return (await receive())["type"] == "http.disconnect"


def served(
    simulator: Simulator, provider: str, on: str, endpoint: Endpoint, problem: Callable[[str], Response]
) -> Endpoint:
    """An endpoint of a provider's API.

    on: the kind of call, by which misbehaviour is planned.
    problem: the provider's own answer to a bad request, from its words.
    """

    async def answer(request: Request) -> Response:
        request.state.task_id, request.state.repeated = None, False
        planned = simulator.plan.answer(provider, on)
        slow = 0.0 if planned is None else planned.slow
        if slow and not planned.after:
            await asyncio.sleep(slow)
        response: Response | None = None
        if planned is None or planned.fault is None or planned.after:
            try:
                response = await endpoint(request)
            except BadInput as bad:
                response = problem(str(bad))
        if slow and planned.after:
            await asyncio.sleep(slow)
        if planned is not None and planned.fault == "given":
            response = Response(planned.body, planned.status, planned.headers)
        elif planned is not None and planned.fault is not None:
            response = bad_answer(planned.fault, planned.retry_after)
        simulator.log.append(
            Logged(
                at=time.time(),
                provider=provider,
                on=on,
                path=request.url.path,
                key=request.headers.get("idempotency-key"),
                task_id=request.state.task_id or request.path_params.get("id"),
                status=response.status_code,
                repeated=request.state.repeated,
            )
        )
        return response

    return answer


def bad_answer(fault: str, retry_after: str = "1") -> Response:
    match fault:
        case "close":
            return Close()
        case "500":
            return JSONResponse({"detail": "internal error"}, 500)
        case "429":
            words = "Request was throttled."
            return JSONResponse({"detail": words, "msg": words}, 429, {"Retry-After": retry_after})
        case "404":
            return JSONResponse({"detail": "The requested resource could not be found."}, 404)
        case "html":
            return HTMLResponse("<html><body><h1>We are down for maintenance</h1></body></html>")
        case "redirect":
            return RedirectResponse("http://127.0.0.1:9/elsewhere", 302)
        case "huge":
            return Response(b'{"detail": "' + b"x" * HUGE_BYTES + b'"}', media_type="application/json")
        case "garbage":
            return Response(b'{"id": "unfinished', media_type="application/json")
        case "empty":
            return Response(b"")
        case _:
            raise AssertionError(fault)


async def body_of(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MOST_BODY_BYTES:
            raise BadInput("the request is too large")
    return bytes(data)


async def json_of(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await body_of(request))
    except ValueError as error:
        raise BadInput("the body is not JSON") from error
    if not isinstance(found, dict):
        raise BadInput("the body is not a JSON object")
    return found


def note(request: Request, task_id: str, repeated: bool) -> None:
    """Which task a request was about, for the log."""
    request.state.task_id, request.state.repeated = task_id, repeated
