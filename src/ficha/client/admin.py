"""For operators: recovery, dead letters, pools, workers and figures."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from msgspec import Raw, Struct

from .. import validation as arg
from ..core.outcomes import Discarded, Recovered
from ..core.pools import CONCURRENCY, COUNTED_READY
from ..core.records import ReservationState
from ..engine.sweeper import SweepReport
from ..engine.views import (
    FinishView,
    JobText,
    JobView,
    KeyView,
    MarginView,
    Overview,
    Page,
    PoolView,
    ProviderView,
    PruneReport,
    QueueDepthView,
    Requeued,
    Whole,
    WorkerView,
)
from ..store.base import Stats
from .effects import Flow
from .operation import operation
from .sending import RequestMethods, joined, segment


class AdminMethods(RequestMethods):
    @operation
    def sweep(self) -> Flow[SweepReport]:
        """Runs one round of recovery and clean-up, now."""
        return self.post("/api/system/recover-stuck", SweepReport, harmless=True)

    @operation
    def prune(self, *, dry_run: bool = False, max_seconds: float | None = None) -> Flow[PruneReport]:
        """Removes what is due by its age, or only counts it, for up to `max_seconds`: 10 unless given, and 60 at most.
        If there is `more`, call it again."""
        asked = {"dry_run": dry_run, "max_seconds": max_seconds}
        return self.post("/api/admin/prune", PruneReport, asked, harmless=True)

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
    def overview(self, range: str = "24h") -> Flow[Overview]:
        """What happened in a time up to now (`1h`, `6h`, `24h`, `7d` or `30d`), the current state, and alerts: the
        figures behind the console's first page."""
        return self.get("/api/admin/overview", Overview, range=range)

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
    def refund(
        self, job_id: str, *, reason: str, amount: int | None = None, share: float | None = None
    ) -> Flow[FinishView]:
        """Gives back what an ended job was charged, once: all of it, an amount, or a share, rounded up to a whole
        credit. To give back the rest of a partly refunded job, use `adjust`."""
        arg.refund_part(amount, share)
        part = {name: value for name, value in (("amount", amount), ("share", share)) if value is not None}
        path = f"/api/admin/jobs/{arg.job_id(job_id)}/refund"
        return self.post(path, FinishView, {"reason": arg.reason(reason), **part}, harmless=True)

    @operation
    def pools(self) -> Flow[list[PoolView]]:
        """All pools: slots, how many are busy, how many jobs are ready."""
        return (yield from self.get("/api/admin/pools", Whole[PoolView])).items

    @operation
    def queue_depth(
        self, *pools: str, concurrency: int = CONCURRENCY, count_up_to: int = COUNTED_READY
    ) -> Flow[QueueDepthView]:
        """How much work a pool has, or these together, or all if none is named, and for how many workers, if each runs
        `concurrency` jobs (10) at a time. Ready jobs are counted up to `count_up_to` (10,000)."""
        named = [arg.name(pool, "a pool") for pool in pools]
        return self.get(
            "/api/admin/queue-depth", QueueDepthView, pool=named, concurrency=concurrency, count_up_to=count_up_to
        )

    @operation
    def pause_pool(self, pool: str) -> Flow[PoolView]:
        """Starts nothing new in the pool; running jobs go on."""
        return self.post(_of(pool, "pause"), PoolView, harmless=True)

    @operation
    def resume_pool(self, pool: str) -> Flow[PoolView]:
        """Starts jobs in the pool again."""
        return self.post(_of(pool, "resume"), PoolView, harmless=True)

    @operation
    def resize_pool(self, pool: str, slots: int | None) -> Flow[PoolView]:
        """Overrides the declared number of slots, on all machines; None returns to it."""
        # Elsewhere a field that is None is left out; here None is a value.
        wanted = Raw(b"null") if slots is None else slots
        return self.post(_of(pool, "resize"), PoolView, {"slots": wanted}, harmless=True)

    @operation
    def provider_states(self) -> Flow[list[ProviderView]]:
        """The state of the external providers, by name: their circuit breakers, and their requests under way."""
        return (yield from self.get("/api/admin/providers", Whole[ProviderView])).items

    @operation
    def open_breaker(self, provider: str, *, seconds: float = 3_600.0, reason: str | None = None) -> Flow[ProviderView]:
        """Sends nothing to a provider for that time, however its requests fare; then a probe is sent."""
        asked = {"seconds": seconds, "reason": reason}
        return self.post(_of_provider(provider, "open"), ProviderView, asked, harmless=True)

    @operation
    def reset_breaker(self, provider: str) -> Flow[ProviderView]:
        """Sends requests to a provider again, at once."""
        return self.post(_of_provider(provider, "reset"), ProviderView, harmless=True)

    @operation
    def margins(self, *, since: date | None = None, until: date | None = None) -> Flow[list[MarginView]]:
        """What jobs earned in credits and cost at their providers, by UTC day of the submit, tool and plan; `since` and
        `until` are the first and the last day, and default to the last 30 days."""
        path, first, last = "/api/admin/margins", _day(since), _day(until)
        return (yield from self.get(path, Whole[MarginView], since=first, until=last)).items

    @operation
    def workers(self, *, after: str | None = None, limit: int = 50) -> Flow[Page[WorkerView]]:
        """A page of all workers, alive or gone, by name: who they are and what became of their runs."""
        return self.get("/api/admin/workers", Page[WorkerView], cursor=after, limit=limit)

    @operation
    def idempotency_keys(
        self, *, account: str | None = None, key: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[KeyView]]:
        """A page of idempotency keys and what they led to, by account, key and scope; with a `key`, only that key of
        the account."""
        path = "/api/admin/idempotency-keys"
        return self.get(path, Page[KeyView], account=account, key=key, cursor=after, limit=limit)

    @operation
    def count_reservations(self, *, account: str | None = None) -> Flow[dict[ReservationState, int]]:
        """How many reservations are in each state now, of one account or of all."""
        found = yield from self.get("/api/admin/reservations/counts", _StateCounts, account=account)
        return found.by_state


class _StateCounts(Struct, frozen=True):
    by_state: dict[ReservationState, int]


def _day(given: date | None) -> str | None:
    return None if given is None else given.isoformat()[:10]


def _of_provider(provider: str, what: str) -> str:
    return f"/api/admin/providers/{segment(arg.name(provider, 'a provider'))}/{what}"


def _of(pool: str, what: str) -> str:
    return f"/api/admin/pools/{segment(arg.name(pool, 'a pool'))}/{what}"
