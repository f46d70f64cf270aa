"""`ficha submit` and `ficha batch submit`: submit one job or many, and with --watch show what came of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, cast

import typer

from ..batch_lines import BadLine, LineFormat, Schemas, read_items
from ..engine.views import Receipt
from ..operations import BoundOperations
from ..requests import BatchRequest, SubmitRequest, batch_items
from .backend import Backend, account_or_own, check_account, on_backend
from .options import App, AsJson, Database, Key, Watch, tools
from .output import credits, data, echo, note, text
from .payload_input import lines_of
from .payload_input import payload as payload_of
from .watch import watched

Payer = Annotated[
    str | None, typer.Option("--account", help="Account to charge. With --url, defaults to the key's own account.")
]
Session = Annotated[str | None, typer.Option("--session", help="A name to group and list jobs by.")]
Correlation = Annotated[str | None, typer.Option("--correlation-id", help="An id for logs and traces.")]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="jsonl|csv", help="Lines of JSON or CSV.", show_default="by the file's name"),
]
KeyHours = Annotated[float | None, typer.Option("--key-hours", help="Hours that the idempotency key is kept.")]


def submit(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The tool.", autocompletion=tools)],
    account: Payer = None,
    payload: Annotated[
        str | None, typer.Argument(metavar="PAYLOAD", help="A JSON object, @file, or - for standard input.")
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME=VALUE", help="A field of the payload: JSON, else text. Repeatable."),
    ] = None,
    key: Key = None,
    key_hours: KeyHours = None,
    delay: Annotated[float, typer.Option("--delay", help="Seconds before it may start.")] = 0.0,
    session: Session = None,
    correlation_id: Correlation = None,
    reservation: Annotated[
        str | None, typer.Option("--reservation", help="The quota reservation that it uses.")
    ] = None,
    watch: Watch = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job and print its id; with --watch, wait for its end and print its result."""
    check_account(account, database, "option '--account'")
    fields = payload_of(payload, field or [])

    async def work(backend: Backend) -> int:
        request = SubmitRequest(
            tool=tool,
            payload=fields,
            account=await account_or_own(backend, account),
            idempotency_key=key,
            key_ttl_hours=key_hours,
            reservation=reservation,
            session=session,
            delay_s=delay,
            correlation_id=correlation_id,
        )
        return await report(backend, await backend.submit_request(request), watch=watch, as_json=as_json)

    raise typer.Exit(on_backend(app, database, work, needs="tools", creates=True))


def submit_batch(
    items: Annotated[str, typer.Argument(metavar="FILE", help="Lines of JSON or CSV, also .gz; - for standard input.")],
    account: Payer = None,
    tool: Annotated[
        str | None,
        typer.Option("--tool", help="The tool of all jobs; each line is then a payload.", autocompletion=tools),
    ] = None,
    form: Format = None,
    as_far_as_credits: Annotated[
        bool, typer.Option("--as-far-as-credits", help="If credits run short, take the first lines that they cover.")
    ] = False,
    key: Key = None,
    key_hours: KeyHours = None,
    session: Session = None,
    correlation_id: Correlation = None,
    watch: Watch = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Submit a job for each line, all or none, and print the batch's id. A line of JSON is {"tool": …, "payload": {…}}.
    CSV begins with a row of names: the payload's fields, and `tool` unless --tool names it."""
    check_account(account, database, "option '--account'")
    chosen = line_format(form, items)

    async def work(backend: Backend, lines: Iterable[str]) -> int:
        schemas = await _schemas(backend) if chosen == "csv" else {}
        # A server applies its own limit.
        most = backend.limits.batch_jobs if isinstance(backend, BoundOperations) else None
        try:
            wanted = batch_items(read_items(lines, chosen, tool, schemas, _parsed), most)
        except BadLine as error:
            raise typer.BadParameter(str(error)) from None
        request = BatchRequest(
            items=wanted,
            as_far_as_credits=as_far_as_credits,
            account=await account_or_own(backend, account),
            idempotency_key=key,
            key_ttl_hours=key_hours,
            session=session,
            correlation_id=correlation_id,
        )
        return await report(backend, await backend.submit_batch_request(request), watch=watch, as_json=as_json)

    with lines_of(items) as lines:
        code = on_backend(app, database, lambda backend: work(backend, lines), needs="tools", creates=True)
    raise typer.Exit(code)


def line_format(given: str | None, file: str) -> LineFormat:
    """The format that was named, or else that of the file's name."""
    if given is None:
        return "csv" if file.removesuffix(".gz").endswith(".csv") else "jsonl"
    if given not in ("jsonl", "csv"):
        raise typer.BadParameter(f"write --format jsonl or --format csv, not {given!r}")
    return cast(LineFormat, given)


async def _schemas(backend: Backend) -> Schemas:
    """The schemas by which cells of CSV become values."""
    if isinstance(backend, BoundOperations):
        return {tool.name: tool.schema() for tool in backend.tools.values()}
    return {tool.name: tool.schema for tool in await backend.tools()}


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


async def report(backend: Backend, receipt: Receipt, *, watch: bool, as_json: bool) -> int:
    """Prints what was submitted, or with `watch` waits for its end; returns the exit code."""
    for warning in (*receipt.quota_warnings, receipt.cost_limit_warning):
        if warning is not None:
            note(warning)
    found = receipt.batch_id or receipt.job_id
    if not as_json:
        echo(_sentence(receipt))
    if watch:
        if not as_json:
            echo(f"{'batch' if receipt.batch_id else 'job'} {found}")
        return await watched(backend, found, as_json=as_json)
    if as_json:
        data(receipt)
    else:
        text(f"{found}\n")
    return 0


def _sentence(receipt: Receipt) -> str:
    what = f"{receipt.jobs} jobs, the first" if receipt.jobs > 1 else "the job"
    if receipt.left_out:
        what = f"{receipt.left_out} jobs were left out; of {what}"
    place = "" if receipt.position is None else f" at position {receipt.position}"
    if receipt.idempotent_hit:
        return f"submitted before with this key: {what} is {receipt.status}{place}; nothing was charged now"
    return f"{what} is {receipt.status}{place}; {credits(receipt.cost)}, {receipt.new_balance} left"
