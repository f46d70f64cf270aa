"""The queue manager: whether there is room, who stands where, what is next and how it ended."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from ... import validation as arg
from ...core import commands as c
from ...core.refusals import no_pool
from ...engine.views import FinishView, PoolView
from ...errors import Refused
from ...requests import SubmitRequest
from .. import wire as s
from ..guard import Account, AccountReader, Call, Service
from ..openapi import gives
from ..request_body import body
from ..responses import answer
from .jobs import SUBMITS, Prefer, active_job, submit
from .parameters import ForAccount, Key
from .workers import claimed

routes = APIRouter(prefix="/api/queue", tags=["queue manager"])


@routes.get("/check", summary="Is there room?")
@gives(s.CheckAnswer, "NOT_FOUND")
async def check(
    call: AccountReader, pool: Annotated[str | None, Query(description="This pool instead of all.")] = None
) -> Response:
    """Slots and how many are free, and how many jobs wait: of one pool, or of all that tools use. There is always a
    number of free slots."""
    pools = [found for found in await call.app.pools() if pool is None or found.name == pool]
    if pool is not None and not pools:
        raise Refused.of(no_pool(pool))
    used = {tool.pool for tool in call.app.tools.values()} if pool is None else {pool}
    return answer(_check(pools, used))


def _check(pools: list[PoolView], used: set[str]) -> s.CheckAnswer:
    limited = [found for found in pools if found.slots is not None and found.name in used]
    free = sum(0 if found.paused else max(0, (found.slots or 0) - found.busy) for found in limited)
    if not limited:
        free = s.UNLIMITED if any(not found.paused for found in pools if found.name in used) else 0
    return s.CheckAnswer(
        slots=sum(found.slots or 0 for found in limited) if limited else None,
        slots_available=free,
        busy=sum(pool.busy for pool in pools),
        queue_length=sum(pool.ready + pool.parked for pool in pools),
        pools=pools,
    )


@routes.post("/enqueue", summary="Submit a job")
@gives(s.SubmitAnswer, *SUBMITS, status=201, also=200)
async def enqueue(
    call: Account,
    asked: Annotated[SubmitRequest, body(SubmitRequest)],
    idempotency_key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """The same as `POST /api/jobs`."""
    return await submit(call, asked, idempotency_key, prefer)


@routes.post("/process-next", summary="Take the next jobs")
@gives(s.LeasesAnswer, c.Claim)
async def process_next(call: Service, asked: Annotated[s.NextBody, body(s.NextBody)]) -> Response:
    """Takes the best jobs that may start now, within the pools' slots; none if there is none."""
    pools = asked.pools or ([asked.pool] if asked.pool is not None else [pool.name for pool in await call.app.pools()])
    return answer(await claimed(call, pools, asked.worker, asked.limit))


@routes.post("/finish", summary="Say how a job ended")
@gives(FinishView, c.Finish, "INVALID_PAYLOAD")
async def finish(call: Service, asked: Annotated[s.QueueFinishBody, body(s.QueueFinishBody)]) -> Response:
    """Sets the final state, once. A second, late or concurrent finish changes nothing and says so."""
    return answer(await call.doing.finish_job(asked.job_id, _ending(call, asked), epoch=asked.epoch))


def _ending(call: Call, asked: s.QueueFinishBody) -> c.Ending:
    match asked.status:
        case "completed":
            return call.app.completed(asked.result, asked.delivered, asked.of)
        case "failed":
            words = arg.text(asked.error or "failed, and nobody said why")
            return c.Failed(words, final=True, for_user=asked.for_user)
        case _:
            return call.app.cancelled(asked.error or "cancelled")


@routes.get("/check-user-active", summary="Does the account have an active job?")
@gives(s.ActiveAnswer, "NOT_FOUND")
async def check_user_active(call: AccountReader, account: ForAccount = None) -> Response:
    """The same as `GET /api/jobs/active`."""
    return answer(await active_job(call, account))
