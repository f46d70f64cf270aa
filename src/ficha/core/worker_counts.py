"""Counts the runs of each worker: that a run began, and how it ended.

The counts are written in the transaction of the claim, finish, cancel or recovery itself, so they are exact even for a
worker that was killed. The run of a worker ends when a provider accepts the job.
"""

from __future__ import annotations

from .records import Awaiting, Job, Parked, Tally, TallyKind


def ending(before: Job, after: Job) -> TallyKind:
    """How the run that held the job until now ended. The lost run that makes a job poison counts as failed."""
    if after.status == "completed" or after.status == "failed" or after.status == "cancelled":
        return after.status
    match after.place:
        case Awaiting():
            return "accepted"
        case Parked():
            return "retried"
        case _:
            return "recovered" if after.recoveries > before.recoveries else "returned"


def added(before: Tally | None, tally: Tally) -> Tally:
    """The sum of two tallies of one worker and kind."""
    if before is None:
        return tally
    return Tally(tally.worker, tally.kind, before.runs + tally.runs, before.busy_us + tally.busy_us)
