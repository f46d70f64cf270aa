"""The library: an account's completed work, found again and removed."""

from __future__ import annotations

from typing import Final, Unpack

from .. import validation as arg
from ..core.commands import RemoveWork
from ..core.outcomes import WorkRemoved
from ..engine.views import LibraryItem, Page
from ..requests import LibraryFilter, library_query
from ..store.base import ListLinkedFiles
from .files import FileOperations

MOST_FILES: Final = 100_000
"""More files than any job has."""


class LibraryOperations(FileOperations):
    async def library(self, account: str, **asked: Unpack[LibraryFilter]) -> Page[LibraryItem]:
        """A page of an account's completed work, newest first; `after` is the `next` of the page before.

        At most `Limits.library_searched` jobs are scanned for one page, so a page may have fewer items than `limit`, or
        none, and still a `next`. Payloads, results and the data of checkpoints are omitted unless `include` names them.
        """
        query = library_query(account, asked, self.limits)
        return await self.queries.library(query, arg.job_texts(asked.get("include", ())))

    async def remove_work(self, job_id: str, *, account: str | None = None) -> WorkRemoved:
        """Removes the payload, result, steps and files of a completed job; with `account`, only if the job is theirs.
        The rest of the job and what was paid for it stay. A repeat changes nothing."""
        named = arg.job_id(job_id)
        owner = (await self.part(named)).account if account is None else arg.name(account, "an account")
        files = await self.engine.store.read(ListLinkedFiles("job", (named,), MOST_FILES))
        command = RemoveWork(owner, named, tuple(file.id for file in files))
        removed = await self._ask(command, WorkRemoved)
        for file in (await self.queries.files_by_id(removed.files)).values():
            await self._delete_bytes(file)
        return removed
