"""Turns a body's values into the struct that a route takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import validation as arg
from ..core.payload import CheckedJson
from ..validation import Limits

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


def converted(value: Any, kind: type[T], place: str = "") -> T:
    """The value as a struct; `place`: where in the body it is, for the message."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        words, at, path = str(error).partition(" - at `$")
        where = f" - at `${place}{path}" if at else f" - at `${place}`" if place else ""
        raise arg.invalid(f"the body does not fit: {words}{where}") from None


def with_checked_json(value: S, limits: Limits) -> S:
    """A copy of the struct with its JSON (a payload, a result) checked and made canonical."""
    found = {name: getattr(value, name) for name in _json_fields(type(value))}
    checked = {name: CheckedJson(given, limits.json_depth) for name, given in found.items() if given is not None}
    return replace(value, **checked)


@cache
def _json_fields(kind: type[Struct]) -> tuple[str, ...]:
    return tuple(
        field.name for field in msgspec.structs.fields(kind) if field.type is Any or get_origin(field.type) is Mapping
    )
