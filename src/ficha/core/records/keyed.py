"""What every record of a rare kind is. A kind is in the file of its noun; `AnyKeyed` names them all."""

from __future__ import annotations

from typing import ClassVar

from .base import Record


class Keyed(Record, frozen=True):
    """The base of records of rare kinds. Each is found by its first field, which is text; stores load, lock, write and
    delete all of these kinds alike.

    belongs_to: the field with the id of the account that a record belongs to; None if the kind is shared by all.
    is_in_every_part: for a shared kind, whether every part of the state (`dataset.py`) has its records, or the first
        part only.
    """

    belongs_to: ClassVar[str | None] = None
    is_in_every_part: ClassVar[bool] = True

    @property
    def name_in_state(self) -> KeyedName:
        return type(self).__name__, getattr(self, self.__struct_fields__[0])


KeyedName = tuple[str, str]
"""The name of a kind of keyed record, and its key."""
