"""What every record is."""

from __future__ import annotations

from msgspec import Struct


class Record(Struct, frozen=True, gc=False):
    """The base of all records: immutable, compared by value. They hold no cycles and need no garbage collector."""
