"""The whole server: the four APIs, the results, and the control routes."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from . import fal, plain, replicate, runninghub
from .behaviour import Control, ExtraCallback, Finish
from .http import HUGE_BYTES, Close, bad_answer, body_of
from .pictures import BadInput, variation
from .tasks import Simulator

SHAPES = {shape.name: shape for shape in (replicate.Replicate(), fal.Fal(), runninghub.RunningHub(), plain.Plain())}


def application(simulator: Simulator) -> Starlette:
    async def control(request: Request) -> Response:
        match request.method:
            case "POST":
                simulator.plan.add(msgspec.json.decode(await body_of(request), type=Control))
            case "DELETE":
                simulator.reset()
        return _json({"ok": True})

    async def plan(request: Request) -> Response:
        simulator.plan.clear()
        return _json({"ok": True})

    async def log(request: Request) -> Response:
        return _json(list(simulator.log))

    async def tasks(request: Request) -> Response:
        return _json([task.shown() for task in simulator.tasks()])

    async def finish(request: Request) -> Response:
        task = simulator.any_task(request.path_params["id"])
        if task is None:
            return _json({"error": "no such task"}, 404)
        task.told_to_fail = msgspec.json.decode(await body_of(request) or b"{}", type=Finish).fail
        task.released.set()
        return _json(task.shown())

    async def callback(request: Request) -> Response:
        task = simulator.any_task(request.path_params["id"])
        if task is None:
            return _json({"error": "no such task"}, 404)
        told = msgspec.json.decode(await body_of(request) or b"{}", type=ExtraCallback)
        return _json({"answers": await simulator.call_back(SHAPES[task.provider], task, told)})

    async def file(request: Request) -> Response:
        found = simulator.file(request.path_params["name"])
        if found is None:
            return bad_answer("404")
        data, media_type, fault = found
        number = request.query_params.get("number", "")
        if number.isdecimal() and media_type == "image/png":
            data = await asyncio.to_thread(variation, data, int(number))
        match fault:
            case None:
                return Response(data, media_type=media_type)
            case "cut":
                return Close(data, media_type)
            case "expired":
                return Response("<Error><Code>AccessDenied</Code></Error>", 403, media_type="application/xml")
            case "huge":
                return Response(data + bytes(HUGE_BYTES), media_type=media_type)
            case _:
                return bad_answer(fault)

    async def bad_control(request: Request, error: Exception) -> Response:
        return _json({"error": str(error)}, 422)

    return Starlette(
        routes=[
            Route("/control", control, methods=["POST", "DELETE"]),
            Route("/control/plan", plan, methods=["DELETE"]),
            Route("/control/log", log),
            Route("/control/tasks", tasks),
            Route("/control/tasks/{id}/finish", finish, methods=["POST"]),
            Route("/control/tasks/{id}/callback", callback, methods=["POST"]),
            Route("/files/{name}", file),
            *replicate.routes(simulator),
            *runninghub.routes(simulator),
            *plain.routes(simulator),
            *fal.routes(simulator),
        ],
        exception_handlers={msgspec.MsgspecError: bad_control, BadInput: bad_control},
    )


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
