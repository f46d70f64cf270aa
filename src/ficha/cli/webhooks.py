"""`ficha webhooks`: addresses to which events are sent, and the messages to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from ..core.webhooks import EVENTS
from ..engine.views import DeliveryView, NewWebhook, Page, WebhookView
from .backend import Backend, on_backend
from .listing import list_on_backend, listed
from .options import LIMIT, After, App, AsJson, Database, Limit
from .output import data, echo, text

app = typer.Typer(help="Webhooks: add, list, test, resend.", no_args_is_help=True)

Account = Annotated[
    str | None,
    typer.Option("--account", help="Whose endpoints.", show_default="the operator's own; with --url, the key's own"),
]
Id = Annotated[str, typer.Argument(metavar="ID", help="The endpoint's id, as listed.")]

ENDPOINTS: Final[dict[str, Callable[[WebhookView], Any]]] = {
    "ID": lambda webhook: webhook.id,
    "URL": lambda webhook: webhook.url,
    "EVENTS": lambda webhook: ", ".join(webhook.events) or "all",
    "FAILING SINCE": lambda webhook: webhook.failing_since_at,
    "DISABLED": lambda webhook: webhook.disabled_reason,
    "DESCRIPTION": lambda webhook: webhook.description,
}
MESSAGES: Final[dict[str, Callable[[DeliveryView], Any]]] = {
    "ID": lambda delivery: delivery.id,
    "EVENT": lambda delivery: delivery.event,
    "JOB": lambda delivery: delivery.job_id,
    "STATE": lambda delivery: delivery.state,
    "ATTEMPTS": lambda delivery: delivery.attempts,
    "STATUS": lambda delivery: delivery.answered,
    "ERROR": lambda delivery: delivery.error,
    "NEXT": lambda delivery: delivery.next_at,
    "ENDED": lambda delivery: delivery.ended_at,
}


@app.command()
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where messages are sent: https://…")],
    events: Annotated[
        list[str] | None, typer.Option("--event", help=f"Events to send: {', '.join(EVENTS)}.", show_default="all")
    ] = None,
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = "",
    account: Account = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Add an endpoint and print its secret. It is shown only now."""
    added = on_backend(
        app,
        database,
        lambda backend: backend.add_webhook(url, account=account, events=events or (), description=description),
        needs="settings",
        acts=True,
    )
    _show_secret(added, as_json=as_json)


@app.command(name="list")
def list_(account: Account = None, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """List endpoints: their URLs, their events, and whether they work."""

    async def work(backend: Backend) -> None:
        async def all_of_them(_after: str | None, _most: int) -> Page[WebhookView]:
            return Page(await backend.webhooks(account=account))

        await listed(all_of_them, ENDPOINTS, page=1, after=None, limit=1, as_json=as_json, nothing="no endpoints")

    on_backend(app, database, work)


@app.command()
def remove(
    webhook_id: Id, account: Account = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Remove an endpoint: nothing more is sent to it."""
    removed = on_backend(app, database, lambda backend: backend.remove_webhook(webhook_id, account=account))
    _show(removed, f"endpoint {removed.id} is removed", as_json=as_json)


@app.command()
def enable(
    webhook_id: Id, account: Account = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Enable an endpoint that was disabled."""
    enabled = on_backend(app, database, lambda backend: backend.enable_webhook(webhook_id, account=account))
    _show(enabled, f"endpoint {enabled.id} is enabled", as_json=as_json)


@app.command()
def rotate(
    webhook_id: Id,
    overlap_hours: Annotated[
        float | None,
        typer.Option("--overlap-hours", help="How long earlier secrets sign too.", show_default="24, or as declared"),
    ] = None,
    account: Account = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Make a new secret and print it. It is shown only now."""
    overlap_s = None if overlap_hours is None else overlap_hours * 3_600
    rotated = on_backend(
        app,
        database,
        lambda backend: backend.rotate_webhook_secret(webhook_id, account=account, overlap_s=overlap_s),
        needs="settings",
    )
    _show_secret(rotated, as_json=as_json)


@app.command(name="test")
def send_test(
    webhook_id: Id, account: Account = None, app: App = None, database: Database = None, as_json: AsJson = False
) -> None:
    """Send a test to an endpoint, once; a worker sends it."""
    sent = on_backend(app, database, lambda backend: backend.test_webhook(webhook_id, account=account))
    _show(sent, f"a test is on its way; `ficha webhooks deliveries` shows what came of {sent.id}", as_json=as_json)


@app.command()
def deliveries(
    webhook_id: Annotated[str | None, typer.Option("--endpoint", help="Only messages to this endpoint.")] = None,
    job_id: Annotated[str | None, typer.Option("--job", help="Only messages about this job.")] = None,
    state: Annotated[
        str | None, typer.Option("--state", help="Only those that are pending, delivered or failed.")
    ] = None,
    account: Account = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List messages to endpoints, newest first."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.deliveries(
            account=account,
            webhook_id=webhook_id,
            job_id=job_id,
            state=state,  # type: ignore[arg-type]
            after=cursor,
            limit=most,
        ),
        MESSAGES,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no messages",
    )


@app.command()
def resend(
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="The message's id, as listed.")],
    account: Account = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Send a message again, with the same id; a worker sends it."""
    sent = on_backend(app, database, lambda backend: backend.resend_delivery(delivery_id, account=account))
    _show(sent, f"message {sent.id} is sent again", as_json=as_json)


def _show(found: WebhookView | DeliveryView, words: str, *, as_json: bool) -> None:
    if as_json:
        data(found)
    else:
        echo(words)


def _show_secret(made: NewWebhook, *, as_json: bool) -> None:
    if as_json:
        data(made)
        return
    text(f"{made.secret}\n")
    echo(f"the secret of endpoint {made.webhook.id}; save it now, it cannot be shown again")
