"""`ficha dev`: everything in one process, for whoever writes an application: an embedded database, demo accounts and a
worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from .logs import LogForm, configure
from .options import App, Database
from .worker import run

if TYPE_CHECKING:
    from ..app import Ficha

CREDITS: Final = 1_000
GRACE_S: Final = 2.0


def dev(
    app: App = None,
    database: Database = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Handlers at a time.")] = 10,
) -> None:
    """Run your application here: makes the database and an account of each plan, and runs a worker until Ctrl-C."""
    from .desk import application

    found, _ = application(app, database, "tools")
    configure(LogForm.text)
    run(found, None, concurrency, grace_s=GRACE_S, opened=lambda: _welcome(found))


async def _welcome(app: Ficha) -> None:
    from ..refused import NotFound
    from ..store.connect import hidden
    from .output import words

    for plan in app.policy.plans:
        name = f"demo-{plan}"
        try:
            account = await app.account(name)
        except NotFound:
            account = await app.open_account(name, plan=plan, credits=CREDITS)
        words(f"{name}: {account.balance} credits, plan {plan}", "account ", "bold")
    for name, tool in sorted(app.tools.items()):
        fields = ", ".join(tool.schema().get("properties", {}))
        words(f"{name}({fields})", "tool    ", "bold")
    words(hidden(app.database), "data    ", "bold")
    if app.tools:
        plan = next(iter(app.policy.plans))
        words(f"ficha submit {min(app.tools)} --account demo-{plan} --watch", "try     ", "bold")
