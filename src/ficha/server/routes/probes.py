"""What machines ask: whether the process lives, whether it can serve, its figures, and what it offers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from ...store.base import StoreError
from .. import wire as s
from ..guard import Open, ServiceReader
from ..metrics import MEDIA_TYPE
from ..openapi import gives
from ..responses import answer

routes = APIRouter(tags=["probes"])


@routes.get("/healthz", summary="Does the process live?")
@gives(s.ProbeAnswer)
async def healthz(call: Open) -> Response:
    return answer(s.ProbeAnswer("ok"))


@routes.get("/readyz", summary="Can it serve?")
@gives(s.ProbeAnswer, also=503)
async def readyz(call: Open) -> Response:
    """Whether a submit would be accepted, as it was found in the background at most a few seconds ago; 503 with the
    reason if not."""
    opening = call.request.app.state.opening
    try:
        await opening()
    except StoreError as error:
        return answer(s.ProbeAnswer("away", error.says), 503)
    problem = opening.readiness.problem
    return answer(
        s.ProbeAnswer("ok") if problem is None else s.ProbeAnswer("away", problem.says), 503 if problem else 200
    )


@routes.get("/metrics", summary="Figures for Prometheus")
@gives(None, media_types=(MEDIA_TYPE,))
async def metrics(call: ServiceReader) -> Response:
    """Counters, histograms and gauges of jobs, credits, pools, workers and providers, which are the same in every
    process; and this process's own: requests, streams, memory."""
    return Response(await call.request.app.state.metrics.text(), media_type=MEDIA_TYPE)


@routes.get("/api/openapi.json", summary="This document")
@gives(dict[str, Any])
async def openapi(call: Open) -> Response:
    return answer(call.request.app.openapi())
