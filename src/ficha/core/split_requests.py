"""Split requests: a large request that its tool split at the submit, and that is one thing to its owner.

Its parts are jobs with the same `part_of`, each with a run, a charge and a refund of its own. Here is what they are
together. A part that failed may run again as a new job (`requeue_of`), which takes its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nlargest
from typing import Final

from .commands import NewJob
from .records import Account, Job, Status
from .states import FINAL

PARTS_SEARCHED: Final = 1_000
"""How many of an account's newest parts are searched for active ones. Each older one counts as a job of its own: so the
count is never too low, and costs the same however many parts the account ever had."""


def requests_in(jobs: Iterable[NewJob]) -> int:
    """How many requests these new jobs are: the parts of a split request are one."""
    alone = 0
    split = set()
    for job in jobs:
        if job.spec.part_of is None:
            alone += 1
        else:
            split.add(job.spec.part_of)
    return alone + len(split)


def has_parts(account: Account | None) -> bool:
    """Whether the account may have active parts."""
    return account is not None and account.active > 0


def active_parts(jobs: Iterable[Job], account_id: str) -> dict[str, int]:
    """How many active parts each split request of the account has, among its newest parts."""
    parts = (job for job in jobs if job.account_id == account_id and job.spec.part_of is not None)
    newest = nlargest(PARTS_SEARCHED, parts, key=lambda job: job.id)
    return Counter(job.spec.part_of for job in newest if job.spec.part_of is not None and job.place is not None)


def latest_tries(jobs: Iterable[Job]) -> list[Job]:
    """Each item's latest try, in the order in which the items were submitted."""
    by_id = {job.id: job for job in jobs}
    again = {job.requeue_of for job in by_id.values() if job.requeue_of in by_id}
    return sorted((job for job in by_id.values() if job.id not in again), key=lambda job: _first_try(job, by_id))


def _first_try(job: Job, by_id: dict[str, Job]) -> str:
    while job.requeue_of in by_id:
        job = by_id[job.requeue_of]
    return job.id


def status_of(parts: Sequence[Job]) -> Status:
    """The status of the request: queued until a part starts, running until the last has ended; completed if any of them
    is, else failed if any of them is."""
    statuses = {part.status for part in parts}
    if statuses <= FINAL:
        return "completed" if "completed" in statuses else "failed" if "failed" in statuses else "cancelled"
    if statuses == {"starting"} or statuses == {"starting", "queued"}:
        return "starting"
    return "queued" if statuses == {"queued"} else "running"


def progress_of(parts: Sequence[Job]) -> int:
    """The progress of the request in percent: the share of its items that were made or will not be, and of those being
    made what their parts report."""
    if status_of(parts) == "completed":
        return 100
    made = sum(part.spec.units * (100 if part.place is None else _reported(part)) for part in parts)
    return min(99, made // sum(part.spec.units for part in parts))


def _reported(part: Job) -> int:
    return 0 if part.checkpoint is None else part.checkpoint.progress


def delivered_by(parts: Sequence[Job]) -> int | None:
    """How many items were delivered, once the request has ended."""
    if any(part.place is not None for part in parts):
        return None
    return sum(part.delivered or 0 for part in parts if part.status == "completed")
