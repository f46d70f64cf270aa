"""Batches: many jobs submitted together, then watched, cancelled, resumed or exported as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from .. import validation as arg
from ..batch_lines import LineFormat
from ..engine.views import BatchCancelled, BatchResumed, BatchView, Page, Receipt
from ..outbound import Answer
from ..requests import BatchOptions, BatchRequest, batch_items
from .effects import Emit, Flow, Open, Read, Send, Stream
from .jobs import JobMethods
from .operation import iteration, operation
from .problems import trouble_of
from .sending import fields


class BatchMethods(JobMethods):
    @operation
    def submit_batch(
        self,
        items: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        account: str | None = None,
        **options: Unpack[BatchOptions],
    ) -> Flow[Receipt]:
        """Creates and charges a job for each (tool, payload), all of them or none."""
        return self._submitted("/api/batches", BatchRequest(items=batch_items(items), account=account, **options))

    @operation
    def submit_batch_request(self, request: BatchRequest) -> Flow[Receipt]:
        """The same, from a request."""
        return self._submitted("/api/batches", request)

    @operation
    def batch(self, batch_id: str, *, by_checkpoint: bool = False) -> Flow[BatchView]:
        """A batch with its jobs by status and its progress; with `by_checkpoint`, which needs a service key, also its
        active jobs by checkpoint."""
        path = "/api/system/batch-status" if by_checkpoint else "/api/batches"
        return self.get(f"{path}/{arg.job_id(batch_id, 'batch')}", BatchView)

    @operation
    def batches(
        self, *, account: str | None = None, after: str | None = None, limit: int = 50
    ) -> Flow[Page[BatchView]]:
        """A page of batches, newest first: a user's own, or with a service key those of one account or of all."""
        return self.get("/api/batches", Page[BatchView], account=account, cursor=after, limit=limit)

    @iteration
    def export_batch(self, batch_id: str, *, form: LineFormat = "jsonl", payload: bool = False) -> Stream[bytes]:
        """Every job of a batch with its result, one line each, in the order of the submit: lines of JSON or CSV, piece
        by piece. payload: with each job's payload too."""
        path = f"/api/batches/{arg.job_id(batch_id, 'batch')}/results"
        query = fields({"format": form, "payload": "true" if payload else None})
        request = Send(method="GET", path=path, query=query, headers={"Accept": "*/*"}, harmless=True)
        # Not retried, since the caller may have taken a part already.
        answer: Answer = yield Open(request)
        if answer.status != 200:
            raise trouble_of(answer, self.url)
        while piece := (yield Read()):
            yield Emit(piece)

    @operation
    def cancel_batch(self, batch_id: str, *, reason: str | None = None) -> Flow[int]:
        """Cancels and refunds the batch's active jobs, and returns how many."""
        path = f"/api/batches/{arg.job_id(batch_id, 'batch')}/cancel"
        return (yield from self.post(path, BatchCancelled, {"reason": reason}, harmless=True)).cancelled

    @operation
    def resume_batch(self, batch_id: str) -> Flow[BatchResumed]:
        """Resumes an interrupted batch: jobs whose worker was lost return to the queue, those in the dead-letter list
        run again as new jobs of the batch. With a user's key, the limits of a submit apply to each new job."""
        return self.post(f"/api/batches/{arg.job_id(batch_id, 'batch')}/resume", BatchResumed)
