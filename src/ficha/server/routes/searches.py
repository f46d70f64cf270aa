"""What an operator's pages read: searches among all jobs, one job and what belongs to it, dead letters by error."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.responses import Response

from ...engine.views import DeadGroups, JobCount, JobPage, JobSearch, JobView, SearchWords
from ...job_search import JOB_SEARCH_LENGTH
from ...trace_context import trace_id_of
from ..guard import Viewer
from ..openapi import gives
from ..responses import news, polled
from .parameters import Cursor, IfNoneMatch, Limit

routes = APIRouter(prefix="/api/admin", tags=["admin"])

Search = Annotated[
    str,
    Query(
        max_length=JOB_SEARCH_LENGTH,
        description='Such as `tool:upscale state:failed,cancelled account:ana since:1h error:"timed out"`.',
    ),
]


@routes.get("/jobs", summary="Search all jobs")
@gives(JobSearch)
async def jobs(
    call: Viewer, search: Search = "", cursor: Cursor = None, limit: Limit = 50, if_none_match: IfNoneMatch = None
) -> Response:
    """A part of the jobs that match, newest first. A part may be empty and still have a `next`: each part examines a
    limited number of jobs, and `is_whole` is false where that was not enough."""
    found = await call.app.search_jobs(search, after=call.cursor("search", cursor), limit=limit)
    found = replace(found, next=call.sealed("search", found.next))
    return polled(found, call.request, replace(found, items=[news(job) for job in found.items]))


@routes.get("/jobs/count", summary="Count the jobs of a search")
@gives(JobCount)
async def count(call: Viewer, search: Search = "", if_none_match: IfNoneMatch = None) -> Response:
    """How many jobs match, and what they cost together: what a requeue of all would charge."""
    return polled(await call.app.count_jobs(search), call.request)


@routes.get("/jobs/{job_id}", summary="A job's page")
@gives(JobPage, "NOT_FOUND")
async def page(call: Viewer, job_id: str, if_none_match: IfNoneMatch = None) -> Response:
    """A job with its history, steps, runs, ledger lines and files, and what an operator could do to it now. Secret
    fields are masked."""
    found = await call.app.job_page(job_id)
    found = replace(found, trace_url=trace_url_of(call.settings.trace_url, found.job))
    return polled(found, call.request, replace(found, job=news(found.job)))


def trace_url_of(pattern: str | None, job: JobView) -> str | None:
    """The address of a job's trace; None if it needs a correlation id and the job has none. Every job has a trace
    id."""
    if pattern is None or (job.correlation_id is None and "{correlation_id}" in pattern):
        return None
    named = pattern.replace("{trace_id}", trace_id_of(job.id, job.traceparent))
    return named.replace("{correlation_id}", quote(job.correlation_id or "", safe=""))


@routes.get("/dead/groups", summary="Dead letters by error")
@gives(DeadGroups)
async def dead_groups(call: Viewer, if_none_match: IfNoneMatch = None) -> Response:
    """The newest dead letters, by tool and error. In an error `…` stands for numbers and ids."""
    return polled(await call.app.dead_groups(), call.request)


@routes.get("/search-words", summary="Words for searches")
@gives(SearchWords)
async def search_words(call: Viewer, if_none_match: IfNoneMatch = None) -> Response:
    """The names of tools, pools, plans, states and providers, with which a search can be completed."""
    return polled(await call.app.search_words(), call.request)
