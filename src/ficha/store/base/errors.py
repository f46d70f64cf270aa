"""What a store raises."""

from __future__ import annotations

from typing import ClassVar, Final

from .store import Committed

NOT_SHARED: Final = (
    "a call takes part in your own transaction (connection=…) only on PostgreSQL; in tests, "
    "ficha.testing.FakeTransaction stands for one"
)


class StoreError(Exception):
    """The database refused or cannot be used as it is; the message says what to do. Nothing was written.

    says: what anybody may be told. The message itself may name hosts, files and settings, which are for operators.
    """

    says: ClassVar[str] = "the database cannot be used as it is"


class Transient(StoreError):
    """The transaction was rolled back by a conflict (deadlock, serialization, lock time-out): run it again."""

    says = "another transaction holds rows that this call needs"


class LockHeld(Transient):
    """Another transaction held a lock for too long."""


class SchemaChanged(Transient):
    """Columns were added or dropped while this process was using their tables."""


class Unavailable(StoreError):
    """The database cannot be reached or written now. Nothing was written."""

    says = "the database cannot be reached now"


class DiskFull(Unavailable):
    """The database answers that its disk is full. Nothing was written."""

    says = "the database's disk is full"


class DiskFailed(Unavailable):
    """The database answers that its disk failed. Nothing was written."""

    says = "the database's disk failed"


class ReadOnly(Unavailable):
    """The database answers that it takes no writes. Nothing was written."""

    says = "the database is read-only"


class ClockDoubted(Unavailable):
    """This process goes by its own clock, which may be wrong (see `core/clock_check.py`). Nothing was written."""

    says = "the clock may be wrong"


class CommitUnknown(StoreError):
    """The connection was lost while committing. Ask `committed` before doing anything else.

    attempt: what was written, if it was committed; None if that is not known.
    """

    says = "the connection to the database was lost while committing"

    def __init__(self, message: str, attempt: Committed | None = None) -> None:
        super().__init__(message)
        self.attempt = attempt


class SchemaMismatch(StoreError):
    """The database's schema is not the one that this release works with."""

    says = "the database's schema is not the one that this release works with; an operator has to migrate it"
