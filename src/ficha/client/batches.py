"""Batches: many jobs submitted together, all or none, then watched, cancelled or resumed as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from .. import validation as arg
from ..engine.views import BatchView, Receipt
from .effects import Flow
from .jobs import JobMethods
from .operation import operation
from .requests import date, json


class _Cancelled(Struct):
    cancelled: int


class _Resumed(Struct):
    resumed: int


class BatchMethods(JobMethods):
    @operation
    def submit_batch(
        self,
        items: Iterable[tuple[str, Mapping[str, Any]]],
        *,
        account: str | None = None,
        idempotency_key: str | None = None,
        key_ttl_hours: float | None = None,
        session: str | None = None,
        run_at: datetime | None = None,
        correlation_id: str | None = None,
    ) -> Flow[Receipt]:
        """Creates and charges a job for each (tool, payload), all of them or none."""
        body = self.keyed(
            items=[{"tool": tool, "payload": json(payload)} for tool, payload in items],
            account=account,
            idempotency_key=idempotency_key,
            key_ttl_hours=key_ttl_hours,
            session=session,
            run_at=date(run_at),
            correlation_id=correlation_id,
        )
        return self.submitted("/api/batches", body)

    @operation
    def batch(self, batch_id: str) -> Flow[BatchView]:
        """A batch with its jobs by status and how far it is."""
        return self.get(f"/api/batches/{arg.job_id(batch_id, 'batch')}", BatchView)

    @operation
    def cancel_batch(self, batch_id: str, *, reason: str | None = None) -> Flow[int]:
        """Cancels and refunds the batch's active jobs, and returns how many."""
        path = f"/api/batches/{arg.job_id(batch_id, 'batch')}/cancel"
        return (yield from self.post(path, _Cancelled, {"reason": reason}, harmless=True)).cancelled

    @operation
    def resume_batch(self, batch_id: str) -> Flow[int]:
        """Takes up an interrupted batch and returns how many jobs go on: those whose worker was lost return to the
        queue, those in the dead-letter list run again as new jobs of the batch."""
        path = f"/api/batches/{arg.job_id(batch_id, 'batch')}/resume"
        return (yield from self.post(path, _Resumed)).resumed
