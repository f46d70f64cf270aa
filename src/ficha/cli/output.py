"""The command's output: data on standard output, messages for people on standard error.

Data has three forms: JSON with `--json`, tables in a terminal, and in a pipe plain lines with fields separated by tabs.
Only a terminal gets colours, frames or progress bars. All that is printed goes through `printable` or `json_text`:
they spell out control characters and invisible ones, so that stored text (errors, names, results) can neither break a
line, nor control the terminal, nor turn the direction of what follows.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from rich.text import Text

STYLES: Final = {
    "queued": "yellow",
    "starting": "cyan",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def echo(text: str, label: str = "", style: str = "") -> None:
    """Prints a message for people. Brackets in names and paths are no markup."""
    if not sys.stderr.isatty():
        print(printable(label + text), file=sys.stderr, flush=True)
        return
    # Rich takes longer to import than most commands take to run, so it is imported for a terminal only.
    from rich.console import Console
    from rich.text import Text

    shown = Text.assemble((printable(label), style), printable(text))
    Console(stderr=True, highlight=False, soft_wrap=True).print(shown)


def note(text: str) -> None:
    echo(text, "note: ", "bold yellow")


def failure(code: str, message: str, *, as_json: bool, retryable: bool = False, **more: Any) -> None:
    """Prints an expected error: one line on standard error, as text or as JSON."""
    if as_json:
        error = {"code": code, "message": message, "retryable": retryable, **more}
        print(json_text(error), file=sys.stderr, flush=True)
    else:
        echo(f"{message} [{code}]", "error: ", "bold red")


def data(value: Any) -> None:
    """Prints a line of JSON, in UTF-8 whatever the terminal's encoding is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json_text(value).encode() + b"\n")
    sys.stdout.flush()


def text(value: str) -> None:
    """Prints plain text as the data."""
    sys.stdout.write(printable(value, keep="\n\t"))
    sys.stdout.flush()


def result(value: Any) -> None:
    """Prints a JSON value: indented in a terminal, on one line in a pipe."""
    if sys.stdout.isatty():
        text(msgspec.json.format(json_text(value), indent=2) + "\n")
    else:
        data(value)


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows of values. In a pipe: no titles, one line per row, fields separated by tabs, nothing cut off."""
    if not sys.stdout.isatty():
        text("".join("\t".join(map(shown, row)) + "\n" for row in rows))
        return
    from rich.console import Console
    from rich.table import Table

    kept = [list(row) for row in rows]
    grid = Table(box=None, header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        # An id is for copying, so it is never wrapped; a date is short enough.
        whole = title in ("ID", "JOB") or any(isinstance(row[number], datetime) for row in kept)
        grid.add_column(title, overflow="fold", no_wrap=whole)
    for row in kept:
        grid.add_row(*(_cell(title, value) for title, value in zip(titles, row, strict=True)))
    Console(highlight=False).print(grid)
    sys.stdout.flush()


def _cell(title: str, value: Any) -> Text:
    from rich.text import Text

    if isinstance(value, datetime):
        local, today = value.astimezone(), datetime.now().astimezone().date()
        return Text(f"{local:%H:%M:%S}" if local.date() == today else f"{local:%Y-%m-%d %H:%M}")
    return Text(shown(value), STYLES.get(value, "") if title == "STATUS" else "")


def details(pairs: Mapping[str, Any]) -> None:
    """Prints one thing, field by field; empty fields are left out."""
    known = [(name, value) for name, value in pairs.items() if value is not None and value != ()]
    if not sys.stdout.isatty():
        text("".join(f"{printable(name)}\t{shown(value)}\n" for name, value in known))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in known:
        grid.add_row(Text(printable(name)), Text(shown(value), STYLES.get(value, "") if name == "status" else ""))
    Console(highlight=False).print(grid)
    sys.stdout.flush()


def shown(value: Any) -> str:
    """A value as text for people."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case float():
            return f"{value:.1f}"
        case str():
            return printable(value)
        case int():
            return str(value)
        case _:
            return json_text(value)


def moment(at: datetime) -> str:
    """Local time; in a pipe with the offset from UTC, because it may be read elsewhere."""
    local = at.astimezone()
    return f"{local:%Y-%m-%d %H:%M:%S}" if sys.stdout.isatty() else local.isoformat(timespec="seconds")


def printable(value: str, *, keep: str = "") -> str:
    """The text with all that is not printable spelled out: control characters (C0, C1, DEL), line separators, marks of
    direction, other invisible characters, lone surrogates. `keep` are those that stay."""
    if value.isprintable():
        return value
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in value)


def json_text(value: Any) -> str:
    """The value as JSON on one line, with the same characters spelled out as JSON does it."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else "".join(c if c.isprintable() else _json_escape(c) for c in text)


def _json_escape(character: str) -> str:
    if character in "\n\r\t":
        return " "  # JSON has them only between its parts.
    return "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be")))


def duration(seconds: float) -> str:
    """A rounded length of time: 8 s, 3 min, 2 h."""
    if seconds < 90:
        return f"{max(0, round(seconds))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h"


def credits(amount: int) -> str:
    return f"{amount} credit" if abs(amount) == 1 else f"{amount} credits"
