"""The language of job searches: turns a line of text into the conditions of a store's query.

    tool:upscale state:failed,cancelled account:ana since:1h error:"timed out"

The console, the HTTP API, `ficha jobs --search` and bulk acts all use this module. An error names its position in the
text, counted from 1.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, get_args

from msgspec import Struct

from .core.outcomes import Refusal
from .core.payload import text_problem
from .core.records import Status
from .declarations import NAME_LENGTH
from .engine.views import instant
from .errors import Refused
from .ids import first_id_at
from .store.base import JobMatch, lowered

JOB_SEARCH_LENGTH: Final = 2_000
"""The longest text of a search: enough for fifty ids, and it fits into a URL whatever its characters."""
MOST_VALUES: Final = 20
"""The most values of one qualifier: each may need a scan of its own."""
MOST_WORDS: Final = 20
"""The most parts of errors, with `error:` or without: each is a condition, and SQLite takes no more than 1,000."""
STATES: Final[tuple[Status, ...]] = get_args(Status)
_NAME: Final = re.compile(r"[A-Za-z_]+:")
_AGE: Final = re.compile(r"(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class _Part(Struct):
    """One part of the text: a qualifier with its values, or a word without a name."""

    name: str
    values: list[str]
    at: int
    text: str
    is_quoted: bool


def job_match(text: Any, now: int) -> JobMatch:
    """The conditions that a search text means; `now` is what ages such as `1h` count back from, in microseconds.

    Raises Refused (INVALID_ARGUMENT) that names what is wrong and where.
    """
    if not isinstance(text, str) or len(text) > JOB_SEARCH_LENGTH:
        raise _refused(f"a search is a text of at most {JOB_SEARCH_LENGTH} characters; make it shorter", 1)
    if (problem := text_problem(text, "a search")) is not None:
        raise _refused(problem, 1)
    found: dict[str, Any] = {}
    for part in _parts(text):
        if not part.name:
            _take_word(found, part)
            continue
        qualifier = QUALIFIERS.get(part.name)
        if qualifier is None:
            words = f"there is no qualifier {part.name!r}, only {', '.join(QUALIFIERS)}; quote words that have a colon"
            raise _wrong(part, words)
        field, read = qualifier
        if field in found and field != "errors":
            raise _wrong(part, f"{part.name} was given before; separate several values by commas")
        if len(part.values) > MOST_VALUES:
            raise _wrong(part, f"{part.name} takes at most {MOST_VALUES} values")
        if field == "errors":
            _add_error(found, part, *read(part, now))
        else:
            found[field] = read(part, now)
    return JobMatch(**found)


def _parts(text: str) -> list[_Part]:
    """The parts of the text, separated by blanks. Quotes keep a value together; in quotes, a backslash escapes the next
    character."""
    parts: list[_Part] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        begin = at
        named = _NAME.match(text, at)
        at = begin if named is None else named.end()
        values, is_quoted = [""], False
        while at < len(text) and not text[at].isspace():
            if text[at] == '"':
                quoted, at = _quoted(text, at)
                values[-1] += quoted
                is_quoted = True
            elif text[at] == "," and named is not None:
                values.append("")
                at += 1
            else:
                values[-1] += text[at]
                at += 1
        name = "" if named is None else named[0][:-1].lower()
        parts.append(_Part(name, values, begin + 1, text[begin:at], is_quoted))
        if "" in values:
            raise _wrong(parts[-1], "a value is missing" if named is not None else "nothing is in the quotes")
    return parts


def _quoted(text: str, begin: int) -> tuple[str, int]:
    """The content of the quotes that open at `begin`, and where the text goes on after them."""
    value, at = "", begin + 1
    while at < len(text) and text[at] != '"':
        at += text[at] == "\\" and at + 1 < len(text)
        value += text[at]
        at += 1
    if at == len(text):
        raise _refused(f"the quote that opens at {begin + 1} is not closed", begin + 1)
    return value, at + 1


def _take_word(found: dict[str, Any], part: _Part) -> None:
    """Adds a word without a name: the id of a job, or a part of its error."""
    [value] = part.values
    job_id = None if part.is_quoted else _uuid(value)
    if job_id is not None:
        found["ids"] = tuple(dict.fromkeys((*found.get("ids", ()), job_id)))
    else:
        _add_error(found, part, lowered(value))


def _add_error(found: dict[str, Any], part: _Part, text: str) -> None:
    found["errors"] = tuple(dict.fromkeys((*found.get("errors", ()), text)))
    if len(found["errors"]) > MOST_WORDS:
        raise _wrong(
            part, f"a search takes at most {MOST_WORDS} parts of errors; put words that follow each other in quotes"
        )


def _names(part: _Part, _now: int) -> tuple[str, ...]:
    for value in part.values:
        if len(value) > NAME_LENGTH:
            raise _wrong(part, f"a {part.name} has at most {NAME_LENGTH} characters")
    return tuple(dict.fromkeys(part.values))


def _states(part: _Part, _now: int) -> tuple[str, ...]:
    for value in part.values:
        if value not in STATES:
            raise _wrong(part, f"{value!r} is no state; there are {', '.join(STATES)}")
    return tuple(dict.fromkeys(part.values))


def _ids(part: _Part, _now: int) -> tuple[str, ...]:
    ids = {value: _uuid(value) for value in part.values}
    for value, found in ids.items():
        if found is None:
            raise _wrong(part, f"{value[:80]!r} is no id; an id is a UUID")
    return tuple(dict.fromkeys(str(found) for found in ids.values()))


def _texts(part: _Part, _now: int) -> tuple[str, ...]:
    return (lowered(_one(part)),)


def _flag(part: _Part, _now: int) -> bool:
    value = _one(part).lower()
    if value not in ("yes", "no"):
        raise _wrong(part, f"{part.name} is yes or no")
    return value == "yes"


def _moment(part: _Part, now: int) -> str:
    """The least id of the time that the part names."""
    value = _one(part)
    if (age := _AGE.fullmatch(value)) is not None:
        back = timedelta(**{_UNITS[age[2]]: int(age[1])}) // timedelta(microseconds=1)
        return first_id_at(now - back)
    try:
        return first_id_at(instant(datetime.fromisoformat(value)))
    except (ValueError, OverflowError):
        words = "a time is an age (30s, 5m, 1h, 2d, 1w) or a date such as 2026-11-16 or 2026-11-16T10:00 (UTC)"
        raise _wrong(part, words) from None


def _one(part: _Part) -> str:
    if len(part.values) > 1:
        raise _wrong(part, f"{part.name} takes one value; put a comma in quotes")
    return part.values[0]


def _uuid(value: str) -> str | None:
    try:
        return str(uuid.UUID(value)) if re.fullmatch("[0-9A-Fa-f-]{32,36}", value) else None
    except ValueError:
        return None


def _wrong(part: _Part, why: str) -> Refused:
    shown = part.text if len(part.text) <= 80 else f"{part.text[:80]}…"
    return _refused(f'"{shown}" at {part.at}: {why}', part.at)


def _refused(words: str, at: int) -> Refused:
    return Refused.of(Refusal("INVALID_ARGUMENT", f"{words}.", details={"position": at}))


QUALIFIERS: Final[dict[str, tuple[str, Callable[[_Part, int], Any]]]] = {
    "tool": ("tools", _names),
    "state": ("statuses", _states),
    "account": ("accounts", _names),
    "plan": ("plans", _names),
    "pool": ("pools", _names),
    "session": ("sessions", _names),
    "batch": ("batches", _ids),
    "key": ("keys", _ids),
    "correlation": ("correlation_ids", _names),
    "since": ("since_id", _moment),
    "until": ("until_id", _moment),
    "error": ("errors", _texts),
    "dead": ("is_dead", _flag),
    "stuck": ("is_stuck", _flag),
}
"""Each qualifier, the field of `JobMatch` that it fills, and how its values are read."""
