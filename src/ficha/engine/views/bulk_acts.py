"""Bulk acts: what an operator does to all jobs that a search finds."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from ...core.records import BulkAct, BulkFailure, BulkState, BulkVerb
from .dates import moment, moment_if_any


class BulkActView(Struct, frozen=True, kw_only=True):
    """An act on all jobs that a search finds, and its progress.

    total, credits: how many jobs matched when it began, and what they cost together.
    done, failed: for how many jobs the act succeeded, and for how many it failed; a job that no longer matches when the
        act reaches it counts as neither.
    amount, share: of a refund, if it gives back only so many credits of each job, or so much of its charge.
    by: the actor in whose name it runs.
    failures: the first hundred jobs for which it failed, and why.
    """

    id: str
    act: BulkVerb
    search: str
    reason: str
    state: BulkState
    total: int
    done: int
    failed: int
    credits: int
    by: str
    started_at: datetime
    ended_at: datetime | None
    failures: tuple[BulkFailure, ...]
    amount: int | None = None
    share: float | None = None


def bulk_act_view(act: BulkAct) -> BulkActView:
    return BulkActView(
        id=act.id,
        act=act.act,
        search=act.search,
        reason=act.reason,
        state=act.state,
        total=act.total,
        done=act.done,
        failed=act.failed,
        credits=act.credits,
        by=act.actor,
        started_at=moment(act.started_at),
        ended_at=moment_if_any(act.ended_at),
        failures=act.failures,
        amount=act.amount,
        share=None if act.share is None else float(act.share),
    )
