"""The library: an account's completed work, listed, searched and removed."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from msgspec.structs import replace
from starlette.responses import Response

from ...core.commands import RemoveWork
from ...core.outcomes import WorkRemoved
from ...engine.views import LibraryItem, Page
from ...validation import SEARCH_LENGTH
from ..guard import Account, AccountReader
from ..openapi import gives
from ..responses import answer
from .parameters import Cursor, ForAccount, Include, Limit, texts

routes = APIRouter(prefix="/api/library", tags=["library"])


@routes.get("", summary="List completed work")
@gives(Page[LibraryItem], "NOT_FOUND")
async def library(
    call: AccountReader,
    tool: Annotated[str | None, Query(description="Only this tool's.")] = None,
    since: Annotated[datetime | None, Query(description="Only what was submitted then or later.")] = None,
    until: Annotated[datetime | None, Query(description="Only what was submitted before.")] = None,
    search: Annotated[
        str | None,
        Query(max_length=SEARCH_LENGTH, description="Only what has these words in its payload."),
    ] = None,
    account: ForAccount = None,
    cursor: Cursor = None,
    limit: Limit = 50,
    include: Include = None,
) -> Response:
    """A page of an account's completed work, newest first. A page may be empty and still have a `next`: each page
    examines a limited number of jobs."""
    page = await call.app.library(
        call.account(account),
        tool=tool,
        since=since,
        until=until,
        search=search,
        after=call.cursor("library", cursor),
        limit=limit,
        include=texts(include),
    )
    items = [replace(item, job=call.shown(item.job)) for item in page.items]
    return answer(call.page("library", Page(items, page.next)))


@routes.delete("/{job_id}", summary="Remove completed work")
@gives(WorkRemoved, RemoveWork)
async def remove(call: Account, job_id: str) -> Response:
    """Removes the payload, the result, the steps and the files of a completed job. The job itself and what was paid for
    it stay. A repeat changes nothing."""
    return answer(await call.doing.remove_work(job_id, account=call.owner))
