"""Schedules: what the application declares as recurring, and what an admin does to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands import PauseSchedule, RunSchedule
from ...engine.views import Receipt, ScheduleView, Whole
from .. import paths  # noqa: F401 (knows the parameters `…:ficha_name`)
from .. import wire as s
from ..guard import Admin, Viewer
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .jobs import SUBMITS, one_key
from .parameters import Key

routes = APIRouter(prefix="/api/admin/schedules", tags=["admin"])


@routes.get("", summary="List schedules")
@gives(Whole[ScheduleView])
async def schedules(call: Viewer) -> Response:
    """All recurring jobs, also those no longer declared: when each is due next, and what its last time led to."""
    return answer(Whole(await call.app.schedules()))


@routes.post("/{schedule:ficha_name}/pause", summary="Pause a schedule")
@gives(ScheduleView, PauseSchedule)
async def pause(call: Admin, schedule: str) -> Response:
    """While it is paused, its times pass without a job and are not made up for."""
    return answer(await call.acting.pause_schedule(schedule))


@routes.post("/{schedule:ficha_name}/resume", summary="Resume a schedule")
@gives(ScheduleView, PauseSchedule)
async def resume(call: Admin, schedule: str) -> Response:
    """It fires again, from its next time on."""
    return answer(await call.acting.resume_schedule(schedule))


@routes.post("/{schedule:ficha_name}/run", summary="Run a schedule now")
@gives(Receipt, *SUBMITS, RunSchedule, status=201, also=200)
async def run(
    call: Admin,
    schedule: str,
    asked: Annotated[s.RunScheduleBody, body(s.RunScheduleBody, optional=True)],
    idempotency_key: Key = None,
) -> Response:
    """Submits its job now, paused or not. A repeat with the same key gets the first job: 200."""
    receipt = await call.acting.run_schedule(schedule, key=one_key(idempotency_key, asked.key))
    return answer(receipt, 200 if receipt.idempotent_hit else 201)
