"""Operations: health, figures, what is stuck, and recovery by hand."""

from __future__ import annotations

from fastapi import APIRouter
from msgspec.structs import asdict
from starlette.responses import Response

from ...core.commands import Recover
from ...core.outcomes import Recovered
from ...engine.sweeper import SweepReport
from ...engine.views import BatchResumed, BatchView, JobView, Page
from ...store.base import StoreError
from ...version import __version__
from .. import wire as s
from ..guard import Call, Service, ServiceReader
from ..openapi import gives
from ..responses import answer
from .parameters import Cursor, Include, Limit, texts

routes = APIRouter(prefix="/api/system", tags=["system"])


@routes.get("/health", summary="Is all well?")
@gives(s.HealthAnswer)
async def health(call: ServiceReader) -> Response:
    """Whether the server can reach its database; 503 if not."""
    there = await database_answers(call)
    told = s.HealthAnswer(status="ok" if there else "away", version=__version__, database="ok" if there else "away")
    return answer(told, 200 if there else 503)


async def database_answers(call: Call) -> bool:
    try:
        await call.app.queries.now()
    except StoreError:
        return False
    return True


@routes.get("/processing-stats", summary="Figures over the active jobs")
@gives(s.StatsAnswer)
async def processing_stats(call: ServiceReader) -> Response:
    """How many there are, how many are stuck, by status and by checkpoint, and the average time."""
    stats = await call.app.stats()
    return answer(s.StatsAnswer(**asdict(stats), total=sum(stats.by_status.values())))


@routes.get("/stuck", summary="List stuck jobs")
@gives(Page[JobView])
async def stuck(call: ServiceReader, cursor: Cursor = None, limit: Limit = 50, include: Include = None) -> Response:
    """Held jobs that have been silent for longer than the stuck time, newest first."""
    page = await call.app.stuck(after=call.cursor("stuck", cursor), limit=limit, include=texts(include))
    return answer(call.page("stuck", page))


@routes.post("/recover-stuck", summary="Recover all stuck jobs")
@gives(SweepReport)
async def recover_stuck(call: Service) -> Response:
    """Runs one round of recovery and clean-up, now."""
    return answer(await call.acting.sweep())


@routes.post("/cleanup-old", summary="Fail what is too old")
@gives(SweepReport)
async def cleanup_old(call: Service) -> Response:
    """Runs the same round: it fails jobs that were started longer ago than a job may take, and removes expired keys."""
    return answer(await call.acting.sweep())


@routes.post("/recover/{job_id}", summary="Recover one job")
@gives(Recovered, Recover)
async def recover(call: Service, job_id: str) -> Response:
    """Does whatever is due for one job by now; nothing, if nothing is."""
    return answer(await call.acting.recover(job_id))


@routes.post("/resume-batch/{batch_id}", summary="Resume a batch")
@gives(BatchResumed, "NOT_FOUND")
async def resume_batch(call: Service, batch_id: str) -> Response:
    """Resumes an interrupted batch."""
    return answer(await call.acting.resume_batch(batch_id))


@routes.get("/batch-status/{batch_id}", summary="Look at a batch")
@gives(BatchView, "NOT_FOUND")
async def batch_status(call: ServiceReader, batch_id: str) -> Response:
    """How far it is: its jobs by status, and those that have not ended by checkpoint."""
    return answer(await call.app.batch(batch_id, by_checkpoint=True))
