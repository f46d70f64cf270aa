"""How the command speaks: data for programs on standard output, words for people on standard error."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from ..app import DEFAULT_URL

Database = Annotated[
    str, typer.Option("--database", envvar="FICHA_DATABASE_URL", help="Where the data is.", show_default=True)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print data as JSON.")]
DATABASE: Final = DEFAULT_URL

_people = Console(stderr=True, highlight=False, soft_wrap=True)


def words(text: str, label: str = "", style: str = "") -> None:
    """A sentence for whoever runs the command. Names and paths are shown as they are, brackets and all."""
    _people.print(Text.assemble((label, style), text))


def data(value: Any) -> None:
    """A line of JSON for whatever reads the command."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def text(value: str) -> None:
    """Plain text that is itself the data."""
    sys.stdout.write(value)
