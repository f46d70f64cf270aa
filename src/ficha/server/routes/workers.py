"""The worker protocol: claim, heartbeat, checkpoint, finish. With it a worker in any language needs only HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated

from fastapi import APIRouter
from msgspec import Raw
from starlette.responses import Response

from ... import validation as arg
from ...core import commands as c
from ...engine.views import FinishView, Lease
from ...errors import Refused
from ...operations.leases import LeaseName
from .. import wire as s
from ..guard import Call, Service
from ..hosting import ending_with_host
from ..openapi import gives
from ..request_body import body
from ..responses import answer

routes = APIRouter(prefix="/api/worker", tags=["worker protocol"])


@routes.post("/claim", summary="Take jobs to work on")
@gives(s.LeasesAnswer, c.Claim)
async def claim(call: Service, asked: Annotated[s.ClaimBody, body(s.ClaimBody)]) -> Response:
    """Takes up to `limit` jobs, best first, and starts them; waits up to `wait_s` seconds if there is none."""
    loop = asyncio.get_running_loop()
    until = loop.time() + min(asked.wait_s, call.settings.wait_s)
    ended: list[Refused] = []
    with ExitStack() as stack:
        if asked.wait_s:
            call.request.state.waits = True
            stack.enter_context(ending_with_host(call.app.engine.live))
            stack.enter_context(call.identity.watch(call.caller, ended.append))
        while True:
            if ended:
                # Refused here and not in the middle of a claim, whose jobs nobody would hold.
                raise ended[0]
            heard = call.app.work_heard(asked.pools)
            found = await claimed(call, asked.pools, asked.worker, asked.limit)
            left_s = until - loop.time()
            if found.leases or left_s <= 0 or await _is_over(call):
                return answer(found)
            await call.app.wait_for_work(asked.pools, min(left_s, 1.0), since=heard)


async def _is_over(call: Call) -> bool:
    """Whether the client has disconnected, or the server is stopping and must not wait for this call."""
    return call.app.engine.live.is_closed or await call.request.is_disconnected()


async def claimed(call: Call, pools: Sequence[str], worker: str, limit: int) -> s.LeasesAnswer:
    leases = await call.app.claim(pools, limit=limit, worker=worker, starts=True)
    return s.LeasesAnswer([await _told(call, lease) for lease in leases])


async def _told(call: Call, lease: Lease) -> s.LeaseAnswer:
    job = lease.job
    # Only a run that was interrupted has left steps behind.
    is_first = lease.epoch <= 1
    return s.LeaseAnswer(
        job_id=job.id,
        epoch=lease.epoch,
        worker=lease.worker,
        tool=job.tool,
        pool=job.pool,
        account=job.account,
        payload=job.stored("payload"),
        attempts=job.attempts,
        recoveries=job.recoveries,
        checkpoint=job.checkpoint,
        progress=job.progress,
        resume_data=job.stored("resume_data"),
        steps={} if is_first else {name: Raw(text) for name, text in (await call.app.steps_json(job.id)).items()},
        correlation_id=job.correlation_id,
        expires_at=lease.expires_at,
        deadline_at=lease.deadline_at,
    )


@routes.post("/heartbeat", summary="Keep leases alive")
@gives(s.HeartbeatAnswer, "NOT_FOUND")
async def heartbeat(call: Service, asked: Annotated[s.HeartbeatBody, body(s.HeartbeatBody)]) -> Response:
    """Extends leases. One that was lost comes back with a `code`: stop working on that job."""
    held = [_lease(one) for one in asked.leases]
    answers = await call.app.heartbeat(held)
    return answer(
        s.HeartbeatAnswer(
            [
                s.BeatAnswer(job_id=one.job_id, epoch=one.epoch, expires_at=None, code=told.code, detail=told.message)
                if isinstance(told, Refused)
                else s.BeatAnswer(job_id=one.job_id, epoch=one.epoch, expires_at=told)
                for one, told in zip(held, answers, strict=True)
            ]
        )
    )


def _lease(asked: s.LeaseBody) -> LeaseName:
    return LeaseName(asked.job_id, asked.epoch)


@routes.post("/checkpoint", summary="Store where the job can go on from")
@gives(s.HeldAnswer, c.SaveCheckpoint, "INVALID_PAYLOAD")
async def checkpoint(call: Service, asked: Annotated[s.CheckpointBody, body(s.CheckpointBody)]) -> Response:
    """Stores a checkpoint with its data, in one act."""
    lease = _lease(asked)
    expires_at = await call.app.checkpoint(lease, asked.name, progress=asked.progress, data=asked.data)
    return answer(s.HeldAnswer(lease.job_id, expires_at))


@routes.post("/step", summary="Store a step's result")
@gives(s.StepAnswer, c.SaveStep, "INVALID_PAYLOAD")
async def step(call: Service, asked: Annotated[s.StepBody, body(s.StepBody)]) -> Response:
    """Stores a step's result and answers with it, or with the one stored before under that name."""
    lease = _lease(asked)
    text = await call.app.save_step_json(lease, asked.name, asked.result)
    return answer(s.StepAnswer(lease.job_id, asked.name, Raw(text)))


@routes.post("/report", summary="Say how far the job is")
@gives(s.HeldAnswer, c.Report, "INVALID_PAYLOAD")
async def report(call: Service, asked: Annotated[s.ReportBody, body(s.ReportBody)]) -> Response:
    """Sends those who watch the job its progress and the part of its result that is there."""
    lease = _lease(asked)
    return answer(
        s.HeldAnswer(lease.job_id, await call.app.report(lease, progress=asked.progress, partial=asked.partial))
    )


@routes.post("/log", summary="Add a line to the job's history")
@gives(s.HeldAnswer, c.Note)
async def log(call: Service, asked: Annotated[s.LogBody, body(s.LogBody)]) -> Response:
    lease = _lease(asked)
    return answer(s.HeldAnswer(lease.job_id, await call.app.note(lease, asked.text)))


@routes.post("/finish", summary="Say how a run ended")
@gives(FinishView, c.Finish, "INVALID_PAYLOAD")
async def finish(call: Service, asked: Annotated[s.WorkerFinishBody, body(s.WorkerFinishBody)]) -> Response:
    """Ends a run, with one of the outcomes that a run can have."""
    lease = _lease(asked)
    return answer(await call.doing.finish_job(lease.job_id, _ending(call, asked), epoch=lease.epoch))


def _ending(call: Call, asked: s.WorkerFinishBody) -> c.Ending:
    match asked.outcome:
        case "completed":
            return call.app.completed(asked.result, asked.delivered, asked.of, asked.provider_cost)
        case "failed":
            return call.app.failed(
                asked.error or "failed, and the worker did not say why",
                final=asked.final,
                for_user=asked.for_user,
                provider_cost=asked.provider_cost,
            )
        case "retry":
            return call.app.retry_later(asked.after_s, asked.reason)
        case "cancelled":
            return call.app.cancelled(asked.reason or "cancelled by its worker")
        case "returned":
            return call.app.interrupted(asked.reason or "handed back by its worker")
        case "accepted":
            if asked.ref is None:
                raise arg.invalid("`accepted` needs `ref`, the provider's reference")
            return call.app.accepted(asked.ref)
