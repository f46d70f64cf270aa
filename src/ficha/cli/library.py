"""`ficha library`: an account's completed work."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ..core.outcomes import WorkRemoved
from ..engine.views import LibraryItem, Page
from .backend import Backend, account_or_own, check_account, on_backend
from .listing import each, list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Include, JobIds, Limit, texts, tools

app = typer.Typer(help="Completed work of an account: list, search or remove it.", no_args_is_help=True)

COLUMNS: Final[dict[str, Callable[[LibraryItem], Any]]] = {
    "ID": lambda item: item.job.id,
    "TOOL": lambda item: item.job.tool,
    "CREATED": lambda item: item.job.created_at,
    "FINISHED": lambda item: item.job.finished_at,
    "PAID": lambda item: item.job.charged - item.job.refunded,
}
_FORMATS: Final = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


@app.command(name="list")
def list_(
    account: Annotated[
        str | None,
        typer.Option("--account", help="The account that owns it. With --url, defaults to the key's own account."),
    ] = None,
    tool: Annotated[str | None, typer.Option("--tool", help="Only this tool's.", autocompletion=tools)] = None,
    since: Annotated[
        datetime | None, typer.Option("--since", formats=_FORMATS, help="Only what was submitted then or later.")
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", formats=_FORMATS, help="Only what was submitted before.")
    ] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only what has these words in its payload.")] = None,
    include: Include = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List completed work, newest first."""
    check_account(account, database, "option '--account'")

    async def page(backend: Backend, cursor: str | None, most: int) -> Page[LibraryItem]:
        return await backend.library(
            await account_or_own(backend, account),
            tool=tool,
            since=None if since is None else since.astimezone(),
            until=None if until is None else until.astimezone(),
            search=search,
            after=cursor,
            limit=most,
            include=texts(include),
        )

    list_on_backend(
        app,
        database,
        page,
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing=f"{account or 'this account'} has no such work",
    )


@app.command()
def remove(job_ids: JobIds, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Remove completed work: payload, result, steps and files. The job and what was paid for it stay."""

    def sentence(done: WorkRemoved) -> str:
        return f"the work of job {done.job_id} {'is removed' if done.changed else 'was removed before'}"

    async def work(backend: Backend) -> None:
        await each(job_ids, backend.remove_work, sentence, as_json=as_json)

    on_backend(app, database, work, needs="settings", acts=True)
