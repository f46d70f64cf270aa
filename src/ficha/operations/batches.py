"""Batches: many jobs submitted together, then watched, cancelled or resumed as one."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any, Final, Unpack

from .. import validation as arg
from ..core import commands as c
from ..core.codes import Code
from ..core.outcomes import Finished, Recovered, Refusal, Submitted
from ..core.records import Status
from ..core.refusals import no_batch
from ..core.states import ACTIVE
from ..core.visibility import is_for_user
from ..engine.views import BatchResumed, BatchView, JobView, Page, Receipt
from ..engine.views.batches import Left
from ..errors import Refused
from ..ids import new_id
from ..requests import BatchOptions, BatchRequest, batch_items, labels_of
from ..store.base import ListBatches
from .submits import LARGE, SubmitOperations

SLICE: Final = 100
"""Dead letters resumed at a time. If a limit refuses all of a slice, the rest is not tried, so that a refused resume
does not cost more for a larger batch."""
RESULTS_READ: Final = 10
"""Jobs read at a time, with all their texts, when a batch's results are exported."""
LIMIT_CODES: Final[frozenset[Code]] = frozenset(
    {"ACTIVE_JOB_EXISTS", "COST_LIMIT", "INSUFFICIENT_CREDITS", "PROVIDER_DOWN", "QUOTA_EXCEEDED", "RATE_LIMITED"}
)


