"""What may be a payload, a result, or the data of a checkpoint: plain JSON within limits that both databases can store.

The resulting text is canonical (keys sorted, no spaces), so that equal values have equal fingerprints. It is stored and
sent as it is; whoever needs its value reads it with `read_json`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, final

import msgspec

from .outcomes import Refusal

MAX_INTEGER: Final = 2**53 - 1

_NESTING = (dict, list, tuple)  # (isinstance is faster with it than with a union type.)
_encoder = msgspec.json.Encoder(order="sorted")


@final
class CheckedJson(Mapping[str, Any]):
    """JSON that was checked and made canonical where it was read: off the event loop, since a large value takes long.

    text: the canonical text; empty if there is a problem.
    problem: what is wrong with it, as words that follow its name.
    An object reads as a mapping; with a problem, as an empty one. The text is parsed at the first access.
    """

    __slots__ = ("_members", "problem", "text")

    def __init__(self, value: Any, max_depth: int) -> None:
        self.problem: Final = _problem(value, max_depth)
        self.text: Final = b"" if self.problem is not None else _encoder.encode(value)
        self._members: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def _read(self) -> dict[str, Any]:
        if self._members is None:
            self._members = read_json(self.text) if self.problem is None else {}
        return self._members


def canonical(value: Any, *, what: str, max_bytes: int, max_depth: int) -> str | Refusal:
    """The value as JSON text, or why it is refused; `what` names it in the message."""
    is_checked = type(value) is CheckedJson  # (isinstance is slow with an abstract class.)
    problem = value.problem if is_checked else _problem(value, max_depth)
    if problem is not None:
        return Refusal("INVALID_PAYLOAD", f"{what} {problem}; nothing was changed.")
    text: bytes = value.text if is_checked else _encoder.encode(value)
    if len(text) > max_bytes:
        return Refusal(
            "TOO_LARGE",
            f"{what} is {len(text)} bytes of JSON, more than the {max_bytes} allowed; nothing was changed. Store large "
            "data elsewhere and pass its address.",
            details={"bytes": len(text), "limit": max_bytes},
        )
    return text.decode()


def read_json(text: str | bytes | msgspec.Raw) -> Any:
    """The value of stored JSON.

    The parser of Python's own library: its time grows with the text alone. msgspec takes a hundred times as long for
    a number such as 1e308, which anybody may have stored.
    """
    return json.loads(text if isinstance(text, str) else bytes(text))


Dedupe = bool | Literal["global"]
"""Whether equal work is done once: that of each account by itself, or "global", that of all accounts together."""


def content_hash(tool: str, text: str, account_id: str, dedupe: Dedupe) -> str:
    """Returns the hash that identifies equal work: of the tool, the canonical payload, and the account unless all
    accounts share results. No other account can make a hash with this account in it, so none gets another's result or
    learns that there is one."""
    return hashlib.sha256(_encoder.encode((None if dedupe == "global" else account_id, tool, text))).hexdigest()


def _problem(value: Any, depth: int) -> str | None:
    """Returns what is wrong with a value, as words that follow its name; None if nothing is."""
    # The most frequent types come first; a bool passes as an int.
    if isinstance(value, str):
        return _text_problem(value)
    if value is None:
        return None
    if isinstance(value, int):
        if -MAX_INTEGER <= value <= MAX_INTEGER:
            return None
        return f"holds the integer {_short(value)}, beyond ±(2^53-1): send it as a string"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"holds {value}, which JSON does not have: send null or text"
    if not isinstance(value, _NESTING):
        return f"holds a {type(value).__name__}, which is not JSON"
    if depth == 0:
        return "is nested too deep"
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"has the key {_short(key)}, which is not text"
            if (problem := _text_problem(key)) is not None:
                return f"has a key that {problem}"
    for item in value.values() if isinstance(value, dict) else value:
        if (problem := _problem(item, depth - 1)) is not None:
            return problem
    return None


def text_problem(text: str, where: str) -> str | None:
    """Returns why a text cannot be stored in both databases; None if it can."""
    problem = _text_problem(text)
    return None if problem is None else f"{where} {problem}"


def _text_problem(text: str) -> str | None:
    if "\x00" in text:
        return "holds a NUL character, which cannot be stored"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "holds a lone surrogate, which is not Unicode text"
    return None


def _short(value: Any) -> str:
    text = hex(value) if isinstance(value, int) else repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
