"""What holds for every answer: a correlation id, security headers, a line in the log, and words for what went wrong."""

from __future__ import annotations

import asyncio
import logging
import re
import time
import traceback
from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..core.codes import AnyCode
from ..ids import new_id
from .problems import problem_response

log = logging.getLogger("ficha.server")

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
PATH_SHOWN: Final = 256
PLACES_SHOWN: Final = 30
STOPPING: Final = "the server stopped before this was done; whether it was is not known, so repeat it with the same key"
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


class Access:
    """The outermost middleware. `has_cors`: pages of other origins may read what is answered."""

    def __init__(self, app: ASGIApp, *, has_cors: bool = False) -> None:
        self.app = app
        self.has_cors = has_cors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        correlation_id = _correlation_id(scope)
        scope.setdefault("state", {})["correlation_id"] = correlation_id
        reply = _Reply(send, [*security_headers(scope["scheme"], has_cors=self.has_cors), _id_header(correlation_id)])
        began = time.perf_counter()
        failed: Exception | None = None
        try:
            await self.app(scope, receive, reply.send)
        except ClientDisconnect:
            # The caller left in the middle of the body: there is nobody to answer, and nothing is wrong here.
            pass
        except Exception as error:
            failed = error
            detail = "something went wrong here, and it was logged under this correlation id"
            await reply.instead(scope, receive, "INTERNAL", detail)
        except asyncio.CancelledError:
            await reply.instead(scope, receive, "OVERLOADED", STOPPING, retry_after_s=1)
            raise
        finally:
            _write(scope, reply, (time.perf_counter() - began) * 1_000, failed)


class _Reply:
    """The answer on its way out: completed with headers, and counted."""

    def __init__(self, send: Send, headers: Headers) -> None:
        self._send = send
        self._headers = headers
        self.status: int | None = None
        self.bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": completed(message.get("headers", ()), self._headers)}
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def instead(self, scope: Scope, receive: Receive, code: AnyCode, detail: str, **more: Any) -> None:
        """Answers in the application's place, unless it has begun to."""
        if self.status is None:
            told = problem_response(code, detail, correlation_id=scope["state"]["correlation_id"], **more)
            await told(scope, receive, self.send)


def completed(given: Any, more: Headers) -> Headers:
    """The headers of an answer, with those of ours that it does not set itself."""
    headers = list(given)
    present = {name for name, _ in headers}
    headers.extend(header for header in more if header[0] not in present)
    return headers


def security_headers(scheme: str | None, *, has_cors: bool = False) -> Headers:
    return [*_HEADERS, *(() if has_cors else _SAME_ORIGIN), *(_HTTPS if scheme == "https" else ())]


def _id_header(correlation_id: str) -> tuple[bytes, bytes]:
    return b"x-correlation-id", correlation_id.encode()


def _correlation_id(scope: Scope) -> str:
    """The caller's own, if it is a plain name: it goes into logs and headers."""
    for name, value in scope["headers"]:
        if name == b"x-correlation-id" and (given := _NAME.fullmatch(value.decode("latin-1"))) is not None:
            return given[0]
    return new_id()


def _write(scope: Scope, reply: _Reply, took_ms: float, failed: Exception | None) -> None:
    """One line for a request, with nothing of what the caller sent but its path."""
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
        "caller": state.get("caller_name"),
        "bytes": reply.bytes,
    }
    if failed is None:
        log.log(level, "request", extra=fields)
    else:
        fields |= {"error": type(failed).__name__, "traceback": "\n".join(_places(failed))}
        # The words of an exception may be the caller's, so they are only for whoever asks for everything.
        log.error("request failed", extra=fields, exc_info=failed if log.isEnabledFor(logging.DEBUG) else None)


def shown_path(path: str) -> str:
    """A path as it may be logged: words and ids. Whatever else stands in it may be anything, a secret among others."""
    shown = "/".join(part if _PLAIN.fullmatch(part) else "…" for part in path[:PATH_SHOWN].split("/"))
    return shown if len(path) <= PATH_SHOWN else shown + "…"


def _places(error: BaseException) -> Iterator[str]:
    """Where an exception came from, and what led to it: kinds and lines of code, without their words."""
    behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if behind is not None:
        yield from _places(behind)
        yield "which led to"
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    for frame in traceback.extract_tb(error.__traceback__, -PLACES_SHOWN):
        yield f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line}"
