"""`ficha jobs`, `job` and `cancel`: list jobs, show one in full, cancel them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, cast, get_args

import msgspec
import typer

from ..core.records import Status
from ..engine.views import EventView, FinishView, JobView, Page
from .backend import Backend, on_backend, page_items
from .listing import each, list_on_backend
from .options import (
    LIMIT,
    Account,
    After,
    App,
    AsJson,
    Database,
    Include,
    JobId,
    JobIds,
    Limit,
    Reason,
    UsageError,
    texts,
    tools,
)
from .output import credits, data, details, duration, table

STATUSES: Final = get_args(Status)


def _known(values: list[Status] | None) -> list[Status] | None:
    for value in values or ():
        if value not in STATUSES:
            raise typer.BadParameter(f"{value!r} is none of {', '.join(STATUSES)}")
    return values


Statuses = Annotated[
    # Checked in the callback, because the library cannot read a list of literals from a type.
    list[str] | None,
    typer.Option(
        "--status",
        help=f"Only those in this state: {', '.join(STATUSES)}. Repeatable.",
        callback=_known,
        autocompletion=lambda incomplete: [name for name in STATUSES if name.startswith(incomplete)],
    ),
]

COLUMNS: Final[dict[str, Callable[[JobView], Any]]] = {
    "ID": lambda job: job.id,
    "STATUS": lambda job: job.status,
    "TOOL": lambda job: job.tool,
    "ACCOUNT": lambda job: job.account,
    "COST": lambda job: job.cost,
    "CREATED": lambda job: job.created_at,
    "NOW": lambda job: standing(job),
}


def standing(job: JobView) -> str:
    """The state of a job, in a few words."""
    match job.status:
        case "queued":
            return waiting(job)
        case "starting" | "running":
            return f"{job.progress} %" + (f" {job.checkpoint}" if job.checkpoint else "")
        case "failed":
            return job.error or ""
        case "cancelled":
            return job.error or f"{credits(job.refunded)} refunded"
        case _:
            return f"{credits(job.refunded)} refunded" if job.refunded else ""


def waiting(job: JobView) -> str:
    """Where a queued job stands and what it waits for."""
    reasons = {
        "account_limit": "its account is at its plan's limit",
        "equal_job": "an equal job is being run",
        "pool_full": f"the pool {job.pool} is full",
        "pool_paused": f"the pool {job.pool} is paused",
        "tool_paused": f"the tool {job.tool} is paused",
        "schedule": "it is not due yet",
        "place": "",
        None: "",
    }
    parts = [] if job.position is None else [f"position {job.position}"]
    if job.estimated_wait_s is not None:
        parts.append(f"about {duration(job.estimated_wait_s)}")
    if reasons[job.waiting_for]:
        parts.append(reasons[job.waiting_for])
    return ", ".join(parts)


def jobs(
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="A search, such as 'state:failed since:1h error:\"timed out\"'."),
    ] = None,
    account: Account = None,
    status: Statuses = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only those of this tool.", autocompletion=tools)] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only those of this pool.")] = None,
    batch: Annotated[str | None, typer.Option("--batch", help="Only those of this batch.")] = None,
    session: Annotated[str | None, typer.Option("--session", help="Only those of this session.")] = None,
    include: Include = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    if search is not None and any((account, status, tool, pool, batch, session, include)):
        raise UsageError("--search takes no other condition beside it; write it into the search, as in tool:upscale")

    async def ask(backend: Backend, cursor: str | None, most: int) -> Page[JobView]:
        if search is not None:
            found = await backend.search_jobs(search, after=cursor, limit=most)
            return Page(found.items, found.next)
        return await backend.jobs(
            account=account,
            statuses=cast(list[Status], status or []),
            tool=tool,
            pool=pool,
            batch=batch,
            session=session,
            after=cursor,
            limit=most,
            include=texts(include),
        )

    list_on_backend(
        app,
        database,
        ask,
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no jobs",
    )


def job(
    job_id: JobId,
    history: Annotated[bool, typer.Option("--history", help="Also show its events.")] = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show a job in full."""

    async def work(backend: Backend) -> tuple[JobView, list[EventView]]:
        found = await backend.job(job_id)
        return found, await _events(backend, found.id) if history else []

    found, events = on_backend(app, database, work)
    if as_json:
        whole = {field.encode_name: getattr(found, field.name) for field in msgspec.structs.fields(found)}
        data({**whole, "history": events} if history else found)
        return
    details({field.encode_name: getattr(found, field.encode_name) for field in msgspec.structs.fields(found)})
    if history:
        table(("AT", "EVENT", "DATA"), [(event.at, event.kind, event.data or None) for event in events])


async def _events(backend: Backend, job_id: str) -> list[EventView]:
    events: list[EventView] = []
    most = page_items(backend)
    while True:
        page = await backend.events(job=job_id, after=events[-1].number if events else 0, limit=most)
        if not page:
            return events
        events += page


def cancel(
    job_ids: JobIds,
    reason: Reason = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Cancel jobs and refund them. Jobs that have ended are not changed."""

    def sentence(done: FinishView) -> str:
        if not done.changed:
            return f"job {done.job_id} was {done.status} already; nothing was changed"
        return f"job {done.job_id} is cancelled; {credits(done.refunded)} refunded"

    async def work(backend: Backend) -> None:
        await each(job_ids, lambda one: backend.cancel(one, reason=reason), sentence, as_json=as_json)

    on_backend(app, database, work, needs="settings", acts=True)
