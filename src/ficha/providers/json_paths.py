"""Values inside JSON that somebody else wrote, found by dotted paths: `task.files.0.url`, or `*` for every item."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from ..storable import clean_json

MOST_FOUND: Final = 1_000
"""The most values that a path with `*` finds."""


def read_value(body: bytes) -> Any:
    """JSON, with a mark in place of each character that cannot be stored; raises ValueError if it is anything else.

    A program that cuts a text in the middle of an emoji writes half a surrogate pair, which msgspec takes for an error.
    """
    may_be_odd = b"\\u" in body
    try:
        try:
            value = msgspec.json.decode(body)
        except msgspec.DecodeError:
            if not may_be_odd:
                raise
            value = json.loads(body.decode(), parse_constant=_refuse_constant)
        return clean_json(value) if may_be_odd else value
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_object(body: bytes) -> dict[str, Any]:
    """A JSON object; raises ValueError if the bytes are anything else."""
    value = read_value(body)
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def found(value: Any, path: str) -> Any:
    """The value at the path; None if there is none."""
    return next(_walk(value, path.split(".")), None)


def all_found(value: Any, path: str) -> list[Any]:
    """Everything at the path; a list at its end counts as its items."""
    values: list[Any] = []
    for one in _walk(value, path.split(".")):
        values.extend(one if isinstance(one, list) else [one])
        if len(values) >= MOST_FOUND:
            break
    return values[:MOST_FOUND]


def text_at(value: Any, path: str) -> str | None:
    """The text at the path, or a number there as text; None if there is neither, or only an empty text."""
    one = found(value, path)
    if isinstance(one, bool) or not isinstance(one, str | int | float):
        return None
    return str(one) or None


def number_at(value: Any, path: str) -> float | None:
    """The number at the path, also one written as text; None if there is none that is finite and at least 0."""
    one = found(value, path)
    if isinstance(one, bool) or not isinstance(one, str | int | float):
        return None
    try:
        number = float(one)
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < float("inf") else None


def is_web_address(value: Any) -> bool:
    """Whether a value is an absolute http or https address and nothing else."""
    if not isinstance(value, str) or len(value) > 4_096 or any(char.isspace() for char in value):
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def last_name(url: str) -> str | None:
    """The last part of an address's path, which is usually a file's name."""
    return urlsplit(url).path.rpartition("/")[2] or None


def texts_in(value: Any, depth: int = 6) -> Iterator[str]:
    """Every text in a value, however deep up to a limit."""
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts_in(item, depth - 1)


def _walk(value: Any, path: list[str]) -> Iterator[Any]:
    if not path:
        if value is not None:
            yield value
        return
    name, *rest = path
    if name == "*" and isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _walk(item, rest)
    elif isinstance(value, dict):
        if name in value:
            yield from _walk(value[name], rest)
    elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(value):
        yield from _walk(value[int(name[:9])], rest)
