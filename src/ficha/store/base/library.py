"""The question for an account's completed work."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...core.records import Job
from .query import Query

CLOCKS_APART: Final = 3_600_000_000
"""A search by date finds everything as long as the clocks of the submitting machines and of the database differ by no
more than this, in microseconds."""


class LibraryPart(Struct, frozen=True):
    """What was found, and the id and the time of the job where the search stopped; None if it came to the end."""

    jobs: list[Job]
    stopped: tuple[str, int] | None = None


class ListLibrary(Query[LibraryPart], frozen=True):
    """Completed work that was not removed, in the order of `ListJobs` and without the texts, all conditions together.

    since_at, until_at: only what was submitted at or after the one and before the other.
    search: only what has this in the text of its payload; the case of the letters A to Z does not matter.
    searched: how many of the account's jobs are looked at, at most.
    """

    account_id: str
    tool: str | None = None
    since_at: int | None = None
    until_at: int | None = None
    search: str | None = None
    before: str | None = None
    limit: int = 50
    searched: int = 1_000
