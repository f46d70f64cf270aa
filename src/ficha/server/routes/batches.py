"""Batches: many jobs submitted together, then watched, cancelled or resumed as one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from ...batch_lines import LineFormat, header_line, result_line
from ...core.refusals import no_batch
from ...engine.views import BatchCancelled, BatchResumed, BatchView, Page
from ...requests import BatchRequest
from .. import wire as s
from ..batch_text import MEDIA_TYPE_OF, sent_items
from ..guard import Account, AccountReader, Call
from ..openapi import gives
from ..request_body import body
from ..responses import answer, polled
from .jobs import SUBMITS, in_full, submitted
from .parameters import Cursor, ForAccount, IfNoneMatch, Key, Limit

routes = APIRouter(prefix="/api/batches", tags=["batches"])


@routes.post("", summary="Submit a batch")
@gives(s.SubmitAnswer, *SUBMITS, status=201, also=200)
async def submit(
    call: Account, asked: Annotated[BatchRequest, body(BatchRequest)], idempotency_key: Key = None
) -> Response:
    """Creates and charges a job for each item, all of them or none."""
    receipt = await call.doing.submit_batch_request(in_full(call, asked, idempotency_key), by_user=not call.sees_all)
    return await submitted(call, receipt, None)


@routes.post("/lines", summary="Submit a batch as lines of JSON or CSV")
@gives(s.SubmitAnswer, *SUBMITS, "INVALID_JSON", "UNSUPPORTED_MEDIA_TYPE", status=201, also=200, takes_bytes=True)
async def submit_lines(
    call: Account,
    tool: Annotated[
        str | None, Query(min_length=1, max_length=255, description="The tool of all lines, which are then payloads.")
    ] = None,
    account: ForAccount = None,
    session: Annotated[
        str | None, Query(min_length=1, max_length=255, description="Your own name for a visit.")
    ] = None,
    key_ttl_hours: Annotated[float | None, Query(gt=0, description="How long the idempotency key is kept.")] = None,
    as_far_as_credits: Annotated[
        bool, Query(description="If credits run short, take the first lines that they cover.")
    ] = False,
    idempotency_key: Key = None,
) -> Response:
    """Creates and charges a job for each line of the body, `application/x-ndjson` or `text/csv`: all of them or none,
    or as far as the credits go."""
    owner = call.account(account)
    asked = BatchRequest(
        items=await sent_items(call.request, tool),
        account=owner,
        session=session,
        key_ttl_hours=key_ttl_hours,
        as_far_as_credits=as_far_as_credits,
    )
    receipt = await call.doing.submit_batch_request(in_full(call, asked, idempotency_key), by_user=not call.sees_all)
    return await submitted(call, receipt, None)


@routes.get("", summary="List batches")
@gives(Page[BatchView])
async def batches(
    call: AccountReader,
    account: ForAccount = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A page of batches, newest first: a user's own, or for a service those of one account or of all. A page of large
    batches may have fewer items than `limit` and still a `next`."""
    named = call.account_if_any(account)
    page = await call.app.batches(account=named, after=call.cursor("batches", cursor), limit=limit)
    return polled(call.page("batches", page), call.request)


@routes.get("/{batch_id}", summary="Look at a batch")
@gives(BatchView, "NOT_FOUND")
async def batch(call: AccountReader, batch_id: str) -> Response:
    """A batch with its jobs by status, and how far it is. Its jobs: `GET /api/jobs?batch=…`."""
    return answer(await own_batch(call, batch_id))


@routes.get("/{batch_id}/results", summary="Export a batch")
@gives(None, "NOT_FOUND", media_types=("application/x-ndjson", "text/csv"))
async def results(
    call: AccountReader,
    batch_id: str,
    form: Annotated[LineFormat, Query(alias="format", description="Lines of JSON, or CSV.")] = "jsonl",
    payload: Annotated[bool, Query(description="With each job's payload too.")] = False,
) -> Response:
    """Every job of a batch with its result, one line each, in the order of the submit."""
    found = await own_batch(call, batch_id)
    # The export takes as long as its reader takes, and must not keep the account's other requests waiting.
    call.usage.leave_turn()

    async def lines() -> AsyncIterator[str]:
        yield header_line(form, with_payload=payload)
        async for job in call.app.batch_results(found.id):
            yield result_line(call.shown(job), form, with_payload=payload)

    name = f'attachment; filename="{found.id}.{form}"'
    return StreamingResponse(lines(), media_type=MEDIA_TYPE_OF[form], headers={"Content-Disposition": name})


async def own_batch(call: Call, batch_id: str) -> BatchView:
    found = await call.app.batch(batch_id)
    call.check_owner(found.account, no_batch(found.id))
    return found


@routes.post("/{batch_id}/cancel", summary="Cancel a batch")
@gives(BatchCancelled, "NOT_FOUND")
async def cancel(
    call: Account, batch_id: str, asked: Annotated[s.ReasonBody, body(s.ReasonBody, optional=True)]
) -> Response:
    """Cancels and refunds the batch's active jobs."""
    found = await own_batch(call, batch_id)
    return answer(BatchCancelled(await call.doing.cancel_batch(found.id, reason=asked.reason)))


@routes.post("/{batch_id}/resume", summary="Resume a batch")
@gives(BatchResumed, "NOT_FOUND")
async def resume(call: Account, batch_id: str) -> Response:
    """Resumes an interrupted batch: jobs whose worker was lost go on, failed ones run again as new, paid jobs. With a
    user's key, the limits of a submit apply to each new job."""
    found = await own_batch(call, batch_id)
    return answer(await call.doing.resume_batch(found.id, account=call.owner))
