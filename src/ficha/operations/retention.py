"""Pruning by age, and erasing accounts. This module finds what is due, page by page; the rules judge it again.

A page of jobs is read without locks. What is due of the jobs is removed in short transactions, and only then does the
walk move on: if the process is killed in between, the next walk finds the same jobs again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Final, TypeVar

from msgspec import Raw, Struct, field

from .. import validation as arg
from ..core import commands as c
from ..core.outcomes import ClosedAccount, FileChanged, Finished, Pruned, Removal, RetentionMoved, RowsErased
from ..core.payload import read_json
from ..core.records import Job, RetentionCursor
from ..core.retention import LAG, concerns, due, rules_name, walked_ages
from ..engine.views import Erased, PruneCount, PruneReport
from ..ids import first_id_at
from ..prune_export import ExportedJob, PruneExport
from ..store.base import (
    GetAccount,
    GetFiles,
    GetHistory,
    GetJobs,
    GetRetention,
    ListFiles,
    ListFuller,
    ListLinkedFiles,
    ListOldJobs,
    ListRowsLeft,
)
from ..tools import PayloadMismatch
from .base import answer
from .files import IDS_SEARCHED, ids_in
from .library import MOST_FILES, LibraryOperations
from .webhooks import WebhookOperations

T = TypeVar("T")

log = logging.getLogger("ficha.store")

PAGE: Final = 100
"""Jobs that are scanned and removed at a time."""
COUNTED: Final = 1_000
"""Jobs that are counted at a time, without their texts."""
WITH_TEXTS: Final = 10
"""Jobs whose texts, which may be large, are in memory at a time."""
TRIES: Final = 3
"""How often a page is removed together with its batches while their accounts submit more; after that without them."""
EVENTS: Final = 100_000
"""The most events of one job that are exported."""
ERASE_REASON: Final = "the account was erased"
NOBODY: Final = ""


class _Counts(Struct):
    """What a prune has done so far."""

    jobs: Counter[tuple[Removal, str, str]] = field(default_factory=Counter)
    batches: int = 0
    files: int = 0

    def add(self, removals: dict[str, Removal], jobs: Sequence[Job]) -> None:
        self.jobs.update((removals[job.id], job.spec.tool, job.plan) for job in jobs if job.id in removals)

    def listed(self) -> list[PruneCount]:
        return [PruneCount(*name, count) for name, count in sorted(self.jobs.items())]


class _WalkedPage(Struct):
    """Jobs that may be due, and how far the walk is after them (None: the walk does not move)."""

    jobs: list[Job]
    walks: dict[str, str] | None = None


class RetentionOperations(LibraryOperations, WebhookOperations):
    async def prune(
        self,
        *,
        dry_run: bool = False,
        export: str | os.PathLike[str] | None = None,
        max_seconds: float | None = None,
    ) -> PruneReport:
        """Removes everything that is due by its age (see `Retention`); reports how much of what, by tool and plan.

        The processes of the application do the same by themselves, unless `Retention.by_itself` is off.

        dry_run: only counts. export: a folder; what is removed is first written to a file there. max_seconds: ends
            after this time; then `more` says whether something may be left.
        """
        if dry_run:
            counted, is_whole = await self._count_ahead(max_seconds)
            return PruneReport(jobs=counted.listed(), dry_run=True, more=not is_whole)
        done, sink = _Counts(), None if export is None else PruneExport(export)
        page_at = began_at = time.monotonic()
        more = False
        try:
            while await self._prune_page(done, sink):
                now = time.monotonic()
                more = max_seconds is not None and now - began_at >= max_seconds
                if more:
                    break
                # Pauses as long as the page took, which leaves half of the time to other work.
                await asyncio.sleep(now - page_at)
                page_at = time.monotonic()
        finally:
            if sink is not None:
                await asyncio.to_thread(sink.close)
        if done.files:
            await self.sweep_files()
        return PruneReport(
            jobs=done.listed(),
            batches=done.batches,
            files=done.files,
            deliveries=await self.forget_old_deliveries(),
            exported=None if sink is None else sink.path,
            more=more,
        )

    async def prune_step(self) -> bool:
        """Removes what is due of the next few jobs; returns whether there may be more. The leading process calls it."""
        return await self._prune_page(_Counts(), None)

    async def erase(self, account: str) -> Erased:
        """Removes a person's data for good: payloads, results, files, sessions, keys, webhooks and the jobs themselves,
        of any age. Jobs that have not ended are cancelled and refunded first. The lines of the ledger stay, without
        their reasons, and so does the account, closed: nothing new can be done with it.

        If a call was interrupted, call it again: it goes on and reaches the same result.
        """
        owner = arg.name(account, "an account")
        closed = await self._ask(c.CloseAccount(owner, await self._api_keys(owner)), ClosedAccount)
        while keys := await self._api_keys(owner):
            # These keys were created after the list was read and before the account was closed.
            await self._told(c.CloseAccount(owner, keys), ClosedAccount)
        cancelled = jobs = 0
        while found := await self.engine.store.read(ListOldJobs(account_id=owner, limit=PAGE)):
            for job in found:
                if job.finished_at is None:
                    ended = await self.engine.call(c.CancelJob(job.id, None, ERASE_REASON))
                    cancelled += isinstance(ended, Finished) and ended.changed
            done = _Counts()
            await self._remove(found, done, None, 0)
            jobs += sum(done.jobs.values())
        files = await self._erase_files(owner)
        rows = await self._erase_rows(owner)
        if not await self.engine.store.scrub():
            log.warning("what account %s had is still in the database's journal: other connections read it", owner)
        left = await self.engine.store.read(GetAccount(owner))
        balance = closed.account.balance if left is None else left.balance
        return Erased(owner, balance, cancelled, jobs, files, rows)

    async def _api_keys(self, owner: str) -> tuple[str, ...]:
        return tuple((await self.engine.store.read(ListRowsLeft(owner))).api_keys)

    async def _erase_files(self, owner: str) -> int:
        """Removes the account's files with their bytes; returns how many."""
        gone = 0
        while files := await self.engine.store.read(ListFiles(owner, limit=PAGE)):
            for file in files:
                # An upload under way is aborted.
                command = c.RemoveFile(file.id, owner, aborts=file.state == "uploading")
                outcome = await self.engine.call(command)
                gone += isinstance(outcome, FileChanged) and outcome.changed
        await self.sweep_files()
        return gone

    async def _erase_rows(self, owner: str) -> int:
        erased = number = 0
        while True:
            found = await self.engine.store.read(ListRowsLeft(owner, number))
            keys, entries = tuple(found.keys), tuple(found.entries)
            command = c.EraseRows(
                owner, keys, tuple(found.reservations), tuple(found.deliveries), entries, tuple(found.audit)
            )
            outcome = await self._told(command, RowsErased)
            erased += outcome.rows
            if not outcome.changed:
                return erased
            number = max(entries, default=number)

    async def _told(self, command: c.Command, expected: type[T]) -> T:
        """The answer to a command that is not an act by itself: it writes no audit line."""
        return answer(await self.engine.call(command), expected)

    # The walk

    async def _prune_page(self, done: _Counts, sink: PruneExport | None) -> bool:
        """Removes what is due of the next page of jobs; False at the end of the walk."""
        retention = self.engine.policy.retention
        if not walked_ages(retention):
            return False
        point = await self.engine.store.read(GetRetention(PAGE))
        page = await self._next_page(point.now, point.cursor, point.kept)
        if page is None:
            return False
        if page.jobs:
            await self._remove(page.jobs, done, sink, point.now)
        if page.walks is not None:
            turn = 0 if point.cursor is None else point.cursor.turn
            await self._told(c.MoveRetention(rules_name(retention), turn, page.walks), RetentionMoved)
        return True

    async def _next_page(self, now: int, cursor: RetentionCursor | None, kept: list[str]) -> _WalkedPage | None:
        """The next jobs to scan: first kept jobs that are due, then those that a walk reaches; None at the end."""
        retention = self.engine.policy.retention
        if kept:
            found = await self.engine.store.read(ListOldJobs(ids=tuple(kept)))
            there = {job.id for job in found}
            if gone := tuple(c.OldJob(job_id) for job_id in kept if job_id not in there):
                await self._told(c.PruneJobs(NOBODY, gone), Pruned)
            return _WalkedPage(found)
        walks = self._walks(cursor)
        for age in walked_ages(retention):
            if jobs := await self._walked(now, age, walks.get(str(age))):
                walks[str(age)] = jobs[-1].id
                return _WalkedPage([job for job in jobs if concerns(retention, job, age, now)], walks)
        return None

    def _walks(self, cursor: RetentionCursor | None) -> dict[str, str]:
        """By age, how far the walk has come under the present rules."""
        is_known = cursor is not None and cursor.rules == rules_name(self.engine.policy.retention)
        return {**cursor.walks} if cursor is not None and is_known else {}

    async def _walked(self, now: int, age: int, after: str | None, limit: int | None = None) -> list[Job]:
        bound = first_id_at(now - age - LAG)
        return await self.engine.store.read(ListOldJobs(after, bound, limit=limit or PAGE))

    async def _count_ahead(self, max_seconds: float | None) -> tuple[_Counts, bool]:
        """What `prune` would remove, and whether all of it was counted in time. No job is scanned twice: the walk of a
        longer age ends earlier, and the next one begins there."""
        retention, done = self.engine.policy.retention, _Counts()
        ends_at = None if max_seconds is None else time.monotonic() + max_seconds
        point = await self.engine.store.read(GetRetention(MOST_FILES))

        def count(jobs: Sequence[Job]) -> None:
            done.add({job.id: what for job in jobs if (what := due(retention, job, point.now))}, jobs)

        if point.kept:
            kept = await self.engine.store.read(ListOldJobs(ids=tuple(point.kept)))
            count(kept)
        walks, seen, reached = self._walks(point.cursor), {*point.kept}, ""
        for age in walked_ages(retention):
            after: str | None = max(walks.get(str(age), ""), reached) or None
            while jobs := await self._walked(point.now, age, after, COUNTED):
                count([job for job in jobs if job.id not in seen])
                after = jobs[-1].id
                if ends_at is not None and time.monotonic() >= ends_at:
                    return done, False
            reached = after or ""
        return done, True

    # The removal

    async def _remove(self, jobs: Sequence[Job], done: _Counts, sink: PruneExport | None, now: int) -> None:
        """Removes what is due of these jobs."""
        if sink is not None:
            await self._export(jobs, sink, now)
        for attempt in range(TRIES + 1):
            commands = await self._commands(jobs, with_batches=attempt < TRIES)
            outcomes = await asyncio.gather(*(self._told(command, Pruned) for command in commands))
            again: list[Job] = []
            for command, outcome in zip(commands, outcomes, strict=True):
                named = {old.id for old in command.jobs}
                mine = [job for job in jobs if job.id in named]
                done.add(outcome.removals, mine)
                done.batches += outcome.batches
                done.files += len(outcome.files)
                again += [] if outcome.changed else mine
            if not again:
                return
            jobs = again

    async def _commands(self, jobs: Sequence[Job], *, with_batches: bool) -> list[c.PruneJobs]:
        """The commands that remove what is due of these jobs, one for each account."""
        store, ids = self.engine.store, tuple(job.id for job in jobs)
        by_account: defaultdict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            by_account[job.account_id].append(job)
        batches = {job.batch_id: job.account_id for job in jobs if job.batch_id is not None and with_batches}
        # The counts of submits are read before the batches, so that a submit in between is noticed.
        submitted = {owner: await self._submitted(owner) for owner in dict.fromkeys(batches.values())}
        fuller = await store.read(ListFuller(tuple(batches), ids)) if batches else []
        made: defaultdict[str | None, list[str]] = defaultdict(list)
        for file in await store.read(ListLinkedFiles("job", ids, MOST_FILES)):
            if file.role == "result":
                made[file.job_id].append(file.id)
        named = await self._files_named(jobs)
        found = []
        for owner, mine in by_account.items():
            old = tuple(
                c.OldJob(
                    job.id,
                    tuple(made[job.id]),
                    named.get(job.id, ()),
                    None if job.spec.content_hash is None else (job.spec.tool, job.spec.content_hash),
                )
                for job in mine
            )
            emptied = tuple(one for one, whose in batches.items() if whose == owner and one not in fuller)
            found.append(c.PruneJobs(owner, old, emptied, submitted.get(owner, 0)))
        return found

    async def _submitted(self, owner: str) -> int:
        account = await self.engine.store.read(GetAccount(owner))
        return 0 if account is None else account.submitted

    async def _files_named(self, jobs: Sequence[Job]) -> dict[str, tuple[str, ...]]:
        """The existing files that the payloads of these jobs name, by job."""
        asked = [job.id for job in jobs if self._may_name_files(job)]
        named: dict[str, tuple[str, ...]] = {}
        for first in range(0, len(asked), WITH_TEXTS):
            for row in await self.engine.store.read(GetJobs(tuple(asked[first : first + WITH_TEXTS]))):
                named[row.job.id] = self._files_in(row.job, row.payload)
        ids = tuple(dict.fromkeys(file_id for found in named.values() for file_id in found))
        there = {file.id for file in await self.engine.store.read(GetFiles(ids))} if ids else set()
        return {job_id: tuple(one for one in found if one in there) for job_id, found in named.items()}

    def _may_name_files(self, job: Job) -> bool:
        tool = self.tools.get(job.spec.tool)
        has_payload = job.payload_removed_at is None and job.removed_at is None
        return has_payload and (tool is None or tool.payload.has_files)

    def _files_in(self, job: Job, payload: str) -> tuple[str, ...]:
        """The files that the tool finds in the payload; if it can no longer read it, every possible file id."""
        tool = self.tools.get(job.spec.tool)
        if tool is not None:
            with suppress(PayloadMismatch):
                return tool.files_named(payload)
        return tuple(dict.fromkeys(islice(ids_in(read_json(payload)), IDS_SEARCHED)))

    async def _export(self, jobs: Sequence[Job], sink: PruneExport, now: int) -> None:
        """Writes what is about to be removed to the export file."""
        retention = self.engine.policy.retention
        leaving = [(job, what) for job in jobs if (what := due(retention, job, now)) is not None]
        for first in range(0, len(leaving), WITH_TEXTS):
            lines = [await self._exported(job, what) for job, what in leaving[first : first + WITH_TEXTS]]
            await asyncio.to_thread(sink.write, [line for line in lines if line is not None], now)

    async def _exported(self, job: Job, what: Removal) -> ExportedJob | None:
        """The job with all that belongs to it; None if somebody else has removed it meanwhile."""
        view = await self.queries.job(job.id)
        if view is None:
            return None
        steps = {step.name: Raw(step.result.encode()) for step in await self.queries.steps(job.id)}
        return ExportedJob(what, view, steps, await self.engine.store.read(GetHistory(job.id, 0, EVENTS)))
