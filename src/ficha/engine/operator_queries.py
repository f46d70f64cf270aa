"""The read side of an operator's pages: searches among all jobs, the parts of a job's page, dead letters by error."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..core.acts import Act, act_commands, allowed_acts
from ..core.error_groups import error_kind
from ..core.needs import needs
from ..core.policy import SECOND, Policy
from ..core.records import Job, Step
from ..core.runs import attempts, last_traceback, step_times
from ..core.workers import state_of
from ..redaction import masked, masked_json
from ..store import base as q
from . import views as v
from .event_tail import job_events

SLICE: Final = 5_000
"""How many jobs a search scans with one query. Between two queries, other readers get their turn."""
SEARCH_S: Final = 0.1
"""After this time a search begins no further slice and returns what it has."""
EVENTS_SHOWN: Final = 500
"""How many events a job's page has, at most; the others are read page by page from the job's history."""
RECENT_RUNS: Final = 50
"""How many recent runs of its tool a job's page has, at most."""
RUNS_SEARCHED: Final = 10_000
"""How many jobs are scanned to find those runs, at most."""


class OperatorQueries:
    """Queries the reader; `views` makes the views of jobs without their texts."""

    def __init__(
        self, reader: q.Reader, views: Callable[[list[Job]], AsyncIterator[v.JobView]], page_bytes: int
    ) -> None:
        self._reader = reader
        self._views = views
        self._page_bytes = page_bytes

    async def search(self, query: q.SearchJobs, most: int) -> v.JobSearch:
        """Returns a part of a search, which scans at most `most` jobs."""
        found: list[Job] = []
        looked_at, before, began_at = 0, query.before, time.monotonic()
        is_over = is_whole = False
        while not is_over:
            left = replace(query, before=before, limit=query.limit - len(found), searched=min(SLICE, most - looked_at))
            part = await self._reader.read(left)
            found += part.jobs
            looked_at += part.looked_at
            before = part.stopped
            is_whole = before is None or len(found) == query.limit
            is_over = is_whole or looked_at >= most or time.monotonic() - began_at >= SEARCH_S
        filler = v.PageFiller[v.JobView](self._page_bytes)
        async for view in self._views(found):
            if not filler.add(view):
                before, is_whole = filler.items[-1].id, True
                break
        back_to = None if before is None else v.moment_of_id(before)
        return v.JobSearch(items=filler.items, next=before, looked_at=looked_at, is_whole=is_whole, back_to=back_to)

    async def count(self, query: q.SearchJobs, most: int) -> v.JobCount:
        """Counts the matching jobs, up to the query's limit, among at most `most` jobs."""
        count = credits = looked_at = 0
        before, began_at = query.before, time.monotonic()
        while True:
            left = replace(query, before=before, limit=query.limit - count, searched=min(SLICE, most - looked_at))
            part = await self._reader.read(q.CountJobs(left))
            count, credits, looked_at = count + part.count, credits + part.credits, looked_at + part.looked_at
            before = part.stopped
            is_over = before is None or count >= query.limit or looked_at >= most
            if is_over or time.monotonic() - began_at >= SEARCH_S:
                return v.JobCount(count=count, is_exact=before is None, credits=credits)

    async def page(self, view: v.JobView, policy: Policy, now: int) -> v.JobPage:
        """Returns the page of a job; `view` is the job with its texts, `now` the store's time."""
        reader = self._reader
        [row] = await reader.read(q.GetJobs((view.id,)))
        kept = await reader.read(q.ListRunEvents(view.id))
        took = step_times(row.job, kept)
        shown = self._events(await job_events(reader, view.id, 0, EVENTS_SHOWN))
        steps = self._steps(await reader.read(q.ListSteps(view.id)), took)
        files = await reader.read(q.ListLinkedFiles("job", (view.id,)))
        return v.JobPage(
            job=_masked_job(view),
            events=shown,
            more_events=row.job.events > len(shown),
            steps=steps,
            attempts=[v.attempt_view(one) for one in attempts(row.job, kept)],
            entries=[v.entry_view(entry) for entry in await reader.read(q.ListJobEntries(view.id))],
            files=[v.file_view(file) for file in files],
            recent_runs=await self._recent_runs(view.tool),
            traceback=last_traceback(kept),
            acts=await self._acts(view.id, policy),
            live_workers=await self._live_workers(view.pool, now),
        )

    def _events(self, found: list[q.NumberedEvent]) -> list[v.EventView]:
        filler = v.PageFiller[v.EventView](self._page_bytes)
        for one in found:
            event = v.event_view(one)
            if not filler.add(replace(event, data=masked(event.data))):
                break
        return filler.items

    def _steps(self, found: list[Step], took: dict[str, int]) -> list[v.StepView]:
        """Returns the steps; where their results together are too large for a page, later results are left out."""
        views: list[v.StepView] = []
        left = self._page_bytes
        for step in found:
            left -= len(step.result)
            views.append(
                v.StepView(
                    name=step.name,
                    saved_at=v.moment(step.saved_at),
                    took_s=took[step.name] / SECOND if step.name in took else None,
                    result=Raw(masked_json(step.result)) if left >= 0 else UNSET,
                )
            )
        return views

    async def pool_names(self) -> list[str]:
        return [counts.pool.name for counts in await self._reader.read(q.ListPools(count_waiting=False))]

    async def _recent_runs(self, tool: str) -> list[v.RecentRun]:
        match = q.JobMatch(tools=(tool,), statuses=("completed", "failed", "cancelled"))
        part = await self._reader.read(q.SearchJobs(match, limit=RECENT_RUNS, searched=RUNS_SEARCHED))
        return [run for run in map(v.recent_run, part.jobs) if run is not None]

    async def _acts(self, job_id: str, policy: Policy) -> tuple[Act, ...]:
        snapshot = await self._reader.read(q.GetSnapshot(needs(act_commands(job_id).values())))
        return allowed_acts(snapshot, job_id, policy)

    async def _live_workers(self, pool: str, now: int) -> int:
        found = await self._reader.read(q.ListWorkersSeen(0))
        return sum(pool in worker.pools and state_of(worker, now) == "alive" for worker in found)

    async def dead_groups(self, searched: int) -> v.DeadGroups:
        """Groups the newest dead letters by tool and error."""
        groups: dict[tuple[str, str], v.DeadGroup] = {}
        looked_at = 0
        for part in await self._reader.read(q.SumDeadLetters(searched)):
            looked_at += part.jobs
            group = v.DeadGroup(
                error=error_kind(part.error),
                tool=part.tool,
                count=part.jobs,
                credits=part.credits,
                first_at=v.moment(part.first_dead_at),
                last_at=v.moment(part.last_dead_at),
                job_id=part.newest,
            )
            name = group.tool, group.error
            groups[name] = _together(groups[name], group) if name in groups else group
        items = sorted(groups.values(), key=lambda group: (-group.count, group.tool, group.error))
        return v.DeadGroups(items, looked_at < searched)


def _together(one: v.DeadGroup, other: v.DeadGroup) -> v.DeadGroup:
    return replace(
        one,
        count=one.count + other.count,
        credits=one.credits + other.credits,
        first_at=min(one.first_at, other.first_at),
        last_at=max(one.last_at, other.last_at),
        job_id=max(one.job_id, other.job_id),
    )


def _masked_job(view: v.JobView) -> v.JobView:
    texts = {f"{name}_json": Raw(masked_json(bytes(view.stored(name)).decode())) for name in v.STORED_TEXTS}
    return replace(view, **texts)
