"""`ficha bulk`: acts on all jobs that a search finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer

from .. import validation as arg
from ..core.records import BulkVerb
from ..core.refunds import most
from ..engine.views import BulkActView, JobCount
from .backend import Backend, on_backend
from .listing import list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Limit, RefundAmount, RefundShare
from .output import credits, data, details, echo, table, text

app = typer.Typer(
    help="Bulk acts: requeue, discard, cancel or refund all jobs that a search finds.", no_args_is_help=True
)

Search = Annotated[
    str, typer.Option("--search", help="Which jobs, as in `ficha jobs --search`: 'dead:yes tool:upscale since:1h'.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; the audit log records it for each job.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count the jobs, and what they cost together.")]
ActId = Annotated[str, typer.Argument(metavar="ACT", help="The bulk act.")]
COLUMNS: Final[dict[str, Callable[[BulkActView], Any]]] = {
    "ID": lambda act: act.id,
    "ACT": lambda act: act.act,
    "STATE": lambda act: act.state,
    "JOBS": lambda act: act.total,
    "DONE": lambda act: act.done,
    "FAILED": lambda act: act.failed,
    "BY": lambda act: act.by,
    "STARTED": lambda act: act.started_at,
    "SEARCH": lambda act: act.search,
}


@app.command()
def requeue(
    search: Search,
    reason: Reason,
    dry_run: DryRun = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Run dead letters again, each as a new job with a new charge."""
    _begin("requeue", search, reason, dry_run, app, database, as_json)


@app.command()
def discard(
    search: Search,
    reason: Reason,
    dry_run: DryRun = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Remove jobs from the dead letters. They stay failed and refunded."""
    _begin("discard", search, reason, dry_run, app, database, as_json)


@app.command()
def cancel(
    search: Search,
    reason: Reason,
    dry_run: DryRun = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Cancel and refund jobs that have not ended."""
    _begin("cancel", search, reason, dry_run, app, database, as_json)


@app.command()
def refund(
    search: Search,
    reason: Reason,
    amount: RefundAmount = None,
    share: RefundShare = None,
    dry_run: DryRun = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Give back what jobs that ended were charged, or a part of it, once for each job."""
    _, part = arg.refund_part(amount, share)
    if dry_run:
        _count(search, app, database, as_json, lambda found: most(found.count, found.credits, amount, part))
        return
    _begin("refund", search, reason, dry_run, app, database, as_json, amount=amount, share=share)


def _begin(
    act: BulkVerb,
    search: str,
    reason: str,
    dry_run: bool,
    app: str | None,
    database: str | None,
    as_json: bool,
    **part: Any,
) -> None:
    if dry_run:
        _count(search, app, database, as_json)
        return
    begun = on_backend(
        app,
        database,
        lambda backend: backend.begin_bulk_act(act, search, reason=reason, **part),
        needs="settings",
        acts=True,
    )
    if as_json:
        data(begun)
        return
    text(f"{begun.id}\n")
    of_each = ""
    if begun.amount is not None:
        of_each = f", at most {credits(begun.amount)} of each"
    elif begun.share is not None:
        of_each = f", {begun.share:g} of each"
    echo(
        f"{act} of {begun.total} jobs, {credits(begun.credits)} together{of_each}, has begun; a server or a worker "
        f"does it. `ficha bulk show {begun.id}` tells how far it came"
    )


def _count(
    search: str,
    app: str | None,
    database: str | None,
    as_json: bool,
    refunds: Callable[[JobCount], int] | None = None,
) -> None:
    """refunds: computes the most that would be given back."""
    found = on_backend(app, database, lambda backend: backend.count_jobs(search), needs="settings")
    given_back = None if refunds is None or not found.is_exact else refunds(found)
    if as_json:
        data(found if refunds is None else {**msgspec.structs.asdict(found), "refunded_at_most": given_back})
        return
    more = "" if found.is_exact else " or more"
    back = "" if given_back is None else f"; at most {credits(given_back)} would be given back"
    echo(f"{found.count}{more} jobs match, {credits(found.credits)} together{back}; nothing was changed")


@app.command(name="list")
def list_(
    limit: Limit = LIMIT, after: After = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """List bulk acts, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.bulk_acts(after=cursor, limit=most),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no bulk acts",
    )


@app.command()
def show(bulk_id: ActId, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Show how far a bulk act is, and the first jobs that it could not be done to."""

    async def work(backend: Backend) -> BulkActView:
        return await backend.bulk_act(bulk_id)

    found = on_backend(app, database, work)
    if as_json:
        data(found)
        return
    details({name: value for name, value in msgspec.structs.asdict(found).items() if name != "failures"})
    if found.failures:
        table(("JOB", "CODE", "WHY"), [(one.job_id, one.code, one.text) for one in found.failures])


@app.command()
def stop(bulk_id: ActId, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Stop a bulk act. What was done stays."""
    found = on_backend(app, database, lambda backend: backend.stop_bulk_act(bulk_id))
    if as_json:
        data(found)
    else:
        echo(f"the bulk act is {found.state} after {found.done} jobs, {found.failed} failed")
