"""JSON as bodies may have it: without what parsers disagree about, read in a time that the text's size bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from .. import validation as arg
from .problems import EdgeError

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""Surrogates come as escapes only: as bytes they are not UTF-8."""


def strict_json(text: bytes) -> Any:
    """Parses JSON: no repeated keys, no NaN, no lone surrogates, no endless nesting or numbers."""
    words = utf8(text)
    with telling_errors():
        value = DECODER.decode(words)
        refuse_surrogates(value, words)
    return value


def utf8(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise EdgeError("INVALID_JSON", "the body is not UTF-8") from None


@contextmanager
def telling_errors() -> Iterator[None]:
    """Turns the parser's errors into answers."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise EdgeError(
            "INVALID_JSON", f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise EdgeError("INVALID_JSON", "the body is nested too deep") from None
    except ValueError as error:  # A number of thousands of digits, or one of the two below.
        raise EdgeError("INVALID_JSON", f"the body is not acceptable JSON: {error}") from None


def refuse_surrogates(value: Any, text: str) -> None:
    """Refuses half of a surrogate pair, which no database stores, wherever in the text it is."""
    if _SURROGATE.search(text) is None:
        return
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        raise arg.invalid("the body holds a lone surrogate, which is not Unicode text") from None
    except OverflowError:
        # An integer that is too large comes first; the check of its field refuses it.
        return


def _no_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        # `add` returns None, so this finds the first name that was there before, in one pass.
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise repeated_key(repeated)
    return members


def repeated_key(name: str) -> ValueError:
    return ValueError(f"the key {name[:80]!r} is repeated")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    """The same as `float`. Other threads can run during a function written in Python; during the parser's own they
    cannot."""
    return float(text)


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_no_repeated_keys, parse_constant=_refuse_constant, parse_float=_float
)
