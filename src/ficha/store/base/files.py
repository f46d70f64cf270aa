"""Questions about files."""

from __future__ import annotations

from typing import Literal

from ...core.records import File, FileRole, FileUsage
from .query import Query


class GetFiles(Query[list[File]], frozen=True):
    """The files with these ids that exist, in any state and in no particular order."""

    ids: tuple[str, ...]


class ListFiles(Query[list[File]], frozen=True):
    """Files that are not removed, newest first (by id, descending); `before` is the id before which the page starts."""

    account_id: str | None = None
    role: FileRole | None = None
    before: str | None = None
    limit: int = 50


class ListLinkedFiles(Query[list[File]], frozen=True):
    """Files that are not removed, by id, of these jobs (which made or first used them) or reservations."""

    link: Literal["job", "reservation"]
    ids: tuple[str, ...]
    limit: int = 1_000


class ListDueFiles(Query[list[File]], frozen=True):
    """Files that have expired by the database's clock, the longest expired first. The rule checks each again."""

    limit: int = 500


class GetFileUsage(Query[FileUsage], frozen=True):
    """How many files an account has, and their bytes; zeros for an account that does not exist."""

    account_id: str
