"""The read side: questions about jobs, accounts and the queue, answered from committed rows.

Values that are only shown, such as the time waited so far, use this machine's clock; decisions use the store's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Final, Literal, TypeVar

from ..core.alerts import LATE_MS
from ..core.invariants import violations
from ..core.policy import DAY
from ..core.pools import WaitReason, why_not_yet, why_waiting
from ..core.records import (
    Account,
    DeliveryState,
    File,
    FileUsage,
    Job,
    Pool,
    Ready,
    ReservationState,
    Rollup,
    Status,
    Step,
)
from ..core.split_requests import latest_tries
from ..store import base as q
from . import views as v
from .event_tail import account_events, first_place, job_events
from .operator_queries import OperatorQueries
from .position_watch import PositionWatch
from .positions import Placed, Positions, QueueStanding

T = TypeVar("T")

OVERVIEW_S: Final = 1.0
"""How long an overview is cached."""
TRIES: Final = 5
"""How many times an overview's figures are read while others add some up meanwhile."""
AHEAD: Final = 5_000
"""How many commits that are not added up yet an overview adds itself, at most."""
WORKERS: Final = DAY
"""An overview leaves out workers that were not seen for longer."""
POOLS_S: Final = 0.1
"""How long pools and their occupied slots are cached."""
FILES_OF: Final = 50
"""For how many jobs of a library files are read at once."""
FIRST_LOOK_S: Final = 0.05
"""How long an operator's list waits for the process's first scan of the queue."""
TEXTS_AT_ONCE: Final = 8
"""For how many jobs payloads and results are read at once: a page may be full after the first of them."""


