"""Payloads on the command line: JSON, a file, standard input, or single fields."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer


def payload(given: str | None, fields: list[str]) -> dict[str, Any]:
    """The payload of the argument and the fields together; fields take precedence."""
    whole = {} if given is None else parsed(source(given), "the payload")
    if not isinstance(whole, dict):
        raise typer.BadParameter('the payload must be a JSON object, such as {"image": "cat.png"}')
    return whole | dict(map(_field, fields))


def source(given: str) -> str:
    """The text itself, that of `@file`, or standard input for `-`."""
    try:
        if given == "-":
            return sys.stdin.buffer.read().decode("utf-8-sig")
        if given.startswith("@"):
            with open(given[1:], "rb") as file:
                return file.read().decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{given[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the payload is not UTF-8 (byte {error.start})") from error
    return given


@contextmanager
def lines_of(file: str) -> Iterator[Iterator[str]]:
    """The lines of a file, also a compressed one, or of standard input for `-`: opened now, read as they are
    needed."""
    if file == "-":
        yield _lines(sys.stdin.buffer, "standard input")
        return
    try:
        opened = (gzip.open if file.endswith(".gz") else open)(file, "rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    with opened as lines:
        yield _lines(lines, file)


def _lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    number = 0
    try:
        # Lines of bytes end at line feeds alone; those of text also at characters that JSON allows in strings.
        for number, line in enumerate(lines, 1):
            yield (line.removeprefix(BOM_UTF8) if number == 1 else line).decode()
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise typer.BadParameter(f"{name} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise typer.BadParameter(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"line {number} is not UTF-8 (byte {error.start}); save it as UTF-8") from error


def parsed(text: str, what: str) -> Any:
    """The parsed JSON, or an error that shows where it is wrong."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if text.strip() else ""
        rest = line[error.colno - 1 :][:30]
        near = f", before {rest!r}" if rest else ", at the end"
        raise typer.BadParameter(
            f"{what} is not JSON: {error.msg} (line {error.lineno}, column {error.colno}{near})"
        ) from error
    except RecursionError:
        raise typer.BadParameter(f"{what} is nested too deep") from None
    except ValueError as error:
        raise typer.BadParameter(f"{what} is not acceptable JSON: {error}") from error


def _field(given: str) -> tuple[str, Any]:
    name, sign, value = given.partition("=")
    if not sign or not name:
        raise typer.BadParameter(f"write --field name=value, not {given!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
