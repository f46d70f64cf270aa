"""Lists: whole, or a part at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from msgspec import Struct, json

T = TypeVar("T")

PAGE_BYTES: Final = 4_194_304
"""How many bytes of JSON a page has at most, unless the application says otherwise."""


class Page(Struct, Generic[T], frozen=True):
    """A part of a list. `next` is what to ask for to get the following part; None at the end.

    It may have fewer items than were asked for and still a `next`: its size in bytes is limited too.
    """

    items: list[T]
    next: str | None = None


class PageFiller(Generic[T]):
    """Collects the items of a page while they fit into `max_bytes` of JSON. The first one always does, so that a list
    can be read to its end."""

    def __init__(self, max_bytes: int) -> None:
        # Each item has a comma or the opening bracket before it, and the last one the closing bracket behind it.
        self._left_bytes = max_bytes - 1
        self._is_full = False
        self.items: list[T] = []

    def add(self, item: T) -> bool:
        """Adds the item if it fits; returns False if the page is full."""
        self._left_bytes -= len(json.encode(item)) + 1
        if self.items and self._left_bytes < 0:
            self._is_full = True
            return False
        self.items.append(item)
        return True

    def page(self, limit: int, cursor: Callable[[T], str]) -> Page[T]:
        """The page, with the cursor of its last item unless the list has ended."""
        goes_on = self._is_full or len(self.items) == limit
        return Page(self.items, cursor(self.items[-1]) if goes_on else None)


class Whole(Struct, Generic[T], frozen=True):
    """A list that is short enough to be sent whole."""

    items: list[T]
