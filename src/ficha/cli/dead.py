"""`ficha dead`: dead letters, which are failed jobs that were neither requeued nor discarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import typer
from msgspec import Struct

from ..core.outcomes import Discarded
from ..engine.views import DeadGroup, JobView, Page
from .backend import Backend, on_backend
from .listing import each, list_on_backend, listed
from .options import LIMIT, Account, After, App, AsJson, Database, Include, JobIds, Limit, texts
from .output import note, text

app = typer.Typer(help="Dead letters: list, group, requeue or discard them.", no_args_is_help=True)

COLUMNS: Final[dict[str, Callable[[JobView], Any]]] = {
    "ID": lambda job: job.id,
    "TOOL": lambda job: job.tool,
    "ACCOUNT": lambda job: job.account,
    "COST": lambda job: job.cost,
    "FINISHED": lambda job: job.finished_at,
    "ERROR": lambda job: job.error,
}


GROUPS: Final[dict[str, Callable[[DeadGroup], Any]]] = {
    "COUNT": lambda group: group.count,
    "TOOL": lambda group: group.tool,
    "COST": lambda group: group.credits,
    "FIRST": lambda group: group.first_at,
    "LAST": lambda group: group.last_at,
    "NEWEST": lambda group: group.job_id,
    "ERROR": lambda group: group.error,
}


class RequeuedAs(Struct):
    """A dead letter and the new job for its work."""

    job_id: str
    as_job: str


@app.command(name="list")
def list_(
    account: Account = None,
    include: Include = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List failed jobs that were neither requeued nor discarded, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.dead_letters(
            account=account, after=cursor, limit=most, include=texts(include)
        ),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no dead letters",
    )


@app.command()
def groups(app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List dead letters by tool and error, the largest groups first. In an error, … stands for numbers and ids."""

    async def work(backend: Backend) -> bool:
        found = await backend.dead_groups()

        async def all_of_them(_after: str | None, _most: int) -> Page[DeadGroup]:
            return Page(found.items)

        await listed(all_of_them, GROUPS, page=1, after=None, limit=1, as_json=as_json, nothing="no dead letters")
        return found.is_whole

    if not on_backend(app, database, work):
        note("only the newest dead letters were looked at")


@app.command()
def requeue(job_ids: JobIds, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Run jobs again, each as a new job with a new charge, and print the new ids."""

    def sentence(done: RequeuedAs) -> str:
        text(f"{done.as_job}\n")
        return f"job {done.job_id} is requeued"

    async def work(backend: Backend) -> None:
        async def again(job_id: str) -> RequeuedAs:
            return RequeuedAs(job_id, await backend.requeue(job_id))

        await each(job_ids, again, sentence, as_json=as_json)

    on_backend(app, database, work, needs="settings", acts=True)


@app.command()
def discard(job_ids: JobIds, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Remove jobs from the list. They stay failed and refunded."""

    def sentence(done: Discarded) -> str:
        return f"job {done.job_id} " + ("is discarded" if done.changed else "was not on the list")

    async def work(backend: Backend) -> None:
        await each(job_ids, backend.discard, sentence, as_json=as_json)

    on_backend(app, database, work)
