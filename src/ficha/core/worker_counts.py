"""What is counted of each worker: that a run began, and how it ended.

The counts are written with the claim, the finish, the cancel or the recovery itself, so that they are exact also for a
worker that was killed. A job that waits for a provider is nobody's run any more.
"""

from __future__ import annotations

from .records import Awaiting, Job, Parked, Tally, TallyKind


def ending(before: Job, after: Job) -> TallyKind:
    """How the run that held the job until now ended. Lost runs of a job that is taken for poison count as failed."""
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
    """Two tallies of one worker and kind as one."""
    if before is None:
        return tally
    return Tally(tally.worker, tally.kind, before.runs + tally.runs, before.busy_us + tally.busy_us)
