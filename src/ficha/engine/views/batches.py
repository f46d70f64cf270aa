"""A batch and how far it is."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import Struct

from ...core.outcomes import Refusal
from ...core.records import Status
from ...core.states import FINAL
from ...store.base import BatchCounts
from .dates import moment


class BatchView(Struct, frozen=True, kw_only=True):
    """A batch and how far it is. A job that was run again counts once, by its latest try. `progress` is the share of
    its jobs that have ended, in percent.

    by_checkpoint: where asked for, its jobs that have not ended, by the checkpoint that they saved last; '' for those
        without one.
    """

    id: str
    account: str
    total: int
    by_status: dict[Status, int]
    progress: int
    created_at: datetime
    by_checkpoint: dict[str, int] | None = None


def batch_view(counts: BatchCounts, by_checkpoint: dict[str, int] | None = None) -> BatchView:
    total = sum(counts.by_status.values())
    ended = sum(count for status, count in counts.by_status.items() if status in FINAL)
    return BatchView(
        id=counts.batch.id,
        account=counts.batch.account_id,
        total=total,
        by_status=counts.by_status,
        progress=100 * ended // total if total else 100,
        created_at=moment(counts.batch.created_at),
        by_checkpoint=by_checkpoint,
    )


class BatchCancelled(Struct, frozen=True):
    """How many jobs of a batch were cancelled."""

    cancelled: int


Left = Literal["completed", "waiting", "running", "cancelled", "failed", "refused", "changed"]
"""Why a resume left a job as it is: it has completed; it waits or runs, with a live worker; it was cancelled; it failed
and is no dead letter (the failure was final, or it was discarded); its requeue was refused; it changed meanwhile."""


class BatchResumed(Struct, frozen=True):
    """How many jobs of a batch were resumed.

    refused: how many of its dead letters could not be run again; they stay in the dead-letter list.
    refusal: why the first of them could not.
    left: the jobs that were not resumed, counted by the reason.
    """

    resumed: int
    refused: int = 0
    refusal: Refusal | None = None
    left: dict[Left, int] = {}
