"""`ficha batch`: many jobs submitted together, all or none; watched, resumed or cancelled together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer

from ..engine.views import BatchView
from .backend import on_backend
from .listing import list_on_backend
from .options import LIMIT, Account, After, App, AsJson, Database, Limit, Reason
from .output import data, details, echo
from .submit import submit_batch

app = typer.Typer(help="Batches: many jobs submitted together.", no_args_is_help=True)

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")]


COLUMNS: Final[dict[str, Callable[[BatchView], Any]]] = {
    "ID": lambda batch: batch.id,
    "ACCOUNT": lambda batch: batch.account,
    "JOBS": lambda batch: batch.total,
    "PROGRESS": lambda batch: f"{batch.progress} %",
    "CREATED": lambda batch: batch.created_at,
}

app.command(name="submit")(submit_batch)


@app.command(name="list")
def list_(
    account: Account = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List batches, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.batches(account=account, after=cursor, limit=most),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no batches",
    )


@app.command()
def status(batch_id: BatchId, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Show a batch's progress."""
    found = on_backend(app, database, lambda backend: backend.batch(batch_id))
    if as_json:
        data(found)
    else:
        details({**msgspec.structs.asdict(found), "progress": f"{found.progress} %"})


@app.command()
def resume(batch_id: BatchId, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Resume an interrupted batch: lost jobs return to the queue, dead letters are requeued and charged again."""
    resumed = on_backend(app, database, lambda backend: backend.resume_batch(batch_id), needs="settings", acts=True)
    words = f"{resumed.resumed} jobs were resumed"
    if resumed.refusal is not None:
        words += f", {resumed.refused} could not be: {resumed.refusal.message}"
    _counted({"batch_id": batch_id, **msgspec.structs.asdict(resumed)}, words, as_json=as_json)


@app.command()
def cancel(
    batch_id: BatchId, reason: Reason = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Cancel and refund the jobs of a batch that have not ended."""
    cancelled = on_backend(
        app, database, lambda backend: backend.cancel_batch(batch_id, reason=reason), needs="settings", acts=True
    )
    _counted({"batch_id": batch_id, "cancelled": cancelled}, f"{cancelled} jobs were cancelled", as_json=as_json)


def _counted(document: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        data(document)
    else:
        echo(sentence)
