"""Bulk acts: what an admin does to all jobs that a search finds."""

from __future__ import annotations

from .. import validation as arg
from ..core.records import BulkVerb
from ..engine.views import BulkActView, Page
from .effects import Flow
from .operation import operation
from .sending import RequestMethods


class BulkMethods(RequestMethods):
    @operation
    def begin_bulk_act(
        self, act: BulkVerb, search: str, *, reason: str, amount: int | None = None, share: float | None = None
    ) -> Flow[BulkActView]:
        """Does an act ("requeue", "discard", "cancel" or "refund") to all jobs that match a search and exist now, in
        the background. The audit log records the reason for each job. A refund gives back all, or of each job an
        `amount` (of one that cost less, what it cost) or a `share`, rounded up to a whole credit."""
        arg.refund_part(amount, share)
        part = {name: value for name, value in (("amount", amount), ("share", share)) if value is not None}
        body = {"act": act, "search": search, "reason": reason, **part}
        return self.post("/api/admin/bulk-acts", BulkActView, body)

    @operation
    def bulk_acts(self, *, after: str | None = None, limit: int = 50) -> Flow[Page[BulkActView]]:
        """A page of bulk acts, newest first; `after` is the `next` of the previous page."""
        return self.get("/api/admin/bulk-acts", Page[BulkActView], cursor=after, limit=limit)

    @operation
    def bulk_act(self, bulk_id: str) -> Flow[BulkActView]:
        """A bulk act with its progress."""
        return self.get(f"/api/admin/bulk-acts/{arg.job_id(bulk_id, 'bulk act')}", BulkActView)

    @operation
    def stop_bulk_act(self, bulk_id: str) -> Flow[BulkActView]:
        """Stops a bulk act. What was done stays."""
        path = f"/api/admin/bulk-acts/{arg.job_id(bulk_id, 'bulk act')}/stop"
        return self.post(path, BulkActView, harmless=True)
