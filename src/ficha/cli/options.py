"""The options that many commands share, and their shell completion."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

WHERE: Final = "Where"
UsageError: Final[Any] = typer.BadParameter.__bases__[0]
"""The base of all usage errors; the library has no public name for it."""


class ErrorForm:
    """Whether the running command has `--json`, so that errors from anywhere are printed as JSON too."""

    as_json = False


def _set_error_form(value: bool) -> bool:
    ErrorForm.as_json = value
    return value


def texts(include: str | None) -> tuple[Any, ...]:
    """What `--include` names; the operation checks it."""
    return tuple(include.split(",")) if include else ()


def tools(ctx: Any, incomplete: str) -> list[str]:
    """The tools of the application, for completion; none if it cannot be loaded."""
    from .load_app import DEFAULT_APP, AppNotLoaded, load

    try:
        found = load(ctx.params.get("app") or DEFAULT_APP).tools
    except AppNotLoaded:
        return []
    return [name for name in sorted(found) if name.startswith(incomplete)]


RefundAmount = Annotated[
    int | None, typer.Option("--amount", metavar="CREDITS", help="Give back only so many credits of each job.")
]
RefundShare = Annotated[
    float | None,
    typer.Option(
        "--share", help="Give back only this share of each job's charge, up to 1, rounded up to a whole credit."
    ),
]

App = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar="FICHA_APP",
        metavar="MODULE:ATTRIBUTE",
        help="Your application.",
        show_default="app:app",
        rich_help_panel=WHERE,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        "--url",
        metavar="URL",
        help="Where the data is: a database, or a server (https://…).",
        show_default="FICHA_URL, else the application's database, else FICHA_DATABASE_URL, else sqlite:///ficha.db",
        rich_help_panel=WHERE,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print data as JSON: one document, or one per line for lists.", callback=_set_error_form
    ),
]
Account = Annotated[str | None, typer.Option("--account", help="Only those of this account.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
After = Annotated[str | None, typer.Option("--after", help="Continue after this one: the last of the previous list.")]
Include = Annotated[
    str | None,
    typer.Option("--include", help="With --json, also these, with commas: payload, result, resume_data, partial."),
]
Key = Annotated[str | None, typer.Option("--key", help="Idempotency key: a repeat with the same key changes nothing.")]
Reason = Annotated[str | None, typer.Option("--reason", help="The reason, which is recorded.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job.")]
JobIds = Annotated[list[str], typer.Argument(metavar="JOB...", help="One job or several.")]
Watch = Annotated[bool, typer.Option("--watch", help="Show its progress until it has ended.")]
LIMIT: Final = 50
