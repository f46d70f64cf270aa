"""The command's entry: its subcommands, and how an error reaches a person."""

from __future__ import annotations

import sys

import typer

from ..refused import Refused
from ..store.base import StoreError
from . import migrate, verify
from .output import words

app = typer.Typer(
    name="ficha",
    help="A durable job queue with a credit ledger inside.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(migrate.app, name="migrate")
app.command(name="verify")(verify.verify)


def main() -> None:
    """Runs the command. An expected error is one line on standard error and exit code 1, never a traceback."""
    try:
        app()
    except (StoreError, Refused) as error:
        words(str(error), "error: ", "bold red")
        sys.exit(1)
