"""Submits, which make jobs of payloads; and reservations, which hold a quota slot before the job exists."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, Unpack

from msgspec.structs import replace

from .. import tracing
from .. import validation as arg
from ..core import commands as c
from ..core.outcomes import Finished, Refusal, ReservationChanged, Submitted
from ..core.payload import content_hash
from ..core.records import Job, JobSpec
from ..core.refusals import no_job
from ..core.visibility import is_for_user
from ..engine.positions import QueueStanding
from ..engine.views import EventView, FinishView, Hold, JobView, Page, Receipt, finish_view, hold_view, receipt
from ..errors import Refused
from ..ids import new_id
from ..job_files import FoundFiles, JobFile
from ..requests import BatchRequest, JobFilter, Labels, SubmitOptions, SubmitRequest, jobs_query, labels_of
from ..store.base import StoreError
from ..tools import PayloadMismatch, Tool
from .base import Operations

T = TypeVar("T")
Counting = TypeVar("Counting", c.Submit, c.Reserve)

SLICES: Final = 6
"""Slices of a large submit under way at a time: one is checked while the database writes another."""
LARGE: Final = 100
"""A submit of more jobs than this is judged by their number before they are made: a refusal then costs one read."""


class SubmitOperations(Operations):
    async def submit(
        self,
        tool: str,
        payload: Mapping[str, Any] | None = None,
        *,
        account: str,
        connection: Any = None,
        **options: Unpack[SubmitOptions],
    ) -> Receipt:
        """Creates and charges a job (or, where the tool splits large requests, a batch of them).

        The options are those of `SubmitRequest`.
        connection: your own connection to Ficha's PostgreSQL, inside a transaction (asyncpg's, psycopg's or
            SQLAlchemy's). The call is part of that transaction: it commits or rolls back with it, and the account stays
            locked until then.
        """
        request = SubmitRequest(tool=tool, payload={} if payload is None else payload, account=account, **options)
        command = self._submit_command(request, is_judged=connection is None)
        return await self._in_span(request.tool, self._submit(command, connection))

    async def submit_request(self, request: SubmitRequest, *, by_user: bool = False) -> Receipt:
        """The same, from a request. `by_user`: only tools that the account's user may call are allowed."""
        return await self._in_span(request.tool, self._submit(self._submit_command(request, by_user=by_user)))

    def _in_span(self, name: str, submitting: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Runs the submit, if tracing is on in a span that becomes the parent of its jobs."""
        return submitting if tracing.active is None else self._submit_in_span(tracing.active, name, submitting)

    async def _submit_in_span(self, spans: tracing.Tracing, name: str, submitting: Coroutine[Any, Any, T]) -> T:
        with spans.submit(name) as span:
            made = await submitting
            if isinstance(made, Receipt):
                span.set_attribute("messaging.message.id", made.job_id)
                span.set_attribute("messaging.batch.message_count", made.jobs)
            return made

    async def _submit(self, preparing: Awaitable[c.Submit], connection: Any = None) -> Receipt:
        command = await preparing
        if connection is None:
            return await self._receipt(await self._admitted(command, lambda asked: self._ask(asked, Submitted)))
        outcome, changes = await self._admitted(command, lambda asked: self._ask_within(connection, asked, Submitted))
        new = next((change.after for change in changes.jobs if change.after.id == outcome.job_id), None)
        return await self._receipt(outcome, new)

    async def _admitted(self, command: Counting, ask: Callable[[Counting], Awaitable[T]]) -> T:
        """The answer to a command that a quota may refuse. If it is refused while the account has several active jobs,
        it is asked again with their parts counted, as these may be parts of one request."""
        try:
            return await ask(command)
        except Refused as refused:
            if not _counts_more(command, refused):
                raise
        return await ask(replace(command, counts_parts=True))

    async def submit_many(self, requests: Iterable[SubmitRequest]) -> list[Receipt | Refused]:
        """Submits each request by itself; returns in their order the receipts, or the exception that refused one."""
        wanted = list(requests)
        return await self._in_span("many", self._submit_all(wanted))

    async def _submit_all(self, wanted: list[SubmitRequest]) -> list[Receipt | Refused]:
        turns = asyncio.Semaphore(SLICES)
        # A slice is never more than a commit group, so that the jobs of one account are decided in the order of the
        # requests. It is a little less, so that if two committers share it, two halves still fit into one group.
        size = max(1, self.engine.limits.group_weight * 9 // 10)

        async def submit(start: int) -> list[Receipt | Refused]:
            async with turns:
                return await self._submit_slice(wanted[start : start + size])

        slices = await asyncio.gather(*(submit(start) for start in range(0, len(wanted), size)))
        return [result for results in slices for result in results]

    async def _submit_slice(self, requests: Sequence[SubmitRequest]) -> list[Receipt | Refused]:
        results: list[Receipt | Refused | None] = [None] * len(requests)
        commands: dict[int, c.Submit] = {}
        for index, request in enumerate(requests):
            try:
                commands[index] = await self._submit_command(request)
            except Refused as refused:
                results[index] = refused
        answers = await self._ask_many(list(commands.values()), Submitted)
        for index, outcome in zip(commands, answers, strict=True):
            if isinstance(outcome, Refused) and _counts_more(command := commands[index], outcome):
                [outcome] = await self._ask_many([replace(command, counts_parts=True)], Submitted)
            results[index] = outcome if isinstance(outcome, Refused) else await self._receipt(outcome)
        return [result for result in results if result is not None]

    async def _receipt(self, outcome: Submitted, uncommitted: Job | None = None) -> Receipt:
        try:
            return receipt(outcome, None if outcome.rank is None else await self._position(outcome, uncommitted))
        except StoreError:
            # The submit is committed, even if its position cannot be read.
            return receipt(outcome, None)

    async def _position(self, outcome: Submitted, uncommitted: Job | None) -> int | None:
        if uncommitted is not None:
            standing = await self.engine.positions.of_possible(uncommitted)
        elif outcome.idempotent_hit:
            # The first submit may have come from another process just now, so read the job itself. It is not visible
            # yet if the first submit was in the caller's own transaction, still open.
            view = await self.queries.job(outcome.job_id)
            return None if view is None else view.position
        else:
            standing = await self.engine.positions.of_new(outcome.job_id)
        return None if standing is None else standing.position

    async def _submit_command(
        self, request: SubmitRequest, *, by_user: bool = False, is_judged: bool = True
    ) -> c.Submit:
        """The command for a request. A large one is first judged by the number of its jobs, before they are made,
        unless it runs in the caller's own transaction, whose uncommitted rows could change the answer."""
        tool = self._tool(request.tool, by_user)
        payload = self._payload(request.payload)
        labels = labels_of(request)
        fingerprint = _fingerprint(tool.name, payload)
        count, kinds = self._kinds(tool, request.account, request.payload, payload, labels, by_user)
        if count == 1:
            [(job, _)] = kinds
            return self._single_command(request, (job,), fingerprint)
        account = arg.name(request.account, "an account")
        if count > max(LARGE, self.limits.request_parts) and is_judged:
            jobs, counts, unknown = self._least(Counter({tool.name: count}), by_user)
            await self._judge(self._single_command(request, jobs, fingerprint), counts, unknown)
        made = await self.engine.slices.all_of(account, self._new_jobs(kinds))
        return self._single_command(request, tuple(made), fingerprint)

    def _single_command(self, request: SubmitRequest, jobs: tuple[c.NewJob, ...], fingerprint: str) -> c.Submit:
        joined, reservation = request.batch, request.reservation
        batch_id = arg.job_id(joined, "batch") if joined is not None else None
        if batch_id is None and len(jobs) > 1:
            batch_id = jobs[0].spec.part_of or new_id()
        return self._command(
            request,
            jobs,
            fingerprint,
            batch_id,
            reservation_id=None if reservation is None else arg.job_id(reservation, "reservation"),
            delay_ms=arg.milliseconds(request.delay_s, "delay_s"),
            joins=joined is not None,
        )

    async def _judge(self, command: c.Submit, counts: Sequence[int], unknown: int) -> None:
        """Refuses a submit if even the least that it can ask for is refused."""
        outcome = await self.engine.preview(command, counts, unknown=unknown)
        if isinstance(outcome, Refusal):
            raise Refused.of(outcome)

    def _least(self, counts: Counter[str], by_user: bool) -> tuple[tuple[c.NewJob, ...], tuple[int, ...], int]:
        """The least that these numbers of jobs can ask for, before their payloads are read: a job of each tool, the
        number of each, and the number of further jobs that an earlier result may answer."""
        found = [(self._tool(name, by_user), count) for name, count in counts.items()]
        sure = [(tool, count) for tool, count in found if not tool.dedupe]
        jobs = tuple(
            c.NewJob(
                new_id(),
                JobSpec(tool.name, tool.pool, 0 if callable(tool.cost) else tool.cost),
                "{}",
                plans=tool.plans if by_user else None,
                provider=tool.down_with,
            )
            for tool, _ in sure
        )
        return jobs, tuple(count for _, count in sure), sum(count for tool, count in found if tool.dedupe)

    def _command(
        self,
        request: SubmitRequest | BatchRequest,
        jobs: tuple[c.NewJob, ...],
        fingerprint: str,
        batch_id: str | None,
        reservation_id: str | None = None,
        delay_ms: int = 0,
        joins: bool = False,
        as_far_as_credits: bool = False,
    ) -> c.Submit:
        hours = request.key_ttl_hours
        return c.Submit(
            account_id=arg.name(request.account, "an account"),
            jobs=jobs,
            fingerprint=fingerprint,
            key=None if request.idempotency_key is None else arg.key(request.idempotency_key),
            key_ttl_ms=None if hours is None else max(1, arg.milliseconds(hours, "key_ttl_hours", 3_600, "hours")),
            reservation_id=reservation_id,
            batch_id=batch_id,
            run_at=arg.date(request.run_at, "run_at"),
            delay_ms=delay_ms,
            joins=joins,
            as_far_as_credits=as_far_as_credits,
            submitted_by=self.key_id,
            counts_parts=len(jobs) > 1,
        )

    def _tool(self, name: Any, by_user: bool) -> Tool:
        tool = self.tools.get(name) if isinstance(name, str) else None
        if tool is None or (by_user and not is_for_user(tool.audience)):
            shown = (tool.name for tool in self.tools.values() if not by_user or is_for_user(tool.audience))
            known = ", ".join(sorted(shown)) or "none"
            raise Refused.of(Refusal("UNKNOWN_TOOL", f"there is no tool {str(name)[:80]!r}; declared are: {known}."))
        return tool

    def _payload(self, payload: Mapping[str, Any]) -> str:
        return arg.json(arg.payload(payload), "the payload", self.limits.payload_bytes, self.limits)

    def _kinds(
        self,
        tool: Tool,
        account: Any,
        payload: Mapping[str, Any],
        text: str,
        labels: Labels,
        by_user: bool,
        *,
        by_size: bool = False,
    ) -> tuple[int, Iterable[tuple[c.NewJob, int]]]:
        """How many jobs a payload makes; and, one by one, a job of each kind with the number of that kind."""
        value, files = _fitting(tool, text)
        plans = tool.plans if by_user else None
        units = 1 if tool.items is None else _passed(tool.units_of(payload, value))
        count = tool.jobs_for(units)
        if count == 1:
            return 1, ((self._new_job(tool, account, text, value, files, units, labels, plans), 1),)
        self._limit_jobs(count)
        part_of = new_id() if count <= self.limits.request_parts else None
        # Each part must fit the tool by itself, because the handler gets it alone.
        parts = (
            (self._payload(part), size, jobs) for part, size, jobs in tool.parts(payload, value, units, by_size=by_size)
        )
        return count, (
            (self._new_job(tool, account, text, *_fitting(tool, text), size, labels, plans, part_of), jobs)
            for text, size, jobs in parts
        )

    def _limited(self, kinds: Iterable[tuple[c.NewJob, int]]) -> Iterator[tuple[c.NewJob, int]]:
        """The same jobs; refuses once they are more or larger than one batch may be."""
        jobs = size = 0
        for kind, count in kinds:
            jobs += count
            size += count * (len(kind.payload) if kind.payload.isascii() else len(kind.payload.encode()))
            self._limit_jobs(jobs)
            if size > self.limits.batch_bytes:
                raise Refused.of(
                    Refusal(
                        "TOO_LARGE",
                        f"the payloads of all jobs together are more than the {self.limits.batch_bytes} bytes of JSON "
                        "allowed; nothing was changed. Store large data elsewhere and pass its address, or submit "
                        "less at a time.",
                        details={"limit": self.limits.batch_bytes},
                    )
                )
            yield kind, count

    def _new_jobs(self, kinds: Iterable[tuple[c.NewJob, int]]) -> Iterator[c.NewJob]:
        """The jobs themselves, each with its id."""
        for kind, count in self._limited(kinds):
            yield kind
            for _ in range(count - 1):
                yield replace(kind, id=new_id())

    def _limit_jobs(self, count: int) -> None:
        """Refuses more jobs than one batch may have, before they are made."""
        if count > self.limits.batch_jobs:
            raise Refused.of(
                Refusal(
                    "TOO_LARGE",
                    f"{count} jobs at once are more than the {self.limits.batch_jobs} allowed; nothing was changed. "
                    "Submit them in several parts.",
                )
            )

    def _new_job(
        self,
        tool: Tool,
        account: Any,
        text: str,
        value: Any,
        files: tuple[str, ...],
        units: int,
        labels: Labels,
        plans: tuple[str, ...] | None,
        part_of: str | None = None,
    ) -> c.NewJob:
        equal = content_hash(tool.name, text, arg.name(account, "an account"), tool.dedupe) if tool.dedupe else None
        spec = tool.job_spec(_passed(tool.cost_of(value)), units, equal, **labels, part_of=part_of)
        return c.NewJob(new_id(), spec, text, tool.priority, tool.max_wait_ms, plans, tool.down_with, files)

    async def job(self, job_id: str) -> JobView:
        """A job as it is now, with its position while it waits. A split request is one job; each of its parts' ids, and
        its `batch_id`, name it."""
        # The id in its canonical spelling, as answers show it: another spelling in the refusal would reveal whether the
        # job does not exist or is somebody else's.
        asked = arg.job_id(job_id)
        view = await self.queries.whole_job(asked)
        if view is None:
            raise Refused.of(no_job(asked))
        return view

    async def part(self, job_id: str) -> JobView:
        """The same, but a part of a split request by itself."""
        asked = arg.job_id(job_id)
        view = await self.queries.job(asked)
        if view is None:
            raise Refused.of(no_job(asked))
        return view

    async def job_by_ref(self, ref: str, *, tool: str | None = None) -> JobView:
        """The job that an external provider last accepted under this reference (`Accepted(ref)`), ended or not.

        With `tool`, the last such job of that tool.
        """
        named, kind = arg.name(ref, "a provider's reference"), arg.optional_name(tool, "a tool")
        view = await self.queries.job_by_ref(named, kind)
        if view is None:
            raise Refused.of(Refusal("NOT_FOUND", f"there is no job with the provider's reference {named!r}."))
        return view

    async def jobs(self, **asked: Unpack[JobFilter]) -> Page[JobView]:
        """A page of jobs, newest first; `after` is the `next` of the page before.

        Payloads, results and the data of checkpoints are omitted unless `include` names them.
        """
        return await self.queries.jobs(jobs_query(asked, self.limits), arg.job_texts(asked.get("include", ())))

    async def position(self, job_id: str) -> QueueStanding | None:
        """A waiting job's position, from a queue scan that all callers share: cheap however many ask and wait."""
        return await self.queries.standing(arg.job_id(job_id))

    async def events(
        self, *, job: str | None = None, account: str | None = None, after: int = 0, limit: int = 100
    ) -> list[EventView]:
        """The history of a job, or what happened to all jobs of an account or of all, oldest first, after `after`.

        An answer may have fewer than `limit` events although more follow, because its size is limited too; only an
        empty answer is the end.

        A job's events are numbered from 1, and kept as long as the job. Events of an account or of all are numbered by
        their position among all commits: the newest 100,000 of them are searched, while they are kept
        (`commits_kept_s`).
        """
        job_id = None if job is None else arg.job_id(job)
        account_id = arg.optional_name(account, "an account")
        start, most = arg.cursor(after, "after") or 0, arg.count(limit, "limit", self.limits.page_items)
        if job_id is not None:
            return (await self.queries.history(job_id, account_id, start, most)).items
        return (await self.queries.events(account_id, start, most)).items

    async def cancel(
        self, job_id: str, *, account: str | None = None, reason: str | None = None, connection: Any = None
    ) -> FinishView:
        """Cancels an active job and refunds it; with `account`, only if the job is theirs. An ended job stays as it is.

        Of a split request, the parts that have not ended are cancelled and refunded; those that were delivered stay
        charged.

        connection: as in `submit`.
        """
        words = None if reason is None else arg.text(reason)
        owner = arg.optional_name(account, "an account")
        named = arg.job_id(job_id)
        first, *others = [job.id for job in await self.queries.jobs_of(named)] or [named]
        command = c.CancelJob(first, owner, words, tuple(others))
        ended = finish_view(await self._ask(command, Finished, connection))
        if not others:
            return ended
        whole = await self.job(named)
        refunded = ended.refunded if ended.changed else whole.refunded
        return replace(ended, job_id=whole.id, status=whole.status, refunded=refunded)

    async def reserve(self, account: str, *, ttl_s: float | None = None, connection: Any = None) -> Hold:
        """Holds one slot of the account's quota for a while, before the job exists.

        ttl_s: for how long, up to the application's `reservation_ttl_max_s`, a day. Defaults to its
            `reservation_ttl_s`, 300.
        connection: as in `submit`.
        """
        ttl_ms = None if ttl_s is None else max(1, arg.milliseconds(ttl_s, "ttl_s"))
        command = c.Reserve(new_id(), arg.name(account, "an account"), ttl_ms)
        asking = self._admitted(command, lambda asked: self._ask(asked, ReservationChanged, connection))
        return _hold(await asking)

    async def consume(self, reservation: str, *, account: str | None = None) -> Hold:
        """Marks the reservation as used, because its job exists. A submit that names it does this itself."""
        return await self._end_reservation(reservation, "consumed", account)

    async def release(self, reservation: str, *, account: str | None = None) -> Hold:
        """Frees the slot at once."""
        return await self._end_reservation(reservation, "released", account)

    async def _end_reservation(
        self, reservation: str, state: Literal["consumed", "released"], account: str | None
    ) -> Hold:
        owner = arg.optional_name(account, "an account")
        command = c.EndReservation(arg.job_id(reservation, "reservation"), state, owner)
        return _hold(await self._ask(command, ReservationChanged))


def _counts_more(command: c.Submit | c.Reserve, refused: Refused) -> bool:
    """Whether the refusal could be another one if parts were told apart: a quota counted each of them as a job, or
    could not name the request that is active."""
    details = refused.details
    is_quota = refused.code in ("ACTIVE_JOB_EXISTS", "QUOTA_EXCEEDED") and "active" in details
    return is_quota and not command.counts_parts and (details["active"] > 1 or details.get("job_id", "") is None)


def _hold(outcome: ReservationChanged) -> Hold:
    return hold_view(outcome.reservation, outcome.reservation.created_at, outcome.quota_warnings)


def _fitting(tool: Tool, text: str) -> tuple[Any, tuple[str, ...]]:
    """The payload as the handler would get it, and the ids of the files that it names."""
    found = FoundFiles(JobFile) if tool.payload.has_files else None
    try:
        return tool.arguments(text, found), () if found is None else found.ids
    except PayloadMismatch as mismatch:
        raise Refused.of(Refusal("INVALID_PAYLOAD", f"{mismatch}; nothing was changed.")) from None


def _passed(value: int | Refusal) -> int:
    if isinstance(value, Refusal):
        raise Refused.of(value)
    return value


def _fingerprint(*parts: str) -> str:
    """What a repeat of an idempotency key must match. It protects an account only from its own mistakes, so half of a
    digest is enough."""
    return _digest(*parts)[:32]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
