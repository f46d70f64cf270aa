"""`ficha batch`: many jobs submitted together, all or none; watched, resumed or cancelled together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from .backend import Backend, account_or_own, check_account, on_backend
from .options import App, AsJson, Database, Key, Reason, Watch, tools
from .output import data, details, echo
from .payload_input import parsed, source
from .submit import Correlation, KeyHours, Payer, Session, report

app = typer.Typer(help="Batches: many jobs submitted together.", no_args_is_help=True)

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The batch.")]


@app.command()
def submit(
    items: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines, or - for standard input.")],
    account: Payer = None,
    tool: Annotated[
        str | None,
        typer.Option("--tool", help="The tool of all jobs; each line is then a payload.", autocompletion=tools),
    ] = None,
    key: Key = None,
    key_hours: KeyHours = None,
    session: Session = None,
    correlation_id: Correlation = None,
    watch: Watch = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job for each line, all or none, and print the batch's id. A line is {"tool": …, "payload": {…}}."""
    check_account(account, database, "option '--account'")
    wanted = list(_items(source(items if items == "-" else f"@{items}"), tool))

    async def work(backend: Backend) -> int:
        receipt = await backend.submit_batch(
            wanted,
            account=await account_or_own(backend, account),
            idempotency_key=key,
            key_ttl_hours=key_hours,
            session=session,
            correlation_id=correlation_id,
        )
        return await report(backend, receipt, watch=watch, as_json=as_json)

    raise typer.Exit(on_backend(app, database, work, needs="tools", creates=True))


def _items(text: str, tool: str | None) -> Iterator[tuple[str, Any]]:
    # Not splitlines(), which also splits at characters that JSON allows in strings.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        item = parsed(line, f"line {number}")
        if tool is not None:
            yield tool, item
        elif isinstance(item, dict) and "tool" in item and item.keys() <= {"tool", "payload"}:
            yield item["tool"], item.get("payload", {})
        else:
            raise typer.BadParameter(
                f'line {number} must be {{"tool": …, "payload": {{…}}}}; or name one tool for all lines with --tool'
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
    _counted({"batch_id": batch_id, "resumed": resumed}, f"{resumed} jobs were resumed", as_json=as_json)


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
