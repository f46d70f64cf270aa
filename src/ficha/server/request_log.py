"""What every response gets: a correlation id, security headers, a log line, and a problem if the application failed."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import trace_context
from ..core.codes import AnyCode
from ..ids import new_id
from ..job_log import begin
from .hosting import take_token
from .paths import with_whole_path
from .problems import problem_response
from .process_metrics import count_request

log = logging.getLogger("ficha.server")

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
PATH_CHARS: Final = 256
FRAMES_SHOWN: Final = 30
STOPPING: Final = "the server stopped before it answered; the request may be done or not: repeat it with the same key"
_NAME: Final = re.compile(r"[A-Za-z0-9._~-]{1,128}")
_PLAIN: Final = re.compile(r"[a-z.-]{0,24}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_SAME_ORIGIN: Final = ((b"cross-origin-resource-policy", b"same-origin"),)
_HTTPS: Final = ((b"strict-transport-security", b"max-age=31536000"),)

Headers = list[tuple[bytes, bytes]]


class RequestLog:
    """The outermost middleware. `has_cors`: pages of other origins may read responses."""

    def __init__(self, app: ASGIApp, *, has_cors: bool = False) -> None:
        self.app = app
        self.has_cors = has_cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        token = take_token(scope)
        scope = with_whole_path(scope)
        correlation_id = _correlation_id(scope)
        state = scope.setdefault("state", {})
        state["correlation_id"] = correlation_id
        state["token"] = token
        ours = [*security_headers(scope["scheme"], has_cors=self.has_cors), _id_header(correlation_id)]
        reply = _Reply(send, ours, state, has_body=scope["method"] != "HEAD")
        began = time.perf_counter()
        failed: Exception | None = None
        context = trace_context.from_headers(scope["headers"])
        traced = trace_context.of_request.set(context)
        traces: list[str] = [] if context is None else [context[3:35]]
        made = trace_context.made_in_request.set(traces)
        begin(lambda: {"correlation_id": correlation_id})
        try:
            await self.app(scope, receive, reply.send)
        except (ClientDisconnect, HeadIsSent):
            # The caller disconnected in the middle of the body, or asked for no body: there is nothing left to send,
            # and no error.
            pass
        except Exception as error:
            failed = error
            detail = "the server failed; the error was logged under this correlation id"
            await reply.answer_instead(scope, receive, "INTERNAL", detail)
        except asyncio.CancelledError:
            await reply.answer_instead(scope, receive, "OVERLOADED", STOPPING, retry_after_s=1)
            raise
        finally:
            trace_context.of_request.reset(traced)
            trace_context.made_in_request.reset(made)
            if reply.status is not None:
                count_request(scope, reply.status, (reply.started or began) - began)
            took_ms = (time.perf_counter() - began) * 1_000
            _log_request(scope, reply, took_ms, traces[0] if traces else None, failed)


class HeadIsSent(OSError):
    """Ends the answer to a HEAD, whose body nobody reads. ASGI applications take an OSError while they send as the end
    of the connection."""


class _Reply:
    """Sends the response with our headers, and counts its bytes. The answer to a HEAD is that to a GET without its
    body."""

    def __init__(self, send: Send, headers: Headers, state: Mapping[str, Any], *, has_body: bool) -> None:
        self._send = send
        self._state = state
        self._headers = headers
        self._has_body = has_body
        self.status: int | None = None
        self.started: float | None = None
        self.bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.started = time.perf_counter()
            given = message.get("headers", ())
            if self._state.get("is_operator"):
                # It may hold any account's data: no browser or proxy keeps a copy, whatever the route says of its own.
                given = [header for header in given if header[0] != b"cache-control"]
            message = {**message, "headers": with_defaults(given, self._headers)}
        elif not self._has_body:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            if message.get("more_body"):
                raise HeadIsSent
            return
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def answer_instead(self, scope: Scope, receive: Receive, code: AnyCode, detail: str, **more: Any) -> None:
        """Answers in the application's place, unless it has begun to answer."""
        if self.status is None:
            response = problem_response(code, detail, correlation_id=scope["state"]["correlation_id"], **more)
            await response(scope, receive, self.send)


def with_defaults(given: Any, more: Headers) -> Headers:
    """The headers of a response, with ours added where it does not set them itself."""
    headers = list(given)
    present = {name for name, _ in headers}
    headers.extend(header for header in more if header[0] not in present)
    return headers


def security_headers(scheme: str | None, *, has_cors: bool = False) -> Headers:
    return [*_HEADERS, *(() if has_cors else _SAME_ORIGIN), *(_HTTPS if scheme == "https" else ())]


def _id_header(correlation_id: str) -> tuple[bytes, bytes]:
    return b"x-correlation-id", correlation_id.encode()


def _correlation_id(scope: Scope) -> str:
    """The caller's correlation id, if it is a plain name, since it goes into logs and headers; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-correlation-id" and (given := _NAME.fullmatch(value.decode("latin-1"))) is not None:
            return given[0]
    return new_id()


def _log_request(scope: Scope, reply: _Reply, took_ms: float, trace_id: str | None, failed: Exception | None) -> None:
    """Logs one line for a request; of what the caller sent, only the path and the trace."""
    level = logging.DEBUG if scope["path"] in PROBES else logging.INFO
    level = level if failed is None else logging.ERROR
    if not log.isEnabledFor(level):
        return
    state = scope["state"]
    fields = {
        "method": scope["method"],
        "path": shown_path(scope["path"]),
        "route": getattr(scope.get("route"), "path", None),
        "status": reply.status,
        "duration_ms": round(took_ms, 1),
        "correlation_id": state["correlation_id"],
        "trace_id": trace_id,
        "caller": state.get("caller_name"),
        "bytes": reply.bytes,
    }
    if failed is None:
        log.log(level, "request", extra=fields)
    else:
        place = "\n".join(_traceback_lines(failed))
        fields |= {"error": type(failed).__name__, "traceback": place}
        # An exception's message may hold the caller's data, so it is logged at DEBUG level only.
        whole = (type(failed), failed, failed.__traceback__) if log.isEnabledFor(logging.DEBUG) else None
        line = log.makeRecord(log.name, logging.ERROR, __file__, 0, "request failed", (), whole, extra=fields)
        if whole is None:
            # Python's own formatters show no extra fields, but show this text below the line.
            line.exc_text = f"{fields['method']} {fields['path']}, correlation id {state['correlation_id']}\n{place}"
        log.handle(line)


def shown_path(path: str) -> str:
    """A path as it may be logged: plain words and ids. Any other part could be a secret."""
    shown = "/".join(part if _PLAIN.fullmatch(part) else "…" for part in path[:PATH_CHARS].split("/"))
    return shown if len(path) <= PATH_CHARS else shown + "…"


def _traceback_lines(error: BaseException) -> Iterator[str]:
    """An exception and its causes: their classes and lines of code, without their messages."""
    origin = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if origin is not None:
        yield from _traceback_lines(origin)
        yield "which led to"
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    for frame in traceback.extract_tb(error.__traceback__, -FRAMES_SHOWN):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
