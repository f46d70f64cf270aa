"""Counts the runs of each worker: that a run began, and how it ended.

The counts are written in the transaction of the claim, finish, cancel or recovery itself, so they are exact even for a
worker that was killed. The run of a worker ends when a provider accepts the job.
"""

from __future__ import annotations

from .records import Awaiting, Job, Leased, Parked, Tally, TallyKind


def run_counted(before: Job, after: Job, now: int) -> tuple[str, TallyKind, int]:
    """Whose run began or ended between the two, how it ended, and how many microseconds it kept the worker busy."""
    old, new = before.place, after.place
    if type(new) is Leased:
        return new.worker, "claimed", 0
    assert type(old) is Leased
    kind = ending(before, after)
    # The end of a lost run is not known, and a clock may have gone back.
    return old.worker, kind, 0 if kind == "recovered" else max(0, now - old.leased_at)


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
