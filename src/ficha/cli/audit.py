"""`ficha audit`: who did what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from ..engine.views import AuditView
from .listing import list_on_backend
from .options import LIMIT, After, App, AsJson, Database, Limit

COLUMNS: Final[dict[str, Callable[[AuditView], Any]]] = {
    "NUMBER": lambda line: line.number,
    "AT": lambda line: line.at,
    "ACTOR": lambda line: line.actor,
    "ACT": lambda line: line.act,
    "TARGET": lambda line: line.target,
    "DETAILS": lambda line: line.details,
}


def audit(
    target: Annotated[str | None, typer.Option("--target", help="Only acts on this, such as 'account ana'.")] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Only acts in this name.")] = None,
    limit: Limit = LIMIT,
    after: After = None,
    app: App = None,
    database: Database = None,
    as_json: AsJson = False,
) -> None:
    """List the audit log, newest first: changes by this command, and by administrators over HTTP."""
    list_on_backend(
        app,
        database,
        lambda backend, cursor, most: backend.audit(target=target, actor=actor, after=cursor, limit=most),
        COLUMNS,
        after=after,
        limit=limit,
        as_json=as_json,
        nothing="the audit log is empty",
    )
