"""For whoever operates the system: recovery, dead letters, pools, workers and figures."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Raw

from .. import validation as arg
from ..core.outcomes import Discarded, Recovered
from ..engine.sweeper import SweepReport
from ..engine.views import JobText, JobView, KeyView, Page, PoolView, Requeued, Whole, WorkerView
from ..store.base import Stats
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, joined, segment


class AdminMethods(RequestMethods):
    @operation
    def sweep(self) -> Flow[SweepReport]:
        """One round of recovery and clean-up, now."""
        return self.post("/api/system/recover-stuck", SweepReport, harmless=True)

    @operation
    def recover(self, job_id: str) -> Flow[Recovered]:
        """Does whatever is due for one job by now; nothing, if nothing is."""
        return self.post(f"/api/system/recover/{arg.job_id(job_id)}", Recovered, harmless=True)

    @operation
    def stuck(
        self, *, after: str | None = None, limit: int = 50, include: Iterable[JobText] = ()
    ) -> Flow[Page[JobView]]:
        """Held jobs that have been silent for longer than the stuck time, newest first; `include` as in `jobs`."""
        return self.get("/api/system/stuck", Page[JobView], cursor=after, limit=limit, include=joined(include))

    @operation
    def stats(self) -> Flow[Stats]:
        """Figures over the active jobs."""
        return self.get("/api/system/processing-stats", Stats)

    @operation
    def dead_letters(
        self,
        *,
        account: str | None = None,
        after: str | None = None,
        limit: int = 50,
        include: Iterable[JobText] = (),
    ) -> Flow[Page[JobView]]:
        """Failed jobs that nobody has dealt with, newest first; `include` as in `jobs`."""
        return self.get(
            "/api/admin/dead", Page[JobView], account=account, cursor=after, limit=limit, include=joined(include)
        )

    @operation
    def requeue(self, job_id: str) -> Flow[str]:
        """Runs a dead letter's work again, as a new job that is charged anew; returns the new job's id."""
        return (yield from self.post(f"/api/admin/dead/{arg.job_id(job_id)}/requeue", Requeued)).job_id

    @operation
    def discard(self, job_id: str) -> Flow[Discarded]:
        """Takes a job off the dead-letter list."""
        return self.post(f"/api/admin/dead/{arg.job_id(job_id)}/discard", Discarded, harmless=True)

    @operation
    def pools(self) -> Flow[list[PoolView]]:
        """All pools: slots, how many are busy, how many jobs are ready."""
        return (yield from self.get("/api/admin/pools", Whole[PoolView])).items

    @operation
    def pause_pool(self, pool: str) -> Flow[PoolView]:
        """Starts nothing new in the pool; what runs goes on."""
        return self.post(_of(pool, "pause"), PoolView, harmless=True)

    @operation
    def resume_pool(self, pool: str) -> Flow[PoolView]:
        """Starts jobs in the pool again."""
        return self.post(_of(pool, "resume"), PoolView, harmless=True)

    @operation
    def resize_pool(self, pool: str, slots: int | None) -> Flow[PoolView]:
        """Overrides the declared number of slots, on all machines; None returns to it."""
        # What is None is left out elsewhere; here it says something.
        wanted = Raw(b"null") if slots is None else slots
        return self.post(_of(pool, "resize"), PoolView, {"slots": wanted}, harmless=True)

    @operation
    def workers(self, *, after: str | None = None, limit: int = 50) -> Flow[Page[WorkerView]]:
        """A page of all workers, alive or gone, by name: who they are and what became of their runs."""
        return self.get("/api/admin/workers", Page[WorkerView], cursor=after, limit=limit)

    @operation
    def idempotency_keys(
        self, *, account: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[KeyView]]:
        """A page of idempotency keys and what they led to, by account, key and scope."""
        return self.get("/api/admin/idempotency-keys", Page[KeyView], account=account, cursor=after, limit=limit)


def _of(pool: str, what: str) -> str:
    return f"/api/admin/pools/{segment(arg.name(pool, 'a pool'))}/{what}"
