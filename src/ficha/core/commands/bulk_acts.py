"""Bulk acts: begun and stopped by an operator, held and advanced by the process that works on them."""

from __future__ import annotations

from ..records import BulkVerb
from .base import Command


class BeginBulkAct(Command, frozen=True):
    """Begins an act on all jobs that a search finds; `total` and `credits` were counted before. `amount` and `share`
    are those of a `RefundJob`, for each job."""

    act_id: str
    act: BulkVerb
    search: str
    reason: str
    actor: str
    total: int
    credits: int
    before_id: str
    floor_id: str | None = None
    key_id: str | None = None
    amount: int | None = None
    share: str | None = None


class HoldBulkAct(Command, frozen=True):
    """Holds a due act, to work on it. After `hold_ms` its holder counts as dead, and another process may hold it."""

    act_id: str
    hold_ms: int


class AdvanceBulkAct(Command, frozen=True):
    """Does the act to the next jobs and stores how far it came, in one decision: no job is acted on twice, wherever the
    holder dies.

    hold: the number of the hold; a later hold fences it off.
    from_id: where the step begins. If the act came further, because an earlier try was committed, nothing is done.
    jobs: the ids of the jobs, each with the id of the new job if the act makes one.
    before_id: where the next step begins; None if these were the last jobs.
    broken: a job whose act cannot even be decided, and why; the job counts as failed.
    """

    act_id: str
    hold: int
    hold_ms: int
    from_id: str
    jobs: tuple[tuple[str, str | None], ...] = ()
    before_id: str | None = None
    broken: tuple[str, str] | None = None


class StopBulkAct(Command, frozen=True):
    """Stops an act. What it has done so far stays."""

    act_id: str
