"""Files, and the library of completed work."""

from __future__ import annotations

from msgspec import Struct

from .base import Command


class FileRun(Struct, frozen=True, gc=False):
    """The run whose result a file is: a worker's, identified by the lease's `epoch`, or a provider's, identified by how
    many runs failed before it (`attempts`)."""

    job_id: str
    epoch: int | None = None
    attempts: int | None = None


class BeginFile(Command, frozen=True):
    """Sets room aside for a file before its bytes arrive: at least `least` of them, and at most `most` (None: as many
    as are allowed)."""

    file_id: str
    account_id: str
    name: str
    least: int = 0
    most: int | None = None
    reservation_id: str | None = None
    run: FileRun | None = None
    """None for an upload."""


class StoreFile(Command, frozen=True):
    """Records that a file's bytes have arrived and are stored: their actual number, their type and their digest."""

    file_id: str
    account_id: str
    size: int
    media_type: str
    digest: str
    run: FileRun | None = None


class RemoveFile(Command, frozen=True):
    """Removes a file; its bytes are deleted soon after. During an upload only the uploader removes it, after it stopped
    (`aborts`), and only if no other attempt has begun the same file: `expires_at` identifies the attempt.
    """

    file_id: str
    account_id: str
    aborts: bool = False
    expires_at: int | None = None


class ExpireFile(Command, frozen=True):
    """Does what is due for a file by now (see `core/files.py`), if anything is. `job_id`: of a result, its job."""

    file_id: str
    account_id: str
    job_id: str | None = None


class ForgetFile(Command, frozen=True):
    """Deletes the row of a removed file, once its bytes are deleted."""

    file_id: str


class RemoveWork(Command, frozen=True):
    """Removes a piece of completed work from its owner's library.

    files: the job's files, as a query found them. Files that other jobs have taken too stay.
    """

    account_id: str
    job_id: str
    files: tuple[str, ...] = ()