class BatchOperations(SubmitOperations):
    async def submit_batch(
        self,
        items: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        account: str,
        connection: Any = None,
        **options: Unpack[BatchOptions],
    ) -> Receipt:
        """Creates and charges a job for each (tool, payload): all or none, or with `as_far_as_credits` as many of the
        first as the credits allow.

        The options are those of `BatchRequest`. connection: as in `submit`.
        """
        request = BatchRequest(items=batch_items(items, self.limits.batch_jobs), account=account, **options)
        command = self._batch_command(request, is_judged=connection is None)
        return await self._in_span("batch", self._submit(command, connection))

    async def submit_batch_request(self, request: BatchRequest, *, by_user: bool = False) -> Receipt:
        """The same, from a request. `by_user`: only tools that the account's user may call are allowed."""
        return await self._in_span("batch", self._submit(self._batch_command(request, by_user=by_user)))

    async def _batch_command(self, request: BatchRequest, *, by_user: bool = False, is_judged: bool = True) -> c.Submit:
        account = arg.name(request.account, "an account")
        if not request.items:
            raise arg.invalid("a batch needs at least one item")
        self._limit_jobs(len(request.items))
        if len(request.items) > LARGE and is_judged and not request.as_far_as_credits:
            tools = Counter(self._tool(item.tool, by_user).name for item in request.items)
            jobs, counts, unknown = self._least(tools, by_user)
            await self._judge(self._command(request, jobs, "", new_id()), counts, unknown)
        digest = hashlib.sha256()
        kinds = self._batch_kinds(request, digest, by_user)
        made = await self.engine.slices.all_of(account, self._new_jobs(kinds))
        return self._command(
            request, tuple(made), digest.hexdigest(), new_id(), as_far_as_credits=request.as_far_as_credits
        )

    def _batch_kinds(
        self, request: BatchRequest, digest: hashlib._Hash, by_user: bool
    ) -> Iterator[tuple[c.NewJob, int]]:
        """Yields a job of each kind and how many there are of it; adds every item to the digest."""
        labels = labels_of(request)
        for item in request.items:
            tool = self._tool(item.tool, by_user)
            text = self._payload(item.payload)
            digest.update(f"{tool.name}\n{text}\n".encode())
            yield from self._kinds(tool, request.account, item.payload, text, labels, by_user)[1]

    async def batch(self, batch_id: str, *, by_checkpoint: bool = False) -> BatchView:
        """A batch with its progress and its jobs by status; with `by_checkpoint`, also active jobs by checkpoint."""
        asked = arg.job_id(batch_id, "batch")
        view = await self.queries.batch(asked, by_checkpoint=by_checkpoint)
        if view is None:
            raise Refused.of(no_batch(asked))
        return view

    async def batches(
        self, *, account: str | None = None, after: str | None = None, limit: int = 50
    ) -> Page[BatchView]:
        """A page of batches, newest first, of one account or of all; `after` is the `next` of the page before.

        A page of large batches has fewer items: it ends once `Limits.jobs_searched` jobs are counted.
        """
        asked = ListBatches(
            arg.optional_name(account, "an account"),
            None if after is None else arg.job_id(after, "batch"),
            arg.count(limit, "limit", self.limits.page_items),
            self.limits.jobs_searched,
        )
        return await self.queries.batches(asked)

    async def batch_results(self, batch_id: str) -> AsyncGenerator[JobView, None]:
        """Every job of a batch with its payload and result, in the order of their submit, whether ended or not. A job
        that was run again is there once, by its latest try. The jobs are read a few at a time."""
        view = await self.batch(batch_id)
        ids = await self.queries.batch_items(view.id)
        for start in range(0, len(ids), RESULTS_READ):
            for job in await self.queries.jobs_in_full(ids[start : start + RESULTS_READ]):
                yield job

    async def cancel_batch(self, batch_id: str, *, reason: str | None = None) -> int:
        """Cancels and refunds the batch's active jobs, and returns how many."""
        view = await self.batch(batch_id)
        ids = await self.queries.job_ids(view.id, tuple(sorted(ACTIVE)))
        words = None if reason is None else arg.text(reason)
        answers = await self._ask_many([c.CancelJob(job_id, None, words) for job_id in ids], Finished)
        return sum(isinstance(answer, Finished) and answer.changed for answer in answers)

    async def resume_batch(self, batch_id: str, *, account: str | None = None) -> BatchResumed:
        """Resumes an interrupted batch: jobs whose worker was lost return to the queue, those in the dead-letter list
        run again as new jobs of the batch. A job that is refused stays in the dead-letter list.

        account: only if the batch is theirs. Each new job must then pass as a submit of theirs: the tools that users
            may call, their plan and their balance apply. Without it, this is an operator's act, and only the balance
            applies.
        """
        view = await self.batch(batch_id)
        owner = arg.optional_name(account, "an account")
        if owner not in (None, view.account):
            raise Refused.of(no_batch(view.id))
        held = await self.queries.job_ids(view.id, ("starting", "running"))
        dead = await self.queries.job_ids(view.id, ("failed",), dead=True)
        recovered = await self._ask_many([c.Recover(job_id) for job_id in held], Recovered)
        recalled = sum(isinstance(answer, Recovered) and answer.act == "requeued" for answer in recovered)
        again = 0
        refused: list[Refusal] = []
        left = len(dead)
        for start in range(0, len(dead), SLICE):
            answers = await self._ask_many(self._requeues(dead[start : start + SLICE], owner), Submitted)
            left -= len(answers)
            # A job that somebody else requeued or discarded meanwhile is not refused: nothing is left to resume.
            refusals = [one.refusal for one in answers if isinstance(one, Refused) and one.code != "INVALID_STATE"]
            refused += refusals
            again += sum(isinstance(answer, Submitted) for answer in answers)
            if len(refusals) == len(answers) and any(refusal.code in LIMIT_CODES for refusal in refusals):
                break
        return BatchResumed(
            resumed=recalled + again,
            refused=len(refused) + left,
            refusal=refused[0] if refused else None,
            left=_left(view.by_status, len(held) - recalled, len(dead), len(refused) + left, again),
        )

    def _requeues(self, dead: Iterable[str], owner: str | None) -> list[c.Command]:
        if owner is None:
            return [c.Requeue(job_id, new_id(), self.key_id) for job_id in dead]
        tools = {
            tool.name: c.ToolTerms(tool.priority, tool.plans, tool.down_with, tool.pool)
            for tool in self.tools.values()
            if is_for_user(tool.audience)
        }
        return [c.Resubmit(owner, job_id, new_id(), tools, self.key_id) for job_id in dead]


def _left(by_status: Mapping[Status, int], running: int, dead: int, refused: int, again: int) -> dict[Left, int]:
    """Why the jobs that were not resumed were left, from the batch as it was before.

    running: those that a worker holds. dead: those in the dead-letter list. again: those of them that run again.
    """
    found: dict[Left, int] = {
        "completed": by_status.get("completed", 0),
        "waiting": by_status.get("queued", 0),
        "running": running,
        "cancelled": by_status.get("cancelled", 0),
        "failed": by_status.get("failed", 0) - dead,
        "refused": refused,
        "changed": dead - refused - again,
    }
    return {reason: jobs for reason, jobs in found.items() if jobs > 0}
