"""Files, and the room that an account's files take."""

from __future__ import annotations

from typing import ClassVar, Literal

from .keyed import Keyed

FileState = Literal["uploading", "stored", "removed"]
FileRole = Literal["input", "result"]


class File(Keyed, frozen=True, tag=True):
    """A file of an account. Its bytes lie in the file storage, under its id."""

    belongs_to: ClassVar[str | None] = "account_id"

    id: str
    account_id: str
    name: str
    """What its owner calls it; never a path."""
    state: FileState
    role: FileRole
    created_at: int
    expires_at: int | None = None
    """When it is removed, if no job has taken it by then."""
    media_type: str = ""
    size: int = 0
    """Bytes; while it is uploaded, the most that it may have."""
    digest: str = ""
    job_id: str | None = None
    """The job that made it, or the first that took it."""
    uses: int = 0
    """How many jobs have taken it as an input."""
    reservation_id: str | None = None


class FileUsage(Keyed, frozen=True, tag=True):
    """How many files an account has that are not removed, and their bytes together."""

    belongs_to: ClassVar[str | None] = "account_id"

    account_id: str
    files: int = 0
    size: int = 0
