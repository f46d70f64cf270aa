"""`ficha batch`: many jobs submitted together; watched, resumed, cancelled or exported together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import typer

from ..batch_lines import header_line, result_line
from ..engine.views import BatchView
from ..engine.views.batches import Left
from ..operations import BoundOperations
from .backend import Backend, on_backend
from .listing import list_on_backend
from .options import LIMIT, Account, After, App, AsJson, Database, Limit, Reason
from .output import data, details, echo
from .submit import Format, line_format, submit_batch

app = typer.Typer(help="Batches: many jobs submitted together.", no_args_is_help=True)

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")]


LEFT: Final[dict[Left, str]] = {
    "completed": "completed",
    "waiting": "waiting already",
    "running": "running",
    "cancelled": "cancelled",
    "failed": "failed and no dead letters",
    "refused": "refused",
    "changed": "changed meanwhile",
}
"""Why a resume left jobs as they are."""
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
def status(
    batch_id: BatchId,
    by_checkpoint: Annotated[
        bool, typer.Option("--by-checkpoint", help="Also its jobs that have not ended, by their last checkpoint.")
    ] = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Show a batch's progress."""
    found = on_backend(app, database, lambda backend: backend.batch(batch_id, by_checkpoint=by_checkpoint))
    if as_json:
        data(found)
    else:
        details({**msgspec.structs.asdict(found), "progress": f"{found.progress} %"})


@app.command()
def resume(batch_id: BatchId, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Resume an interrupted batch: lost jobs return to the queue, dead letters are requeued and charged again."""
    resumed = on_backend(app, database, lambda backend: backend.resume_batch(batch_id), needs="settings", acts=True)
    words = f"{resumed.resumed} jobs were resumed"
    if resumed.left:
        words += f"; left as they are: {', '.join(f'{jobs} {LEFT[why]}' for why, jobs in resumed.left.items())}"
    if resumed.refusal is not None:
        words += f". Refused: {resumed.refusal.message}"
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


@app.command()
def export(
    batch_id: BatchId,
    output: Annotated[
        Path | None, typer.Option("--output", help="The file to write.", show_default="standard output")
    ] = None,
    form: Format = None,
    payload: Annotated[bool, typer.Option("--payload", help="With each job's payload too.")] = False,
    app: App = None,
    database: Database = None,
) -> None:
    """Write every job of a batch with its result, one line each, in the order of the submit."""
    chosen = line_format(form, "" if output is None else output.name)

    async def work(backend: Backend, file: BinaryIO) -> None:
        if isinstance(backend, BoundOperations):
            await backend.batch(batch_id)
            file.write(header_line(chosen, with_payload=payload).encode())
            async for job in backend.batch_results(batch_id):
                file.write(result_line(job, chosen, with_payload=payload).encode())
        else:
            async for piece in backend.export_batch(batch_id, form=chosen, payload=payload):
                file.write(piece)
        file.flush()

    with nullcontext(sys.stdout.buffer) if output is None else _new_file(output) as file:
        on_backend(app, database, lambda backend: work(backend, file))


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name once all of it is written, so that an export that was cut short is not mistaken for a
    whole."""
    if path.exists():
        raise typer.BadParameter(f"{path} exists; name another file, or remove it")
    part = path.with_name(f"{path.name}.part")
    try:
        file = part.open("xb")
    except FileExistsError:
        raise typer.BadParameter(
            f"{part} exists: another export writes it, or one was killed; then remove it"
        ) from None
    except OSError as error:
        raise typer.BadParameter(f"{part} cannot be written: {error.strerror}") from None
    with file:
        try:
            yield file
        except BaseException:
            part.unlink()
            raise
    part.rename(path)


def _counted(document: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        data(document)
    else:
        echo(sentence)
