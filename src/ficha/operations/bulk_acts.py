"""Bulk acts: an operator's act on all jobs that a search finds. They begin here; servers and workers carry them out."""

from __future__ import annotations

from typing import Final, get_args

from .. import validation as arg
from ..core.commands import AdvanceBulkAct, BeginBulkAct, HoldBulkAct, StopBulkAct
from ..core.outcomes import BulkActChanged, BulkActHeld, Refusal
from ..core.policy import MILLISECOND
from ..core.records import BulkAct, BulkVerb
from ..engine.views import BulkActView, Page, bulk_act_view
from ..engine.wakeups import BULK_ACTS
from ..errors import Refused
from ..ids import first_id_at, new_id
from ..job_search import job_match
from ..store.base import CLOCKS_APART, CountJobs, ListBulkActs, ListDueBulkActs, SearchJobs, SearchPart
from .base import Operations

LOOKED_PER_JOB: Final = 10
"""How many jobs are scanned, at most, per job that an act may change."""
COUNTED_AT_ONCE: Final = 10_000
"""Jobs that one query scans while the jobs of an act are counted."""
APPLICATION: Final = "application"
"""The actor of an act begun by the application itself."""


class BulkOperations(Operations):
    async def begin_bulk_act(
        self, act: BulkVerb, search: str, *, reason: str, amount: int | None = None, share: float | None = None
    ) -> BulkActView:
        """Begins an act on all existing jobs that match a search. A server or a worker carries it out in the
        background, a few jobs at a time, newest first.

        act: "requeue", "discard", "cancel" or "refund".
        search: as in `search_jobs`; ages such as `since:1h` count back from now.
        reason: why; the audit log shows it for each job.
        amount, share: for "refund", how much comes back of each job, as in `refund`; of a job that cost less than the
            amount, what it cost.
        """
        if act not in get_args(BulkVerb):
            raise arg.invalid(f"act must be one of {', '.join(get_args(BulkVerb))}, not {act!r}")
        amount, part = arg.refund_part(amount, share)
        if act != "refund" and (amount is not None or part is not None):
            raise arg.invalid(f"amount and share are for refunds, not for {act!r}")
        words, now = arg.reason(reason), await self.queries.now()
        total, credits, floor_id = await self._count_bulk(search, now)
        command = BeginBulkAct(
            *(new_id(), act, search, words, self.actor or APPLICATION, total, credits, _top(now), floor_id),
            key_id=self.key_id,
            amount=amount,
            share=part,
        )
        return bulk_act_view((await self._ask(command, BulkActChanged)).act)

    async def bulk_acts(self, *, after: str | None = None, limit: int = 50) -> Page[BulkActView]:
        """A page of bulk acts, newest first; `after` is the `next` of the page before."""
        before = None if after is None else arg.job_id(after, "bulk act")
        most = arg.count(limit, "limit", self.limits.page_items)
        found = await self.engine.read(ListBulkActs(before=before, limit=most))
        return Page([*map(bulk_act_view, found)], found[-1].id if len(found) == most else None)

    async def bulk_act(self, bulk_id: str) -> BulkActView:
        """A bulk act and its progress."""
        named = arg.job_id(bulk_id, "bulk act")
        found = await self.engine.read(ListBulkActs(named))
        if not found:
            raise Refused.of(Refusal("NOT_FOUND", f"there is no bulk act {named}."))
        return bulk_act_view(found[0])

    async def stop_bulk_act(self, bulk_id: str) -> BulkActView:
        """Stops a bulk act. What it has done stays; an act that has ended stays as it is."""
        command = StopBulkAct(arg.job_id(bulk_id, "bulk act"))
        return bulk_act_view((await self._ask(command, BulkActChanged)).act)

    async def _count_bulk(self, search: str, now: int) -> tuple[int, int, str | None]:
        """How many jobs match, what they cost together, and the id at which the scan stopped; None if it reached the
        end."""
        most = self.engine.policy.bulk_jobs
        count = credits = looked_at = 0
        before: str | None = _top(now)
        while before is not None and count <= most and looked_at < most * LOOKED_PER_JOB:
            asked = self._bulk_search(search, now, before, most + 1 - count, COUNTED_AT_ONCE)
            part = await self.engine.store.read(CountJobs(asked))
            count, credits, looked_at = count + part.count, credits + part.credits, looked_at + part.looked_at
            before = part.stopped
        return count, credits, before

    def _bulk_search(self, search: str, now: int, before: str, limit: int, searched: int) -> SearchJobs:
        silent_since = now - self.engine.policy.stuck_ms * MILLISECOND
        return SearchJobs(job_match(search, now), silent_since, before, limit, searched)

    # What servers and workers call

    async def due_bulk_acts(self, limit: int) -> list[BulkAct]:
        """The acts that may be worked on now."""
        return await self.engine.store.read(ListDueBulkActs(limit))

    async def hold_bulk_act(self, act_id: str, hold_s: float) -> BulkAct | None:
        """Holds an act, to work on it; None if it has ended or somebody else holds it."""
        command = HoldBulkAct(act_id, arg.milliseconds(hold_s, "hold_s"))
        return (await self._ask(command, BulkActHeld)).act

    async def next_bulk_jobs(self, act: BulkAct, limit: int, searched: int) -> SearchPart:
        """The next jobs of an act, and where the following step begins."""
        part = await self.engine.store.read(
            self._bulk_search(act.search, act.started_at, act.before_id, limit, searched)
        )
        if act.floor_id is None or (part.stopped is not None and part.stopped > act.floor_id):
            return part
        # Jobs below the floor were not counted when the act began.
        return SearchPart([job for job in part.jobs if job.id >= act.floor_id], part.looked_at)

    async def advance_bulk_act(
        self,
        act: BulkAct,
        jobs: list[str],
        before_id: str | None,
        hold_s: float,
        *,
        broken: tuple[str, str] | None = None,
    ) -> BulkAct | None:
        """Does the act to these jobs, and records before which id the next step goes on (None: the act ends). Returns
        None if the act is no longer held."""
        named = tuple((job_id, new_id() if act.act == "requeue" else None) for job_id in jobs)
        hold_ms = arg.milliseconds(hold_s, "hold_s")
        command = AdvanceBulkAct(act.id, act.holds, hold_ms, act.before_id, named, before_id, broken)
        return (await self._ask(command, BulkActHeld)).act

    def bulk_acts_heard(self) -> int:
        """What to pass to `wait_for_bulk_acts` as `since`."""
        return self.engine.wakeups.heard((BULK_ACTS,))

    async def wait_for_bulk_acts(self, timeout_s: float, *, since: int) -> bool:
        """Returns True when a bulk act was begun, or False when the time is up."""
        return await self.engine.wakeups.wait((BULK_ACTS,), timeout_s, since)


def _top(now: int) -> str:
    """An id greater than that of any job submitted by then: the clocks that make ids may run ahead of the database's.
    The rule excludes jobs that were submitted later."""
    return first_id_at(now + CLOCKS_APART)
