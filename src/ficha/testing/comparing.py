"""Converts values to a form in which `==` tells whether two stores return the same.

Everything must be equal exactly, types included: an integer is an int, an id a str, a boolean a bool. JSON is text, and
a store returns the very text that was stored: `1e16` and `10000000000000000` are not the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from msgspec import Struct

from ..core.dataset import State
from ..core.records import Entry, Event
from ..store.waiting_columns import Lines

_KEPT: Final = frozenset({str, int, type(None)})
"""The exact types that are compared as they are; a bool is not taken for an int."""


def comparable(value: Any) -> Any:
    """Any record, outcome, snapshot, state or query result, in plain values."""
    if type(value) in _KEPT:
        return value
    match value:
        case State():
            # Entries and events of different owners have no order among each other.
            plain = _fields(value)
            return {**plain, "entries": _entries(value.entries), "events": _events(value.events)}
        case Lines():
            return comparable(value.jobs())
        case Struct():
            return _fields(value)
        case dict():
            return {key: comparable(one) for key, one in value.items()}
        case list() | tuple():
            return [comparable(one) for one in value]
        case bool():
            return f"bool {value}"
        case float():
            return f"float {value}"
        case _:
            raise AssertionError(f"{value!r} is a {type(value).__name__}, which no record holds")


def _fields(value: Struct) -> dict[str, Any]:
    plain: dict[str, Any] = {"type": type(value).__name__}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        plain[name] = field if type(field) in _KEPT else comparable(field)
    return plain


def _entries(entries: list[Entry]) -> dict[str, list[Any]]:
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for entry in entries:
        found[entry.account_id].append(comparable(entry))
    return dict(found)


def _events(events: list[Event]) -> dict[str, list[Any]]:
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for event in events:
        found[event.job_id].append(comparable(event))
    return dict(found)