class Queries:
    """Queries the reader (an engine or a store), and makes views of its answers.

    page_bytes: the size at which a page of a list ends.
    """

    def __init__(self, reader: q.Reader, positions: Positions, page_bytes: int = v.PAGE_BYTES) -> None:
        self._reader = reader
        self._page_bytes = page_bytes
        self._positions = positions
        self._pools: dict[str, q.PoolCounts] = {}
        self._pools_at = float("-inf")
        self._asking: asyncio.Task[dict[str, q.PoolCounts]] | None = None
        self._overviews: dict[v.OverviewRange, tuple[float, asyncio.Future[v.Overview]]] = {}
        self.watch = PositionWatch(self.waits)
        self.operator = OperatorQueries(reader, self._listed, page_bytes)

    async def job(self, job_id: str) -> v.JobView | None:
        rows = await self._reader.read(q.GetJobs((job_id,)))
        return await self._view(rows[0]) if rows else None

    async def whole_job(self, job_id: str) -> v.JobView | None:
        """The same, but where the id is that of a split request or of one of its parts, the request."""
        rows = await self._whole(job_id)
        if not rows:
            return None
        if rows[0].job.spec.part_of is None:
            return await self._view(rows[0])
        return v.request_view([(row.job, await self._view(row)) for row in rows])

    async def jobs_of(self, job_id: str) -> list[Job]:
        """The job with this id, or the parts of the split request, each by its latest try."""
        return latest_tries(row.job for row in await self._whole(job_id))

    async def _whole(self, job_id: str) -> list[q.JobRow]:
        """The row of the job, or all rows of the split request."""
        rows = await self._reader.read(q.GetJobs((job_id,)))
        request_id = rows[0].job.spec.part_of if rows else job_id
        return rows if request_id is None else await self._reader.read(q.GetParts(request_id))

    async def job_by_ref(self, ref: str, tool: str | None) -> v.JobView | None:
        """The job that a provider last accepted under this reference."""
        accepted = await self._reader.read(q.ListAccepted(ref))
        rows = {
            row.job.id: row for row in await self._reader.read(q.GetJobs(tuple(event.job_id for event in accepted)))
        }
        for event in accepted:
            row = rows[event.job_id]
            if tool in (None, row.job.spec.tool):
                return await self._view(row)
        return None

    async def jobs_in_full(self, job_ids: list[str]) -> list[v.JobView]:
        """Jobs with all their stored texts, in this order; a missing job is left out."""
        rows = {row.job.id: row for row in await self._reader.read(q.GetJobs(tuple(job_ids)))}
        return [await self._view(rows[job_id]) for job_id in job_ids if job_id in rows]

    async def jobs(self, query: q.ListJobs, include: Collection[v.JobText] = ()) -> v.Page[v.JobView]:
        """A page of jobs, newest first, with those of their stored texts that `include` names."""
        found = await self._reader.read(query)
        filler = v.PageFiller[v.JobView](self._page_bytes)
        async for row in self._with_texts(found) if include else _without_texts(found):
            if not filler.add(await self._view(row, include)):
                break
        return filler.page(query.limit, lambda job: job.id)

    async def library(self, query: q.ListLibrary, include: Collection[v.JobText] = ()) -> v.Page[v.LibraryItem]:
        """A page of completed work, newest first."""
        part = await self._reader.read(query)
        filler = v.PageFiller[v.LibraryItem](self._page_bytes)
        for start in range(0, len(part.jobs), FILES_OF):
            jobs = part.jobs[start : start + FILES_OF]
            files = await self.job_files([job.id for job in jobs])
            async for row in self._with_texts(jobs) if include else _without_texts(jobs):
                if not filler.add(v.LibraryItem(await self._view(row, include), files.get(row.job.id, []))):
                    return filler.page(query.limit, lambda item: item.job.id)
        return v.Page(filler.items, _goes_on(query, part))

    async def _with_texts(self, jobs: list[Job]) -> AsyncIterator[q.JobRow]:
        """The jobs of a list as they are now, a few at a time: all texts of a page could be gigabytes."""
        for start in range(0, len(jobs), TEXTS_AT_ONCE):
            ids = tuple(job.id for job in jobs[start : start + TEXTS_AT_ONCE])
            rows = {row.job.id: row for row in await self._reader.read(q.GetJobs(ids))}
            for job_id in ids:
                yield rows[job_id]

    def _page(self, items: Iterable[T], limit: int, cursor: Callable[[T], str]) -> v.Page[T]:
        filler = v.PageFiller[T](self._page_bytes)
        for item in items:
            if not filler.add(item):
                break
        return filler.page(limit, cursor)

    async def standing(self, job_id: str) -> QueueStanding | None:
        """Where a job stands, by the shared index, so cheap that a client may ask every few seconds."""
        return await self._positions.of(job_id)

    async def waits(self, job_ids: Iterable[str]) -> dict[str, v.Wait]:
        """How each of many watched jobs waits; asked together, they cost no query each. A job that no longer waits for
        its turn is left out."""
        placed = await self._positions.known(job_ids)
        slots = await self._slots() if placed else {}
        return {job_id: _wait(one, slots.get(one.pool)) for job_id, one in placed.items()}

    async def _view(self, row: q.JobRow, include: Collection[v.JobText] = v.STORED_TEXTS) -> v.JobView:
        if row.job.status != "queued":
            return v.job_view(row, q.wall_clock(), include=include)
        standing = await self._positions.of_job(row.job)
        return v.job_view(row, q.wall_clock(), standing, await self._why_waiting(row.job), include=include)

    async def _listed(self, jobs: list[Job]) -> AsyncIterator[v.JobView]:
        """Jobs as an operator's lists have them. The first scan of a long queue takes longer than such a list may take:
        until it is over, jobs have no position."""
        if any(job.status == "queued" for job in jobs):
            # First the pools: a database with one reader answers no other query during the scan.
            await self._slots()
            await self._positions.look_within(FIRST_LOOK_S)
        for job in jobs:
            row, now = q.JobRow(job, q.LEFT_OUT, None), q.wall_clock()
            if job.status != "queued":
                yield v.job_view(row, now, include=())
            else:
                standing = self._positions.by_last_look(job)
                yield v.job_view(row, now, standing, await self._why_waiting(job), include=())

    async def _why_waiting(self, job: Job) -> WaitReason | None:
        if not isinstance(job.place, Ready):
            return why_waiting(job, None, 0)
        counts = (await self._slots()).get(job.spec.pool)
        pool: Pool | None = None if counts is None else counts.pool
        return why_waiting(job, pool, 0 if counts is None else counts.occupied)

    async def _slots(self) -> dict[str, q.PoolCounts]:
        """Pools and their occupied slots, cached for a moment: thousands of callers who poll share one query."""
        if time.monotonic() - self._pools_at <= POOLS_S:
            return self._pools
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_pools(), name="ficha pools")
        asking = self._asking
        # A caller that is cancelled must not cancel the query that others wait for.
        await asyncio.wait({asking})
        return asking.result()

    async def _ask_pools(self) -> dict[str, q.PoolCounts]:
        try:
            found = await self._reader.read(q.ListPools(count_waiting=False))
            self._pools, self._pools_at = {counts.pool.name: counts for counts in found}, time.monotonic()
            return self._pools
        finally:
            self._asking = None

    async def account(self, account_id: str) -> v.AccountView | None:
        account = await self._reader.read(q.GetAccount(account_id))
        return None if account is None else v.account_view(account, q.wall_clock())

    def changed_account(self, account: Account) -> v.AccountView:
        """An account as a call has just left it; inside the caller's transaction it may not be committed yet."""
        return v.account_view(account, q.wall_clock())

    async def accounts(self, after: str | None, limit: int, prefix: str | None = None) -> v.Page[v.AccountView]:
        """A page of accounts, by id."""
        found = await self._reader.read(q.ListAccounts(after, limit, prefix))
        now = q.wall_clock()
        return self._page((v.account_view(account, now) for account in found), limit, lambda account: account.id)

    async def ledger(self, account_id: str, before: int | None, limit: int) -> v.Page[v.EntryView]:
        """A page of ledger lines, newest first."""
        found = await self._reader.read(q.ListEntries(account_id, before, limit))
        return self._page(map(v.entry_view, found), limit, _number)

    async def history(self, job_id: str, account_id: str | None, after: int, limit: int) -> v.Page[v.EventView]:
        """A part of a job's history; without items if the job is not of that account."""
        found = await job_events(self._reader, job_id, after, limit)
        theirs = (one for one in found if account_id in (None, one.event.account_id))
        return self._page(map(v.event_view, theirs), limit, _number)

    async def events(self, account_id: str | None, after: int, limit: int) -> v.Page[v.EventView]:
        """A part of the events of all jobs of an account, or of all accounts, as far back as the search goes."""
        found, _ = await account_events(self._reader, account_id, await first_place(self._reader, after), limit)
        return self._page(map(v.event_view, found), limit, _number)

    async def steps(self, job_id: str) -> list[Step]:
        return await self._reader.read(q.ListSteps(job_id))

    async def reservations(
        self, account_id: str | None, before: str | None, limit: int, state: ReservationState | None = None
    ) -> v.Page[v.Hold]:
        """A page of reservations, newest first; with a state, of those that are in it now."""
        now = q.wall_clock() if state is None else await self.now()
        found = await self._reader.read(q.ListReservations(account_id, before, limit, state, now))
        uploads = await self._linked_files("reservation", [held.id for held in found])
        views = (v.hold_view(held, now, uploads=tuple(uploads.get(held.id, ()))) for held in found)
        return self._page(views, limit, lambda hold: hold.id)

    async def count_reservations(self, account_id: str | None) -> dict[ReservationState, int]:
        return await self._reader.read(q.CountReservations(await self.now(), account_id))

    async def files(self, query: q.ListFiles) -> v.Page[v.FileView]:
        """A page of files, newest first."""
        found = await self._reader.read(query)
        return self._page(map(v.file_view, found), query.limit, lambda file: file.id)

    async def files_by_id(self, ids: Collection[str]) -> dict[str, File]:
        """Those of these files that exist, by id."""
        return {file.id: file for file in await self._reader.read(q.GetFiles(tuple(ids)))} if ids else {}

    async def job_files(self, job_ids: Collection[str]) -> dict[str, list[v.FileView]]:
        """By job, the files that it made or was the first to use."""
        return await self._linked_files("job", job_ids)

    async def _linked_files(
        self, link: Literal["job", "reservation"], ids: Collection[str]
    ) -> dict[str, list[v.FileView]]:
        found: dict[str, list[v.FileView]] = {}
        if not ids:
            return found
        for file in await self._reader.read(q.ListLinkedFiles(link, tuple(ids))):
            found.setdefault((file.job_id if link == "job" else file.reservation_id) or "", []).append(
                v.file_view(file)
            )
        return found

    async def file_usage(self, account_id: str) -> FileUsage:
        """How many files the account has, and their bytes together."""
        return await self._reader.read(q.GetFileUsage(account_id))

    async def keys(
        self, account_id: str | None, after: tuple[str, str, str] | None, limit: int, key: str | None = None
    ) -> list[v.KeyView]:
        return [v.key_view(found) for found in await self._reader.read(q.ListKeys(account_id, after, limit, key))]

    async def batch(self, batch_id: str, *, by_checkpoint: bool = False) -> v.BatchView | None:
        counts = await self._reader.read(q.GetBatch(batch_id))
        if counts is None:
            return None
        if not by_checkpoint:
            return v.batch_view(counts)
        checkpoints = await self._reader.read(q.CountCheckpoints(batch_id))
        return v.batch_view(counts, checkpoints)

    async def batches(self, query: q.ListBatches) -> v.Page[v.BatchView]:
        """A page of batches, newest first."""
        part = await self._reader.read(query)
        views = [v.batch_view(counts) for counts in part.batches]
        return v.Page(views, views[-1].id if part.goes_on and views else None)

    async def pools(self) -> list[v.PoolView]:
        return [v.pool_view(counts) for counts in await self._reader.read(q.ListPools())]

    async def queue_depth(self, pools: Sequence[str], concurrency: int, count_up_to: int) -> v.QueueDepthView | str:
        """Of these pools together, or of all if none is named; the name of one that there is not."""
        if not pools:
            pools = [counts.pool.name for counts in await self._reader.read(q.ListPools(count_waiting=False))]
        depths = []
        for pool in pools:
            found = await self._reader.read(q.GetQueueDepth(pool, count_up_to))
            if found is None:
                return pool
            depths.append(found)
        return v.queue_depth_view(depths, concurrency)

    async def overview(self, asked: v.OverviewRange, stuck_ms: int) -> v.Overview:
        """Figures over time and what needs attention. Callers who ask for the same range share one computation a
        second."""
        made_at, making = self._overviews.get(asked, (float("-inf"), None))
        is_old = time.monotonic() - made_at > OVERVIEW_S
        if making is None or (is_old and making.done()) or (making.done() and making.exception() is not None):
            making = asyncio.ensure_future(self._make_overview(asked, stuck_ms))
            self._overviews[asked] = time.monotonic(), making
        # A caller that is cancelled must not cancel the overview that others wait for.
        return await asyncio.shield(making)

    async def _make_overview(self, asked: v.OverviewRange, stuck_ms: int) -> v.Overview:
        read = self._reader.read
        point, rollups, minutes, hours, ahead = await self._rollups(asked)
        parts = v.OverviewParts(
            point,
            rollups,
            minutes,
            hours,
            ahead,
            len(ahead) >= AHEAD,
            await read(q.ListPools(count_waiting=False)),
            await read(q.ListWorkersSeen(point.now - WORKERS)),
            await read(q.ListProviders()),
            await read(q.GetAlertCounts(stuck_ms, LATE_MS, v.DEAD_COUNTED + 1)),
            await read(q.ListPoolTimes()),
            await read(q.ListDeclaredHooks()),
            await read(q.CountHooks()),
            await read(q.ListSchedules()),
        )
        return await asyncio.to_thread(v.overview, asked, parts)

    async def _rollups(
        self, asked: v.OverviewRange
    ) -> tuple[q.FigurePoint, list[Rollup], list[Rollup], list[Rollup], list[q.CommitFigures]]:
        """How far figures are added up; the rollups of the range, of the last minutes and of the last hours; and the
        figures of commits that are not added up yet."""
        read, tries = self._reader.read, TRIES
        while True:
            point = await read(q.GetFigurePoint())
            cursor = point.cursor
            ahead = await read(q.ListFigures(0 if cursor is None else cursor.number, limit=AHEAD))
            if cursor is not None and cursor.left_out:
                late = await read(q.ListFigures(among=cursor.left_out))
                ahead += late
            steps, (minutes_at, hours_at) = v.OverviewSteps.of(asked, point.now), v.history_begins(point.now)
            rollups = await read(q.ListRollups(steps.level, steps.begins_at))
            minutes = await read(q.ListRollups("minute", minutes_at))
            hours = await read(q.ListRollups("hour", hours_at))
            tries -= 1
            # If some were added up meanwhile, they are both in the rollups and in `ahead`: then all is read again.
            if (await read(q.GetFigurePoint())).cursor == cursor:
                return point, rollups, minutes, hours, ahead
            if not tries:
                return point, rollups, minutes, hours, []

    async def queue_length(self, pool: str) -> int:
        """How many jobs of a pool are queued, ready or parked; 0 if there is no such pool."""
        return sum(found.ready + found.parked for found in await self.pools() if found.name == pool)

    async def workers(self, stuck_ms: int, after: str | None, limit: int) -> v.Page[v.WorkerView]:
        """A page of workers, by name."""
        found = await self._reader.read(q.ListWorkers(stuck_ms, after, limit))
        views = (v.worker_view(counts, found.now) for counts in found.workers)
        return self._page(views, limit, lambda worker: worker.name)

    async def api_key(self, digest: str | None = None, *, key_id: str | None = None) -> v.ApiKeyView | None:
        found = await self._reader.read(q.GetApiKey(digest, key_id))
        return v.api_key_view(found.keys[0], found.now) if found.keys else None

    async def api_keys(self, before: str | None, limit: int) -> v.Page[v.ApiKeyView]:
        """A page of API keys, newest first."""
        found = await self._reader.read(q.ListApiKeys(before, limit))
        return self._page((v.api_key_view(row, found.now) for row in found.keys), limit, lambda key: key.id)

    async def revoked_api_keys(self, ids: tuple[str, ...]) -> list[str]:
        """Which of these keys are revoked."""
        return await self._reader.read(q.GetRevokedApiKeys(ids))

    async def audit(self, query: q.ListAudit) -> v.Page[v.AuditView]:
        """A page of the audit log, newest first."""
        found = await self._reader.read(query)
        return self._page(map(v.audit_view, found), query.limit, _number)

    async def hooks(self, limit: int) -> list[v.HookView]:
        return [v.hook_view(hook) for hook in await self._reader.read(q.ListHooks(limit=limit))]

    async def providers(self) -> list[v.ProviderView]:
        return [v.provider_view(row) for row in await self._reader.read(q.ListProviders())]

    async def margins(self, since_at: int, until_at: int, limit: int) -> list[v.MarginView]:
        return [v.margin_view(line) for line in await self._reader.read(q.GetMargins(since_at, until_at, limit))]

    async def deliveries(
        self,
        owner: str,
        webhook_id: str | None,
        job_id: str | None,
        state: DeliveryState | None,
        before: str | None,
        limit: int,
    ) -> v.Page[v.DeliveryView]:
        """A page of messages to an owner's webhook endpoints, newest first."""
        asked = q.ListDeliveries(owner, None, webhook_id, job_id, state, before, limit)
        found = await self._reader.read(asked)
        return self._page(map(v.delivery_view, found), limit, lambda delivery: delivery.id)

    async def stats(self, stuck_ms: int) -> q.Stats:
        return await self._reader.read(q.GetStats(stuck_ms))

    async def now(self) -> int:
        """The store's time."""
        return (await self._reader.read(q.GetDue(0, 0, limit=1))).now

    async def job_ids(self, batch_id: str, statuses: tuple[Status, ...], *, dead: bool = False) -> list[str]:
        """The ids of a batch's jobs in these states."""
        return [job.id for job in await self._batch_jobs(batch_id, statuses, dead=dead)]

    async def batch_items(self, batch_id: str) -> list[str]:
        """The latest try of each job of a batch, in the order of their submit."""
        return [job.id for job in latest_tries(await self._batch_jobs(batch_id, ()))]

    async def _batch_jobs(self, batch_id: str, statuses: tuple[Status, ...], *, dead: bool = False) -> list[Job]:
        jobs: list[Job] = []
        before: str | None = None
        while True:
            found = await self._reader.read(
                q.ListJobs(batch_id=batch_id, statuses=statuses, dead=dead, before=before, limit=1_000)
            )
            jobs += found
            if len(found) < 1_000:
                return jobs
            before = found[-1].id

    async def verify(self, *, accounts_at_once: int = 200, histories: bool = True) -> list[str]:
        """Checks every invariant over the whole database, a part at a time; each part is one consistent view."""
        found: list[str] = []
        after: str | None = None
        while True:
            state = await self._reader.read(q.GetState(after, accounts_at_once, texts=histories))
            found += violations(state)
            if len(state.accounts) < accounts_at_once:
                return found
            after = max(state.accounts)


async def _without_texts(jobs: list[Job]) -> AsyncIterator[q.JobRow]:
    for job in jobs:
        yield q.JobRow(job, q.LEFT_OUT, None)


def _goes_on(query: q.ListLibrary, part: q.LibraryPart) -> str | None:
    """Returns where the next page begins; None if no older work can match."""
    if part.stopped is None:
        return None
    job_id, created_at = part.stopped
    return None if query.since_at is not None and created_at < query.since_at - q.CLOCKS_APART else job_id


def _number(item: v.EntryView | v.EventView | v.AuditView) -> str:
    return str(item.number)


def _wait(placed: Placed, counts: q.PoolCounts | None) -> v.Wait:
    reason: WaitReason = "account_limit"
    if not placed.is_parked:
        reason = why_not_yet(None, 0) if counts is None else why_not_yet(counts.pool, counts.occupied)
    return v.Wait(placed.standing.position, placed.standing.estimated_wait_s, reason)
