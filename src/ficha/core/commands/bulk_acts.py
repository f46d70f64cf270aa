"""Bulk acts: begun and stopped by an operator, held and advanced by whoever works on them."""

from __future__ import annotations

from ..records import BulkVerb
from .base import Command


class BeginBulkAct(Command, frozen=True):
    """Begins an act on all jobs that a search finds; `total` and `credits` were counted before."""

    act_id: str
    act: BulkVerb
    search: str
    reason: str
    actor: str
    total: int
    credits: int
    before_id: str
    floor_id: str | None = None


class HoldBulkAct(Command, frozen=True):
    """Takes an act that is due, to work on it. After so long, whoever took it is taken for dead."""

    act_id: str
    hold_ms: int


class AdvanceBulkAct(Command, frozen=True):
    """Does the act to the next jobs and remembers how far it came, in one decision: no job is acted on twice, wherever
    whoever works on it dies.

    hold: the number of the hold; a later one fences it off.
    from_id: where the step begins; if the act came further, because an earlier try was committed, nothing is done.
    jobs: their ids, each with that of the new job, if the act makes one.
    before_id: where the next step begins; None if these were the last.
    broken: a job whose act cannot even be decided, and why; it is passed over.
    """

    act_id: str
    hold: int
    hold_ms: int
    from_id: str
    jobs: tuple[tuple[str, str | None], ...] = ()
    before_id: str | None = None
    broken: tuple[str, str] | None = None


class StopBulkAct(Command, frozen=True):
    """Nothing more is done. What was done stays."""

    act_id: str
