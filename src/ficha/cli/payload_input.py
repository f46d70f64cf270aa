"""Payloads on the command line: JSON, a file, standard input, or single fields."""

from __future__ import annotations

import gzip
import json
import sys
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
            with (gzip.open if given.endswith(".gz") else open)(given[1:], "rb") as file:
                return file.read().decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{given[1:]} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the payload is not UTF-8 (byte {error.start})") from error
    return given


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
