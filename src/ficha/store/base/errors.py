"""What a store raises."""

from __future__ import annotations

from typing import Final

from .store import Committed

NOT_SHARED: Final = (
    "a call takes part in your own transaction (connection=…) only on PostgreSQL; in tests, "
    "ficha.testing.FakeTransaction stands for one"
)


class StoreError(Exception):
    """The database refused or cannot be used as it is; the message says what to do. Nothing was written."""


class Transient(StoreError):
    """The transaction was rolled back by a conflict (deadlock, serialization, lock time-out): run it again."""


class SchemaChanged(Transient):
    """Columns were added or dropped while this process was using their tables."""


class Unavailable(StoreError):
    """The database cannot be reached or written now (gone, read-only, full). Nothing was written."""


class CommitUnknown(StoreError):
    """The connection was lost while committing. Ask `committed` before doing anything else.

    attempt: what was written, if it was committed; None if that is not known.
    """

    def __init__(self, message: str, attempt: Committed | None = None) -> None:
        super().__init__(message)
        self.attempt = attempt


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this release works with."""
