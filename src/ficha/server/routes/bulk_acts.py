"""Bulk acts: what an admin does to all jobs that a search finds, worked on in the background."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ...core.commands import BeginBulkAct, StopBulkAct
from ...engine.views import BulkActView, Page
from .. import wire as s
from ..guard import Admin, Viewer
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .parameters import Cursor, Limit

routes = APIRouter(prefix="/api/admin/bulk-acts", tags=["admin"])


@routes.post("", summary="Do an act to all jobs that a search finds")
@gives(BulkActView, BeginBulkAct, status=201)
async def begin(call: Admin, asked: Annotated[s.BulkActBody, body(s.BulkActBody)]) -> Response:
    """Servers and workers do the act to each matching job that exists now, newest first, a few at a time. A
    refund with an `amount` or a `share` gives back that part of each job, and never more than it cost."""
    begun = call.acting.begin_bulk_act(
        asked.act, asked.search, reason=asked.reason, amount=asked.amount, share=asked.share
    )
    return answer(await begun, 201)


@routes.get("", summary="List bulk acts")
@gives(Page[BulkActView])
async def bulk_acts(call: Viewer, cursor: Cursor = None, limit: Limit = 50) -> Response:
    """A page of bulk acts, newest first."""
    page = await call.app.bulk_acts(after=call.cursor("bulk-acts", cursor), limit=limit)
    return answer(call.page("bulk-acts", page))


@routes.get("/{bulk_id}", summary="Look at a bulk act")
@gives(BulkActView, "NOT_FOUND")
async def bulk_act(call: Viewer, bulk_id: str) -> Response:
    """How far the act is, and which jobs it could not be done to."""
    return answer(await call.app.bulk_act(bulk_id))


@routes.post("/{bulk_id}/stop", summary="Stop a bulk act")
@gives(BulkActView, StopBulkAct)
async def stop(call: Admin, bulk_id: str) -> Response:
    """The jobs under way are the last ones. What was done stays."""
    return answer(await call.acting.stop_bulk_act(bulk_id))
