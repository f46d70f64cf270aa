"""The API of RunningHub under /runninghub: every call is a POST, and call-backs are not signed."""

from __future__ import annotations

import json
import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .http import body_of, json_of, note, served
from .signing import Signing
from .tasks import Simulator, Task

STATES = {"queued": "QUEUED", "working": "RUNNING", "succeeded": "SUCCESS", "failed": "FAILED", "cancelled": "FAILED"}


class RunningHub:
    name = "runninghub"

    def new_id(self) -> str:
        return str(1_900_000_000_000_000_000 + secrets.randbelow(10**15))

    def callback_body(self, simulator: Simulator, task: Task) -> bytes:
        body = {"event": "TASK_END", "taskId": task.id, "eventData": json.dumps(outputs(task))}
        return json.dumps(body).encode()

    def callback_headers(self, signing: Signing, task: Task, at: int, body: bytes) -> dict[str, str]:
        return {}


def outputs(task: Task) -> dict[str, Any]:
    match task.state:
        case "queued":
            return {"code": 813, "msg": "APIKEY_TASK_IS_QUEUED", "data": None}
        case "working":
            return {"code": 804, "msg": "APIKEY_TASK_IS_RUNNING", "data": {"netWssUrl": None}}
        case "succeeded":
            assert task.made is not None
            assert task.file_url is not None
            file = {
                "fileUrl": task.file_url,
                "fileType": task.made.suffix,
                "taskCostTime": str(max(1, round(task.work_s))),
                "nodeId": "9",
                "consumeCoins": str(max(1, round(task.work_s / 5))),
            }
            return {"code": 0, "msg": "success", "data": [file]}
        case _:
            words = task.error or "task was cancelled"
            reason = {"node_id": "9", "node_name": "Sampler", "exception_message": words, "traceback": "[]"}
            return {"code": 805, "msg": "APIKEY_TASK_STATUS_ERROR", "data": {"failedReason": reason}}


def routes(simulator: Simulator) -> list[Route]:
    shape = RunningHub()

    async def start(request: Request) -> Response:
        body = await json_of(request)
        if (refused := _unauthorized(body)) is not None:
            return refused
        model = body.get("workflowId") or body.get("webappId")
        if not model:
            return _envelope(301, "PARAMS_INVALID")
        given = {}
        for node in body.get("nodeInfoList") or []:
            if not isinstance(node, dict) or not {"nodeId", "fieldName", "fieldValue"} <= node.keys():
                return _envelope(803, "APIKEY_INVALID_NODE_INFO")
            given[str(node["fieldName"])] = node["fieldValue"]
        task, repeated = await simulator.start(shape, str(model), given, body.get("webhookUrl"))
        note(request, task.id, repeated)
        data = {"taskId": task.id, "clientId": secrets.token_hex(16), "taskStatus": STATES[task.state]}
        return _envelope(0, "success", {**data, "netWssUrl": None, "promptTips": "{}"})

    async def status(request: Request) -> Response:
        refused, task = await _task(request)
        if task is None:
            return refused
        return _envelope(0, "success", STATES[task.state])

    async def result(request: Request) -> Response:
        refused, task = await _task(request)
        return refused if task is None else JSONResponse(outputs(task))

    async def cancel(request: Request) -> Response:
        refused, task = await _task(request)
        if task is None:
            return refused
        return _envelope(0, "success") if simulator.cancel(task) else _envelope(805, "APIKEY_TASK_STATUS_ERROR")

    async def upload(request: Request) -> Response:
        """Takes the file out of a multipart body by hand: the last part with a file's name."""
        body = await body_of(request)
        boundary = request.headers.get("content-type", "").partition("boundary=")[2].strip('"').encode()
        for part in body.split(b"--" + boundary) if boundary else []:
            head, _, data = part.partition(b"\r\n\r\n")
            if b"filename=" in head:
                url = simulator.keep(data.removesuffix(b"\r\n"), "application/octet-stream", "bin")
                name = "api/" + url.rpartition("/")[2]
                return _envelope(0, "success", {"fileName": name, "fileType": "image"})
        return _envelope(808, "APIKEY_UPLOAD_FAILED")

    async def _task(request: Request) -> tuple[Response, Task | None]:
        body = await json_of(request)
        if (refused := _unauthorized(body)) is not None:
            return refused, None
        task = simulator.task("runninghub", str(body.get("taskId")))
        if task is not None:
            note(request, task.id, False)
        return _envelope(807, "APIKEY_TASK_NOT_FOUND"), task

    def route(path: str, on: str, endpoint: Any) -> Route:
        answer = served(simulator, "runninghub", on, endpoint, lambda words: _envelope(301, f"PARAMS_INVALID: {words}"))
        return Route("/runninghub/task/openapi" + path, answer, methods=["POST"])

    return [
        route("/create", "start", start),
        route("/ai-app/run", "start", start),
        route("/status", "status", status),
        route("/outputs", "status", result),
        route("/cancel", "cancel", cancel),
        route("/upload", "upload", upload),
    ]


def _unauthorized(body: dict[str, Any]) -> Response | None:
    return None if body.get("apiKey") not in (None, "", "bad") else _envelope(802, "APIKEY_UNAUTHORIZED")


def _envelope(code: int, msg: str, data: Any = None) -> Response:
    return JSONResponse({"code": code, "msg": msg, "data": data})
