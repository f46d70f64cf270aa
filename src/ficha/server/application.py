"""The ASGI application: routes, exception handlers that make problems, and middleware."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route

from ..environment import SettingError
from ..errors import Refused
from ..signing import Signer
from ..store.base import CommitUnknown, StoreError
from ..worker import BulkRunner, Collector, DueRunner, SignRunner, collector
from .answer_limits import AnswerLimits
from .body_thread import BodyThread
from .cursors import Cursors
from .guard import correlation_id
from .hosting import NO_SECRET, ProcessSecret, hide_tokens
from .identity import Identity
from .limits import BodyLimits
from .metrics import Metrics
from .openapi import document
from .problems import EdgeError, problem_response, refused_response
from .readiness import Readiness
from .request_log import RequestLog
from .routes import ROUTERS
from .routes.web_pages import page_routes
from .settings import Settings

if TYPE_CHECKING:
    from ..app import Ficha

log = logging.getLogger("ficha.server")


def asgi(app: Ficha, settings: Settings | None = None) -> FastAPI:
    """The ASGI application for `app`. Its lifespan opens `app`; when it is mounted into another application, the first
    request does, unless `app` is open already. Without settings and FICHA_SECRET it logs a warning, and refuses to
    serve a database that another process serves without FICHA_SECRET too."""
    chosen = settings or Settings.passing()
    process_secret: ProcessSecret | None = None
    if settings is None and not Settings.has_secret():
        log.warning(NO_SECRET)
        process_secret = ProcessSecret(chosen.secret)
    hide_tokens()
    server = Server(
        title="Ficha",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
        redirect_slashes=False,
    )
    state = server.state
    state.ficha = app
    state.settings = chosen
    state.identity = Identity(app, chosen)
    app.signer = app.signer or Signer(chosen.secret)
    state.cursors = Cursors(chosen.secret)
    state.body_thread = BodyThread()
    state.opening = _Opening(app, process_secret)
    state.tools = {}
    state.metrics = Metrics(app)
    for router in ROUTERS:
        # One flat list: requests are matched against it, and the OpenAPI document is made from it.
        server.router.routes += router.routes
        for route in router.routes:
            if isinstance(route, APIRoute) and route.methods is not None and "GET" in route.methods:
                route.methods.add("HEAD")
    server.router.routes += page_routes(chosen)
    _add_handlers(server)
    _add_middlewares(server, chosen)
    return server


class Server(FastAPI):
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = document(self)
        return self.openapi_schema


class _Opening:
    """Opens the application once, at the first call. Also takes the duty of a process without FICHA_SECRET, runs bulk
    acts, and collects the results of providers that no worker collects."""

    def __init__(self, app: Ficha, process_secret: ProcessSecret | None) -> None:
        self._app = app
        self._lock = asyncio.Lock()
        self._process_secret = process_secret
        self._is_held = process_secret is None
        self._runners: list[asyncio.Task[None]] = []
        self.readiness = Readiness(app)
        self.is_ours = False

    async def __call__(self) -> Ficha:
        if not (self._is_held and self._app.is_open and self._runners):
            async with self._lock:
                if not self._app.is_open:
                    await self._app.open()
                    self.is_ours = True
                if not self._is_held and self._process_secret is not None:
                    await self._hold(self._process_secret)
                    self._is_held = True
                if not self._runners:
                    await self.readiness.start()
                    # A secret that this process made for itself is nobody else's.
                    signs = (
                        []
                        if self._process_secret is not None
                        else [SignRunner(lambda: self._app.engine, self._app.fingerprint)]
                    )
                    self._runners = [
                        asyncio.create_task(runner.run(), name=f"ficha {runner.what}")
                        for runner in (*_beside(self._app), *signs)
                    ]
        return self._app

    async def _hold(self, process_secret: ProcessSecret) -> None:
        try:
            await process_secret.hold(self._app)
        except SettingError as error:
            log.error("%s", error)
            raise

    async def close(self) -> None:
        await self.readiness.stop()
        for runner in self._runners:
            runner.cancel()
        await asyncio.gather(*self._runners, return_exceptions=True)
        if self._process_secret is not None:
            await self._process_secret.release(self._app)
        if self.is_ours:
            await self._app.close()


def _beside(app: Ficha) -> list[DueRunner]:
    """What a server runs beside its answers."""
    has_providers = any(tool.provider is not None for tool in app.tools.values())
    collectors = [Collector(app, app.tools, after_s=collector.SERVERS_AFTER_S)] if has_providers else []
    return [BulkRunner(app), *collectors]


@asynccontextmanager
async def _lifespan(server: FastAPI) -> AsyncIterator[None]:
    opening: _Opening = server.state.opening
    try:
        await opening()
        yield
    finally:
        await server.state.identity.close()
        server.state.body_thread.close()
        await opening.close()


def _add_handlers(server: FastAPI) -> None:
    @server.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return refused_response(error, correlation_id(request))

    @server.exception_handler(EdgeError)
    async def edge(request: Request, error: EdgeError) -> Response:
        return problem_response(error.code, str(error), correlation_id=correlation_id(request))

    @server.exception_handler(StoreError)
    async def away(request: Request, error: StoreError) -> Response:
        log.warning("the database cannot be used: %s", error)
        if isinstance(error, CommitUnknown):
            detail = f"{error.says}; ask again, with the same idempotency key."
        else:
            detail = f"{error.says}; nothing was changed. Try again shortly."
        return problem_response("OVERLOADED", detail, retry_after_s=2.0, correlation_id=correlation_id(request))

    @server.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        found = "; ".join(f"{'.'.join(map(str, one['loc'][1:]))}: {one['msg']}" for one in error.errors()[:5])
        return problem_response(
            "INVALID_ARGUMENT", f"{found}; nothing was changed.", correlation_id=correlation_id(request)
        )

    @server.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        asked = correlation_id(request)
        if error.status_code == 405:
            detail = f"this URL does not support {request.method}"
            headers = {"Allow": ", ".join(sorted(_methods(server, request)))}
            return problem_response("METHOD_NOT_ALLOWED", detail, correlation_id=asked, headers=headers)
        if error.status_code == 404:
            detail = f"there is nothing at {request.scope['path'][:200]}"
            return problem_response("NOT_FOUND", detail, correlation_id=asked)
        return problem_response("INVALID_ARGUMENT", str(error.detail), correlation_id=asked)


def _methods(server: FastAPI, request: Request) -> set[str]:
    """All methods that the URL supports. Routes know only their own."""
    found = set[str]()
    for route in server.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


def _add_middlewares(server: FastAPI, settings: Settings) -> None:
    """The last one is outermost: it sees every response, those of the other middlewares included."""
    server.add_middleware(BodyLimits, settings=settings)
    server.add_middleware(AnswerLimits, settings=settings)
    if settings.cors_origins:
        server.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "If-None-Match",
                "Last-Event-ID",
                "Prefer",
                "Range",
                "traceparent",
                "tracestate",
            ],
            expose_headers=[
                "Content-Range",
                "ETag",
                "Location",
                "Preference-Applied",
                "RateLimit",
                "RateLimit-Policy",
                "Retry-After",
            ],
            max_age=600,
        )
    server.add_middleware(RequestLog, has_cors=bool(settings.cors_origins))
