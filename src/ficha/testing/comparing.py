"""Converts values to a form in which `==` tells whether two stores return the same.

A store may change the spaces and the order of keys in JSON, so JSON texts are compared as parsed values. Everything
else must be equal exactly, types included: an integer is an int, an id a str, a boolean a bool.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from msgspec import Struct

from ..core.dataset import State
from ..core.outcomes import ClaimedJob, StepSaved
from ..core.records import Checkpoint, Content, Entry, Event, Step
from ..core.snapshot import Snapshot
from ..store.base import JobRow
from ..store.waiting_columns import Lines

_JSON_TEXTS: Final[dict[type[Struct], frozenset[str]]] = {
    Checkpoint: frozenset({"data"}),
    Content: frozenset({"result"}),
    JobRow: frozenset({"payload", "result"}),
    ClaimedJob: frozenset({"payload"}),
    Snapshot: frozenset({"payloads", "steps"}),
    State: frozenset({"payloads", "results"}),
    Step: frozenset({"result"}),
    StepSaved: frozenset({"result_json"}),
}
"""The fields that hold a JSON text, or JSON texts by key."""

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
        case Event(data=data):
            return {**_fields(value), "data": _json_value(data)}
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
    texts = _JSON_TEXTS.get(type(value), frozenset())
    plain: dict[str, Any] = {"type": type(value).__name__}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if name in texts:
            plain[name] = _json_texts(field)
        else:
            plain[name] = field if type(field) in _KEPT else comparable(field)
    return plain


def _json_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_texts(text) for key, text in value.items()}
    if value is None:
        return None
    assert type(value) is str, f"{value!r} is not a JSON text"
    return ["json", _json_value(json.loads(value))]


def _json_value(value: Any) -> Any:
    """Parsed JSON, with booleans distinct from numbers; 1e3 and 1000 are equal."""
    match value:
        case dict():
            return {key: _json_value(one) for key, one in value.items()}
        case list():
            return [_json_value(one) for one in value]
        case bool():
            return f"bool {value}"
        case _:
            return value


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
