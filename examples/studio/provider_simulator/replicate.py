"""The API of Replicate: predictions under /replicate/v1, and call-backs by Standard Webhooks."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .http import json_of, note, served
from .pictures import BadInput
from .signing import Signing
from .tasks import Simulator, Task

STATES = {
    "queued": "starting",
    "working": "processing",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "canceled",
}


class Replicate:
    name = "replicate"

    def new_id(self) -> str:
        return secrets.token_hex(13)

    def callback_body(self, simulator: Simulator, task: Task) -> bytes:
        return json.dumps(prediction(simulator, task)).encode()

    def callback_headers(self, signing: Signing, task: Task, at: int, body: bytes) -> dict[str, str]:
        return signing.standard_webhooks(f"msg_{secrets.token_hex(12)}", at, body)


def prediction(simulator: Simulator, task: Task) -> dict[str, Any]:
    address = f"{simulator.base_url}/replicate/v1/predictions/{task.id}"
    return {
        "id": task.id,
        "model": task.model,
        "version": "simulated",
        "input": task.given if task.is_over else {},
        "logs": "",
        "output": output(task) if task.state == "succeeded" else None,
        "data_removed": False,
        "error": task.error,
        "status": STATES[task.state],
        "created_at": _time(task.created_at),
        "started_at": _time(task.started_at),
        "completed_at": _time(task.ended_at),
        "metrics": {"predict_time": task.work_s} if task.is_over else {},
        "urls": {"get": address, "cancel": f"{address}/cancel"},
    }


def routes(simulator: Simulator) -> list[Route]:
    shape = Replicate()

    async def start(request: Request) -> Response:
        if (refused := _unauthenticated(request)) is not None:
            return refused
        body = await json_of(request)
        model = "/".join(request.path_params.values()) or str(body.get("version", ""))
        given = body.get("input")
        if not model or not isinstance(given, dict):
            raise BadInput("- input: input is required")
        task, repeated = await simulator.start(shape, model, given, body.get("webhook"))
        note(request, task.id, repeated)
        return JSONResponse(prediction(simulator, task), 201)

    async def status(request: Request) -> Response:
        return _unauthenticated(request) or _found(simulator, request) or _missing()

    async def cancel(request: Request) -> Response:
        task = simulator.task("replicate", request.path_params["id"])
        if task is not None:
            simulator.cancel(task)
        return _unauthenticated(request) or _found(simulator, request) or _missing()

    async def secret(request: Request) -> Response:
        return _unauthenticated(request) or JSONResponse({"key": simulator.signing.secret})

    def route(method: str, path: str, on: str, endpoint: Any) -> Route:
        return Route("/replicate/v1" + path, served(simulator, "replicate", on, endpoint, _invalid), methods=[method])

    return [
        route("POST", "/predictions", "start", start),
        route("POST", "/models/{owner}/{name}/predictions", "start", start),
        route("POST", "/deployments/{owner}/{name}/predictions", "start", start),
        route("GET", "/predictions/{id}", "status", status),
        route("POST", "/predictions/{id}/cancel", "cancel", cancel),
        route("GET", "/webhooks/default/secret", "keys", secret),
    ]


def _found(simulator: Simulator, request: Request) -> Response | None:
    task = simulator.task("replicate", request.path_params["id"])
    return JSONResponse(prediction(simulator, task)) if task is not None else None


def _unauthenticated(request: Request) -> Response | None:
    if request.headers.get("authorization", "Bearer bad") not in ("Bearer bad", "Bearer "):
        return None
    words = "You did not pass a valid authentication token"
    return JSONResponse({"title": "Unauthenticated", "detail": words, "status": 401}, 401)


def _missing() -> Response:
    return JSONResponse({"detail": "The requested resource could not be found.", "status": 404}, 404)


def _invalid(words: str) -> Response:
    return JSONResponse({"title": "Input validation failed", "detail": words, "status": 422}, 422)


def _time(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def output(task: Task) -> str | list[str] | None:
    """One address, or a list where several pictures were asked for."""
    return task.file_urls if len(task.file_urls) > 1 else task.file_url
