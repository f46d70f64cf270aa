"""A file as its owner sees it, and where its bytes can be sent to or read from."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.records import File, FileRole, FileState
from .dates import moment, moment_if_any
from .jobs import JobView


class FileView(Struct, frozen=True, kw_only=True):
    """A file.

    state: `uploading`, `stored`, or `removed`. role: `input`, or `result` of a job. size: in bytes; while it is
        uploaded, the most that it may have. media_type: what its content is; empty until it is stored.
    digest: the SHA-256 of its bytes, in hexadecimal digits.
    job: the job that made it, or the first that used it. uses: how many jobs have used it.
    expires_at: when it is removed unless a job uses it before; None if it does not expire.
    """

    id: str
    account: str
    name: str
    state: FileState
    role: FileRole
    media_type: str
    size: int
    digest: str
    job: str | None
    uses: int
    reservation: str | None
    created_at: datetime
    expires_at: datetime | None


def file_view(file: File) -> FileView:
    return FileView(
        id=file.id,
        account=file.account_id,
        name=file.name,
        state=file.state,
        role=file.role,
        media_type=file.media_type,
        size=file.size,
        digest=file.digest,
        job=file.job_id,
        uses=file.uses,
        reservation=file.reservation_id,
        created_at=moment(file.created_at),
        expires_at=moment_if_any(file.expires_at),
    )


class UploadView(Struct, frozen=True, kw_only=True):
    """The file of an upload. If the upload has only begun, send the bytes straight to the storage: PUT them to `url`
    with exactly these `headers` before `expires_at`, then report that the upload is complete."""

    file: FileView
    url: str | None = None
    headers: dict[str, str] = {}
    expires_at: datetime | None = None


class FileLink(Struct, frozen=True):
    """A link from which anyone who has it can read a file until it expires."""

    url: str
    expires_at: datetime

    def __repr__(self) -> str:
        """Without the link: whoever has it can use it."""
        return f"FileLink(expires_at={self.expires_at!r})"


class LibraryItem(Struct, frozen=True):
    """A piece of completed work: the job, and its files, which it made or was the first to use."""

    job: JobView
    files: list[FileView]
