"""An API as many small providers have it, under /plain: it takes idempotency keys and signs its call-backs by HMAC."""

from __future__ import annotations

import json
import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .http import json_of, note, served
from .pictures import BadInput
from .signing import Signing
from .tasks import Simulator, Task

PRICE_PER_S = 0.0004


class Plain:
    name = "plain"

    def new_id(self) -> str:
        return f"task_{secrets.token_hex(10)}"

    def callback_body(self, simulator: Simulator, task: Task) -> bytes:
        return json.dumps({"event": "task.ended", "task": shown(task)}).encode()

    def callback_headers(self, signing: Signing, task: Task, at: int, body: bytes) -> dict[str, str]:
        return signing.plain(body)


def shown(task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {"id": task.id, "state": task.state, "progress": 100 if task.is_over else 50}
    if task.error is not None:
        found["error"] = {"message": task.error}
    if task.state == "succeeded":
        found["result"] = {"files": [{"href": task.file_url}]}
    if task.is_over:
        found["price"] = {"amount": round(0.01 + task.work_s * PRICE_PER_S, 6), "currency": "EUR"}
    return found


def routes(simulator: Simulator) -> list[Route]:
    shape = Plain()
    names: dict[str, str] = {}

    async def start(request: Request) -> Response:
        body = await json_of(request)
        if not isinstance(body.get("input"), dict) or not body.get("model"):
            raise BadInput("model and input are required")
        key = request.headers.get("idempotency-key")
        given, url = body["input"], body.get("callback_url")
        task, repeated = await simulator.start(shape, str(body["model"]), given, url, key)
        if name := request.headers.get("x-name"):
            names[name] = task.id
        note(request, task.id, repeated)
        return JSONResponse({"task": shown(task)}, 200 if repeated else 202)

    async def find(request: Request) -> Response:
        task = simulator.task("plain", names.get(request.query_params.get("name", ""), ""))
        return JSONResponse({"tasks": [] if task is None else [shown(task)]})

    async def status(request: Request) -> Response:
        task = simulator.task("plain", request.path_params["id"])
        return JSONResponse({"task": shown(task)}) if task is not None else _problem("no such task", 404)

    async def cancel(request: Request) -> Response:
        task = simulator.task("plain", request.path_params["id"])
        if task is None:
            return _problem("no such task", 404)
        return JSONResponse({"task": shown(task)}) if simulator.cancel(task) else _problem("the task has ended", 409)

    async def secret(request: Request) -> Response:
        return JSONResponse({"secret": simulator.signing.plain_secret})

    def route(method: str, path: str, on: str, endpoint: Any) -> Route:
        return Route("/plain" + path, served(simulator, "plain", on, _checked(endpoint), _problem), methods=[method])

    return [
        route("POST", "/tasks", "start", start),
        route("GET", "/tasks", "find", find),
        route("GET", "/tasks/{id}", "status", status),
        route("DELETE", "/tasks/{id}", "cancel", cancel),
        route("GET", "/secret", "keys", secret),
    ]


def _checked(endpoint: Any) -> Any:
    async def answer(request: Request) -> Response:
        if request.headers.get("authorization", "Bearer bad") == "Bearer bad":
            return _problem("the key is not valid", 401)
        return await endpoint(request)

    return answer


def _problem(words: str, status: int = 422) -> Response:
    return JSONResponse({"error": {"message": words}}, status)
