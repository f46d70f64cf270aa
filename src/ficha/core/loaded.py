"""Rows that a snapshot loaded. Reading one that was not loaded is a bug: `needs` must name it."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class NotLoaded(AssertionError):
    """A rule read something that `needs` does not name for its command."""


class Loaded(dict[K, V]):
    """Rows by key, as loaded and as changed since."""

    def __missing__(self, key: K) -> V:
        raise NotLoaded(f"{key!r} was not loaded: `needs` must name it")
