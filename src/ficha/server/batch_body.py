"""Reads the body of a batch item by item. Read as a whole, it would be one long call of the parser, which blocks every
thread, and all its values at once would take twenty times the memory of its text."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from .. import validation as arg
from ..core.outcomes import Refusal
from ..errors import Refused
from ..requests import BatchItem, BatchRequest
from ..validation import Limits
from .body_values import converted, with_checked_json
from .strict_json import DECODER, refuse_surrogates, repeated_key, telling_errors

SLICE_CHARACTERS: Final = 524_288
"""How many characters a slice of work reads, before the item that ends it."""
CUT_CHARACTERS: Final = 16
"""A value or an error that ends this close to a window's end is not trusted: the window may have cut the text there."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(BatchRequest))


def read_batch(text: str, limits: Limits, item_characters: int) -> Generator[None, None, BatchRequest]:
    """Reads the batch, in slices of work. Its payloads are checked and canonical.

    item_characters: the most characters of one item.
    """
    with telling_errors():
        values = _Values(text, item_characters)
        at = values.skip(0)
        if text[at : at + 1] != "{":
            return converted(values.value(at)[0], BatchRequest)
        at = values.skip(at + 1)
        members: dict[str, Any] = {}
        items: list[BatchItem] = []
        while not values.is_at("}", at):
            name, at = values.name(at)
            if name in members:
                raise repeated_key(name)
            if name not in _FIELDS:
                raise arg.invalid(f"the body does not fit: Object contains unknown field `{name[:80]}`")
            if name == "items" and values.is_at("[", at):
                at = yield from _read_items(values, at, items, limits)
                # The items are checked already; a placeholder stands for them.
                members[name] = [{"tool": "_"}] if items else []
            else:
                members[name], at = values.value(at)
            at = values.next_one(at, "}")
        values.expect_end(at + 1)
    batch = converted(members, BatchRequest)
    return replace(batch, items=items) if items else batch


def _read_items(values: _Values, at: int, items: list[BatchItem], limits: Limits) -> Generator[None, None, int]:
    """Reads the list that begins at `at` into `items`; returns where it ends."""
    sliced_at = at = values.skip(at + 1)
    while not values.is_at("]", at):
        if len(items) == limits.batch_jobs:
            words = f"more than {limits.batch_jobs} jobs at once are not allowed; nothing was changed."
            raise Refused.of(Refusal("TOO_LARGE", words))
        found, at = values.value(at)
        items.append(with_checked_json(converted(found, BatchItem, f".items[{len(items)}]"), limits))
        at = values.next_one(at, "]")
        if at - sliced_at > SLICE_CHARACTERS:
            sliced_at = at
            yield
    return at + 1


class _Values:
    """The values of a text, one by one. The parser sees only a window of it, so that no value keeps it busy for
    long."""

    def __init__(self, text: str, most: int) -> None:
        self.text = text
        self._most = most
        self._show(0)

    def value(self, at: int) -> tuple[Any, int]:
        """The value that begins at `at`, and where it ends."""
        try:
            found, end = DECODER.raw_decode(self._window, at - self._begin)
            if not self._is_cut(end):
                refuse_surrogates(found, self._window[at - self._begin : end])
                return found, self._begin + end
        except json.JSONDecodeError as error:
            if not self._is_cut(error.pos) and not (self._goes_on and error.msg.startswith("Unterminated string")):
                raise json.JSONDecodeError(error.msg, self.text, self._begin + error.pos) from None
        if at == self._begin:
            words = f"an item is longer than {self._most} characters; nothing was changed. Send less at a time."
            raise Refused.of(Refusal("TOO_LARGE", words))
        self._show(at)
        return self.value(at)

    def _show(self, at: int) -> None:
        self._begin, self._window = at, self.text[at : at + self._most + CUT_CHARACTERS]

    @property
    def _goes_on(self) -> bool:
        return self._begin + len(self._window) < len(self.text)

    def _is_cut(self, end: int) -> bool:
        return self._goes_on and end > len(self._window) - CUT_CHARACTERS

    def name(self, at: int) -> tuple[str, int]:
        """The member's name that begins at `at`, and where its value begins."""
        if not self.is_at('"', at):
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self.text, at)
        name, at = self.value(at)
        at = self.skip(at)
        if not self.is_at(":", at):
            raise json.JSONDecodeError("Expecting ':' delimiter", self.text, at)
        return name, self.skip(at + 1)

    def next_one(self, at: int, closing: str) -> int:
        """Where the next value of the list or object begins, or where the list or object ends."""
        at = self.skip(at)
        if self.is_at(closing, at):
            return at
        if not self.is_at(",", at):
            raise json.JSONDecodeError("Expecting ',' delimiter", self.text, at)
        at = self.skip(at + 1)
        if self.is_at(closing, at):
            raise json.JSONDecodeError("Illegal trailing comma before end of list or object", self.text, at)
        return at

    def expect_end(self, at: int) -> None:
        if (at := self.skip(at)) < len(self.text):
            raise json.JSONDecodeError("Extra data", self.text, at)

    def skip(self, at: int) -> int:
        """The position after any white space at `at`."""
        found = _SPACE.match(self.text, at)
        assert found is not None
        return found.end()

    def is_at(self, character: str, at: int) -> bool:
        return self.text.startswith(character, at)
