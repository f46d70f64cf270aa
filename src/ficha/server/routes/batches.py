"""Batches: many jobs submitted together, then watched, cancelled or resumed as one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from starlette.responses import Response

from ...engine.views import BatchView
from .. import wire as s
from ..guard import Account, Call
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .jobs import SUBMITS, one_key, submitted
from .parameters import Key

routes = APIRouter(prefix="/api/batches", tags=["batches"])


@routes.post("", summary="Submit a batch")
@gives(s.SubmitAnswer, *SUBMITS, status=201, also=200)
async def submit(
    call: Account, asked: Annotated[s.BatchBody, body(s.BatchBody)], idempotency_key: Key = None
) -> Response:
    """Creates and charges a job for each item, all of them or none."""
    receipt = await call.app.submit_batch(
        [(item.tool, item.payload) for item in asked.items],
        account=call.account(asked.account),
        idempotency_key=one_key(idempotency_key, asked.idempotency_key),
        key_ttl_hours=asked.key_ttl_hours,
        session=asked.session,
        run_at=asked.run_at,
        correlation_id=asked.correlation_id or call.correlation_id,
    )
    return await submitted(call, receipt, None)


@routes.get("/{batch_id}", summary="Look at a batch")
@gives(BatchView, "NOT_FOUND")
async def batch(call: Account, batch_id: str) -> Response:
    """A batch with its jobs by status, and how far it is. Its jobs: `GET /api/jobs?batch=…`."""
    return answer(await own_batch(call, batch_id))


async def own_batch(call: Call, batch_id: str) -> BatchView:
    found = await call.app.batch(batch_id)
    call.check_owner(found.account, "batch", found.id)
    return found


@routes.post("/{batch_id}/cancel", summary="Cancel a batch")
@gives(s.CancelledAnswer, "NOT_FOUND")
async def cancel(
    call: Account, batch_id: str, asked: Annotated[s.ReasonBody, body(s.ReasonBody, optional=True)]
) -> Response:
    """Cancels and refunds the batch's active jobs."""
    found = await own_batch(call, batch_id)
    operations = call.acting if call.caller.scope == "admin" else call.app
    return answer(s.CancelledAnswer(await operations.cancel_batch(found.id, reason=asked.reason)))


@routes.post("/{batch_id}/resume", summary="Resume a batch")
@gives(s.ResumedAnswer, "NOT_FOUND")
async def resume(call: Account, batch_id: str) -> Response:
    """Takes up an interrupted batch: jobs whose worker was lost go on, failed ones run again as new, paid jobs."""
    found = await own_batch(call, batch_id)
    operations = call.acting if call.caller.scope == "admin" else call.app
    return answer(s.ResumedAnswer(await operations.resume_batch(found.id)))
