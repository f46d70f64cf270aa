"""Operations for operators: recovery, dead letters, pools, figures, and the check of all invariants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from msgspec.structs import replace

from .. import validation as arg
from ..core import commands as c
from ..core.audit import SYSTEM
from ..core.outcomes import (
    Discarded,
    Finished,
    PoolChanged,
    Recounted,
    Recovered,
    Submitted,
    VerificationNoted,
)
from ..core.policy import MILLISECOND
from ..core.pools import CONCURRENCY, COUNTED_READY, COUNTED_READY_MOST
from ..core.records import Pool, ReservationState
from ..core.refusals import no_pool
from ..engine.sweeper import SweepReport
from ..engine.views import (
    AuditView,
    FinishView,
    Hold,
    JobText,
    JobView,
    KeyView,
    Overview,
    Page,
    PoolView,
    QueueDepthView,
    WorkerView,
    finish_view,
)
from ..errors import Refused
from ..ids import new_id
from ..store.base import ListAudit, ListJobs, Stats
from .base import answer
from .files import FileOperations


class AdminOperations(FileOperations):
    async def sweep(self) -> SweepReport:
        """One round of recovery and clean-up, now."""
        report = await self.engine.sweep(self.actor)
        await self.engine.figures.fold()
        return replace(report, files=await self.sweep_files())

    async def recover(self, job_id: str) -> Recovered:
        """Does what is due for one job by now, if anything is."""
        command = c.Recover(arg.job_id(job_id))
        await self.engine.clock.trusted()
        return await self._ask(command, Recovered)

    async def stuck(
        self, *, after: str | None = None, limit: int = 50, include: Iterable[JobText] = ()
    ) -> Page[JobView]:
        """Held jobs that have been silent for longer than the stuck time, newest first; `include` as in `jobs`."""
        before = None if after is None else arg.job_id(after)
        most = arg.count(limit, "limit", self.limits.page_items)
        silent_since = await self.queries.now() - self.engine.policy.stuck_ms * MILLISECOND
        asked = ListJobs(stuck_before_at=silent_since, before=before, limit=most)
        return await self.queries.jobs(asked, arg.job_texts(include))

    async def dead_letters(
        self,
        *,
        account: str | None = None,
        after: str | None = None,
        limit: int = 50,
        include: Iterable[JobText] = (),
    ) -> Page[JobView]:
        """Failed jobs that nobody has dealt with, newest first; `include` as in `jobs`."""
        asked = ListJobs(
            account_id=arg.optional_name(account, "an account"),
            dead=True,
            before=None if after is None else arg.job_id(after),
            limit=arg.count(limit, "limit", self.limits.page_items),
        )
        return await self.queries.jobs(asked, arg.job_texts(include))

    async def requeue(self, job_id: str) -> str:
        """Runs a dead letter's work again, as a new job that is charged anew; returns the new job's id."""
        return (await self._ask(c.Requeue(arg.job_id(job_id), new_id(), self.key_id), Submitted)).job_id

    async def discard(self, job_id: str) -> Discarded:
        """Takes a job off the dead-letter list."""
        return await self._ask(c.Discard(arg.job_id(job_id)), Discarded)

    async def refund(
        self, job_id: str, *, reason: str, amount: int | None = None, share: float | None = None
    ) -> FinishView:
        """Refunds, once, what an ended job was charged, or a part of it. Refuses a job of which another part was
        refunded before, at its end or by a call: give the rest back with `adjust`. A job with nothing left to refund,
        or of which so much was refunded before, stays as it is.

        reason: why; the account's owner reads it in the ledger.
        amount: only so many credits; refused if the job cost less.
        share: only so much of its charge, from above 0 to 1, rounded up to a whole credit.
        """
        words, part = arg.reason(reason), arg.refund_part(amount, share)
        return finish_view(await self._ask(c.RefundJob(arg.job_id(job_id), words, *part), Finished))

    async def pools(self) -> list[PoolView]:
        """All pools: slots, how many are busy, how many jobs are ready and parked."""
        return await self.queries.pools()

    async def queue_length(self, pool: str) -> int:
        """How many jobs of the pool are queued: ready to be started, or parked."""
        return await self.queries.queue_length(arg.name(pool, "a pool"))

    async def queue_depth(
        self, *pools: str, concurrency: int = CONCURRENCY, count_up_to: int = COUNTED_READY
    ) -> QueueDepthView:
        """How much work a pool has, or these together, or all if none is named, and for how many workers: what an
        autoscaler asks for. The query is cheap, however many jobs wait.

        concurrency: how many jobs a worker runs at a time. Defaults to 10, as for a worker.
        count_up_to: the count of ready jobs stops here. Defaults to 10,000; at most 100,000.
        """
        found = await self.queries.queue_depth(
            tuple(dict.fromkeys(arg.name(pool, "a pool") for pool in pools)),
            arg.count(concurrency, "concurrency", self.limits.claim_jobs),
            arg.count(count_up_to, "count_up_to", COUNTED_READY_MOST),
        )
        if isinstance(found, str):
            raise Refused.of(no_pool(found))
        return found

    async def pause_pool(self, pool: str) -> Pool:
        """Starts no new jobs of the pool; running jobs go on."""
        return await self._change_pool(c.PausePool(arg.name(pool, "a pool"), True))

    async def resume_pool(self, pool: str) -> Pool:
        return await self._change_pool(c.PausePool(arg.name(pool, "a pool"), False))

    async def resize_pool(self, pool: str, slots: int | None) -> Pool:
        """Overrides the declared number of slots, on all machines; None restores it."""
        if slots is not None and (isinstance(slots, bool) or not isinstance(slots, int)):
            raise arg.invalid(f"slots must be a whole number or None, not {slots!r}")
        return await self._change_pool(c.ResizePool(arg.name(pool, "a pool"), slots))

    async def _change_pool(self, command: c.Command) -> Pool:
        return (await self._ask(command, PoolChanged)).pool

    async def workers(self, *, after: str | None = None, limit: int = 50) -> Page[WorkerView]:
        """A page of all workers, alive or gone, by name: who they are and what became of their runs."""
        return await self.queries.workers(
            self.engine.policy.stuck_ms,
            arg.optional_name(after, "a worker"),
            arg.count(limit, "limit", self.limits.page_items),
        )

    async def recount(self, account: str) -> dict[str, int]:
        """Corrects an account's counters that disagree with its rows; returns what was added to each wrong counter.
        It never changes credits. In a database that nobody changes by hand it finds nothing to do."""
        corrected: dict[str, int] = {}
        while (done := await self._ask(c.RecountAccount(arg.name(account, "an account")), Recounted)).changed:
            # Repeated, because the counters that were wrong decided how many parked jobs were loaded.
            corrected |= done.corrected
        return corrected

    async def stats(self) -> Stats:
        """Figures over the active jobs."""
        return await self.queries.stats(self.engine.policy.stuck_ms)

    async def overview(self, range: str = "24h") -> Overview:
        """The figures of the console's first page: what happened in a range up to now (`1h`, `6h`, `24h`, `7d` or
        `30d`), the present state, and what needs attention."""
        return await self.queries.overview(arg.overview_range(range), self.engine.policy.stuck_ms)

    async def reservations(
        self,
        *,
        account: str | None = None,
        state: ReservationState | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> Page[Hold]:
        """A page of reservations, newest first; with a `state`, only those in that state now."""
        return await self.queries.reservations(
            arg.optional_name(account, "an account"),
            None if after is None else arg.job_id(after, "reservation"),
            arg.count(limit, "limit", self.limits.page_items),
            arg.reservation_state(state),
        )

    async def count_reservations(self, *, account: str | None = None) -> dict[ReservationState, int]:
        """How many reservations are in each state now, of one account or of all."""
        found = await self.queries.count_reservations(arg.optional_name(account, "an account"))
        return {state: found.get(state, 0) for state in get_args(ReservationState)}

    async def idempotency_keys(
        self,
        *,
        account: str | None = None,
        key: str | None = None,
        after: tuple[str, str, str] | None = None,
        limit: int = 50,
    ) -> list[KeyView]:
        """Idempotency keys in the order of account, key and scope; `after` is those three of the last key before.

        key: only this key of the account: a submit and a grant may each have one of that name.
        """
        if key is not None and account is None:
            raise arg.invalid("an idempotency key is its account's own: name the account too")
        return await self.queries.keys(
            arg.optional_name(account, "an account"),
            arg.key_cursor(after),
            arg.count(limit, "limit", self.limits.page_items),
            None if key is None else arg.key(key),
        )

    async def audit(
        self,
        *,
        target: str | None = None,
        actor: str | None = None,
        after: int | str | None = None,
        limit: int = 50,
    ) -> Page[AuditView]:
        """A page of the audit log, newest first; `after` is the `next` of the page before.

        target: only acts on this target, such as `account ana`. actor: only acts of this actor. Both match exactly.
        """
        asked = ListAudit(
            arg.cursor(after, "after"),
            arg.count(limit, "limit", self.limits.page_items),
            None if target is None else arg.text(target),
            None if actor is None else arg.text(actor),
        )
        return await self.queries.audit(asked)

    async def verify(self) -> list[str]:
        """Checks every invariant over the whole database; returns each violation as a sentence."""
        return await self.queries.verify()

    async def note_verification(self, violations: int) -> None:
        """Writes to the audit log how many violations `verify` found. Metrics show the last such line."""
        if type(violations) is not int or violations < 0:
            raise arg.invalid(f"violations must be a whole number from 0 up, not {violations!r}")
        command = c.ActingAs(self.actor or SYSTEM, c.NoteVerification(violations))
        answer(await self.engine.call(command), VerificationNoted)
