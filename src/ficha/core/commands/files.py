"""Files, and the library of completed work."""

from __future__ import annotations

from msgspec import Struct

from .base import Command


class FileRun(Struct, frozen=True, gc=False):
    """The run that makes a file as a result: one that holds its lease (`epoch`), or one that a provider works on, which
    is known by how many runs failed before it (`attempts`)."""

    job_id: str
    epoch: int | None = None
    attempts: int | None = None


class BeginFile(Command, frozen=True):
    """Takes the room for a file before its bytes come: at least `least` of them, and at most `most` (None: as many as
    are allowed)."""

    file_id: str
    account_id: str
    name: str
    least: int = 0
    most: int | None = None
    reservation_id: str | None = None
    run: FileRun | None = None
    """None for an upload."""


class StoreFile(Command, frozen=True):
    """The bytes have come, and are kept under the file's id: how many they really are, of which type, and their
    digest."""

    file_id: str
    account_id: str
    size: int
    media_type: str
    digest: str
    run: FileRun | None = None


class RemoveFile(Command, frozen=True):
    """Removes a file; its bytes are deleted soon after. One that is being uploaded is only removed by its uploader, who
    has stopped (`aborts`), and only if nobody else has begun it too: `expires_at` is that of this attempt.
    """

    file_id: str
    account_id: str
    aborts: bool = False
    expires_at: int | None = None


class ExpireFile(Command, frozen=True):
    """Does what is due for a file by now (see `core/files.py`), if anything is. `job_id` is that of a result."""

    file_id: str
    account_id: str
    job_id: str | None = None


class ForgetFile(Command, frozen=True):
    """Deletes the row of a removed file, once its bytes are deleted."""

    file_id: str


class RemoveWork(Command, frozen=True):
    """Removes a piece of completed work from its owner's library.

    files: those of the job, as they were found. Those that other jobs have taken too stay.
    """

    account_id: str
    job_id: str
    files: tuple[str, ...] = ()
