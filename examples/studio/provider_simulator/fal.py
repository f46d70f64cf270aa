"""The API of fal's queue under /fal. Call-backs are signed with ed25519; the keys are at /fal/.well-known/jwks.json."""

from __future__ import annotations

import json
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .http import json_of, note, served
from .signing import Signing
from .tasks import Simulator, Task

STATES = {"queued": "IN_QUEUE", "working": "IN_PROGRESS"}


class Fal:
    name = "fal"

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def callback_body(self, simulator: Simulator, task: Task) -> bytes:
        body: dict[str, Any] = {"request_id": task.id, "gateway_request_id": task.id}
        if task.state == "succeeded":
            body |= {"status": "OK", "payload": output(task)}
        else:
            body |= {
                "status": "ERROR",
                "error": f"Invalid status code: {503 if task.behaviour.crash else 422}",
                "payload": error(task),
            }
        return json.dumps(body).encode()

    def callback_headers(self, signing: Signing, task: Task, at: int, body: bytes) -> dict[str, str]:
        return signing.fal(task.id, at, body)


def output(task: Task) -> dict[str, Any]:
    first, *others = (picture(task, url) for url in task.file_urls)
    if "video" in task.model:
        return {"video": first}
    return {"image": first} if "upscale" in task.model else {"images": [first, *others], "seed": 7}


def picture(task: Task, url: str) -> dict[str, Any]:
    made = task.made
    assert made is not None
    return {
        "url": url,
        "content_type": made.media_type,
        "file_name": url.partition("?")[0].rpartition("/")[2],
        "file_size": made.size,
        "width": made.width,
        "height": made.height,
    }


def error(task: Task) -> dict[str, Any]:
    words = "Request was cancelled" if task.state == "cancelled" else task.error
    if task.behaviour.crash:
        return {"detail": words, "error_type": "runner_disconnected"}
    return {"detail": [{"loc": ["body"], "msg": words, "type": "model_error"}]}


def routes(simulator: Simulator) -> list[Route]:
    shape = Fal()

    async def start(request: Request) -> Response:
        if (refused := _unauthenticated(request)) is not None:
            return refused
        given = await json_of(request)
        model = request.path_params["model"].strip("/")
        task, repeated = await simulator.start(shape, model, given, request.query_params.get("fal_webhook"))
        note(request, task.id, repeated)
        return JSONResponse({"status": "IN_QUEUE", "queue_position": 0, **_addresses(simulator, task)})

    async def status(request: Request) -> Response:
        task = simulator.task("fal", request.path_params["id"])
        if (refused := _unauthenticated(request)) is not None or task is None:
            return refused or _missing()
        found: dict[str, Any] = {**_addresses(simulator, task), "status": STATES.get(task.state, "COMPLETED")}
        if task.state == "queued":
            found["queue_position"] = 0
        if not task.is_over:
            return JSONResponse(found, 202)
        return JSONResponse({**found, "logs": None, "metrics": {"inference_time": task.work_s}})

    async def result(request: Request) -> Response:
        task = simulator.task("fal", request.path_params["id"])
        if (refused := _unauthenticated(request)) is not None or task is None:
            return refused or _missing()
        if not task.is_over:
            return JSONResponse({"detail": "Request is still in progress"}, 400)
        if task.state == "succeeded":
            return JSONResponse(output(task))
        if task.behaviour.crash:
            return JSONResponse(error(task), 503, {"X-Fal-Error-Type": "runner_disconnected"})
        return JSONResponse(error(task), 422)

    async def cancel(request: Request) -> Response:
        task = simulator.task("fal", request.path_params["id"])
        if (refused := _unauthenticated(request)) is not None or task is None:
            return refused or JSONResponse({"status": "NOT_FOUND"}, 404)
        if simulator.cancel(task):
            return JSONResponse({"status": "CANCELLATION_REQUESTED"}, 202)
        return JSONResponse({"status": "ALREADY_COMPLETED"}, 400)

    async def keys(request: Request) -> Response:
        return JSONResponse(simulator.signing.jwks())

    def route(method: str, path: str, on: str, endpoint: Any) -> Route:
        return Route("/fal" + path, served(simulator, "fal", on, endpoint, _invalid), methods=[method])

    return [
        route("GET", "/.well-known/jwks.json", "keys", keys),
        route("GET", "/{owner}/{app}/requests/{id}/status", "status", status),
        route("GET", "/{owner}/{app}/requests/{id}", "result", result),
        route("PUT", "/{owner}/{app}/requests/{id}/cancel", "cancel", cancel),
        route("POST", "/{model:path}", "start", start),
    ]


def _addresses(simulator: Simulator, task: Task) -> dict[str, str]:
    # A model's subpath, as `dev` in `fal-ai/flux/dev`, is no part of these addresses.
    app = "/".join(task.model.split("/")[:2])
    address = f"{simulator.base_url}/fal/{app}/requests/{task.id}"
    return {
        "request_id": task.id,
        "gateway_request_id": task.id,
        "response_url": address,
        "status_url": f"{address}/status",
        "cancel_url": f"{address}/cancel",
    }


def _unauthenticated(request: Request) -> Response | None:
    if request.headers.get("authorization", "Key bad") not in ("Key bad", "Key "):
        return None
    return JSONResponse({"detail": "No user found for Key ID and Secret"}, 401)


def _missing() -> Response:
    return JSONResponse({"detail": "Request not found"}, 404)


def _invalid(words: str) -> Response:
    return JSONResponse({"detail": [{"loc": ["body"], "msg": words, "type": "value_error"}]}, 422)
