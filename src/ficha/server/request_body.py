"""Request bodies: JSON, parsed strictly and converted to the type that a route takes."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, TypeVar

import msgspec
from fastapi import Depends
from starlette.requests import Request

from .. import validation as arg
from .problems import EdgeError

T = TypeVar("T")
LARGE_BYTES: Final = 262_144
"""Bodies from this size are parsed on a thread, so that the event loop is not blocked."""


def body(kind: type[T], *, optional: bool = False) -> Any:
    """A dependency that reads the request's body as a `kind`. An optional body may be empty."""

    async def read(request: Request) -> T:
        text = await request.body()
        if not text and optional:
            return kind()
        _check_type(request)
        value = strict_json(text) if len(text) < LARGE_BYTES else await asyncio.to_thread(strict_json, text)
        return converted(value, kind)

    read.kind = kind  # type: ignore[attr-defined]  # The OpenAPI document looks here.
    read.optional = optional  # type: ignore[attr-defined]
    return Depends(read)


def _check_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind, _, parameters = given.partition(";")
    charset = parameters.replace(" ", "").replace('"', "").lower()
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise EdgeError(
            "UNSUPPORTED_MEDIA_TYPE",
            f"send the body as JSON in UTF-8, with Content-Type: application/json, not {given[:80]!r}",
        )


def strict_json(text: bytes) -> Any:
    """Parses JSON without what parsers disagree about: no repeated keys, no NaN, no endless nesting or numbers."""
    try:
        return json.loads(text.decode(), object_pairs_hook=_no_repeated_keys, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise EdgeError("INVALID_JSON", "the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise EdgeError(
            "INVALID_JSON", f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise EdgeError("INVALID_JSON", "the body is nested too deep") from None
    except ValueError as error:  # A number of thousands of digits, or one of the two below.
        raise EdgeError("INVALID_JSON", f"the body is not acceptable JSON: {error}") from None


def _no_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)[:80]!r} is repeated")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def converted(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise arg.invalid(f"the body does not fit: {error}") from None
