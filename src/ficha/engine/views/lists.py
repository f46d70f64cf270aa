"""Lists: whole, or a part at a time."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Page(Struct, Generic[T], frozen=True):
    """A part of a list. `next` is what to ask for to get the following part; None at the end."""

    items: list[T]
    next: str | None = None


class Whole(Struct, Generic[T], frozen=True):
    """A list that is short enough to be told at once."""

    items: list[T]
