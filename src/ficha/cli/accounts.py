"""`ficha account` and `ledger`: accounts, their balances, and their ledger entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import typer

from ..engine.views import AccountView, Credited, EntryView, Page
from .backend import Backend, account_or_own, check_account, on_backend
from .listing import list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Key, Limit, Reason
from .output import credits as credits_of
from .output import data, details, echo

app = typer.Typer(help="Accounts: open, credit, change plan, show.", no_args_is_help=True)

Who = Annotated[str, typer.Argument(metavar="ACCOUNT", help="The account.")]
WhoOrMe = Annotated[
    str | None, typer.Argument(metavar="ACCOUNT", help="The account. With --url, defaults to the key's own account.")
]

ACCOUNTS: Final[dict[str, Callable[[AccountView], Any]]] = {
    "ID": lambda account: account.id,
    "PLAN": lambda account: account.plan,
    "BALANCE": lambda account: account.balance,
    "ACTIVE": lambda account: account.active,
    "SUBMITTED": lambda account: account.submitted,
    "OPENED": lambda account: account.opened_at,
}
ENTRIES: Final[dict[str, Callable[[EntryView], Any]]] = {
    "NUMBER": lambda entry: entry.number,
    "AT": lambda entry: entry.at,
    "KIND": lambda entry: entry.kind,
    "AMOUNT": lambda entry: f"{entry.amount:+}",
    "BALANCE": lambda entry: entry.balance_after,
    "JOB": lambda entry: entry.job_id,
    "REASON": lambda entry: entry.reason,
}


@app.command()
def create(
    account: Who,
    plan: Annotated[str | None, typer.Option("--plan", help="Its plan.", show_default="the first declared")] = None,
    credits: Annotated[int, typer.Option("--credits", help="A first grant.")] = 0,
    exist_ok: Annotated[
        bool, typer.Option("--exist-ok", help="Accept an account that is open already, and leave it as it is.")
    ] = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Open an account."""
    opened = on_backend(
        app,
        database,
        lambda backend: backend.open_account(account, plan=plan, credits=credits, exist_ok=exist_ok),
        needs="settings",
        acts=True,
        creates=True,
    )
    _report(opened, as_json=as_json)


@app.command()
def grant(
    account: Who,
    amount: Annotated[int, typer.Argument(metavar="AMOUNT", help="Whole credits.")],
    reason: Reason = None,
    key: Key = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Add credits."""
    done = on_backend(app, database, lambda backend: backend.grant(account, amount, reason=reason, key=key))
    _report_credit(done, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True})  # So that a negative amount is not taken for an option.
def adjust(
    account: Who,
    amount: Annotated[int, typer.Argument(metavar="AMOUNT", help="Whole credits; may be negative.")],
    reason: Annotated[str, typer.Option("--reason", help="The reason, which is recorded.")],
    key: Key = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Correct a balance, up or down, never below zero."""
    done = on_backend(app, database, lambda backend: backend.adjust(account, amount, reason=reason, key=key))
    _report_credit(done, as_json=as_json)


@app.command()
def plan(
    account: Who,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A plan that the application declares.")],
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Move an account to another plan."""
    moved = on_backend(app, database, lambda backend: backend.change_plan(account, plan), needs="settings", acts=True)
    _report(moved, as_json=as_json)


@app.command()
def show(account: WhoOrMe = None, app: App = None, database: Database = None, as_json: AsJson = False) -> None:
    """Show an account: balance, plan, active jobs and spending."""
    check_account(account, database, "argument 'ACCOUNT'")

    async def work(backend: Backend) -> AccountView:
        return await backend.account(await account_or_own(backend, account))

    found = on_backend(app, database, work)
    if as_json:
        data(found)
    else:
        details(msgspec.structs.asdict(found))


@app.command()
def erase(
    account: Who,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """Remove a person's data for good, and close the account. What was paid stays in the ledger."""
    if not yes:
        question = f"All jobs, files, keys and webhooks of {account} are removed, and it is closed for good. Go on?"
        typer.confirm(question, abort=True, err=True)
    erased = on_backend(app, database, lambda backend: backend.erase(account), needs="tools")
    if as_json:
        data(erased)
    else:
        echo(
            f"{erased.account} is erased and closed: {erased.jobs} jobs ({erased.cancelled} of them cancelled), "
            f"{erased.files} files and {erased.rows} other rows; {credits_of(erased.balance)} are left in the ledger"
        )


@app.command(name="list")
def list_(
    search: Annotated[str | None, typer.Option("--search", help="Only accounts whose id begins with this.")] = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List accounts, by name."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.accounts(search=search, after=cursor, limit=most),
        ACCOUNTS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="no accounts",
    )


def ledger(
    account: WhoOrMe = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the entries of an account's ledger, newest first."""
    check_account(account, database, "argument 'ACCOUNT'")

    async def page(backend: Backend, cursor: str | None, most: int) -> Page[EntryView]:
        return await backend.ledger(await account_or_own(backend, account), before=cursor, limit=most)

    list_on_backend(
        app,
        database,
        page,
        ENTRIES,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing=f"{account or 'this account'} has no ledger entries",
    )


def _report(account: AccountView, *, as_json: bool) -> None:
    if as_json:
        data(account)
    else:
        echo(f"{account.id} has {credits_of(account.balance)}, on plan {account.plan}")


def _report_credit(done: Credited, *, as_json: bool) -> None:
    if as_json:
        data(done)
        return
    repeat = f"; the key was used before, for entry {done.entry}, so nothing was changed" if done.idempotent_hit else ""
    echo(f"{done.account} has {credits_of(done.balance)}, on plan {done.plan}{repeat}")
