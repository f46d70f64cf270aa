"""Suspects: waiting jobs that were in a process when it died. One of them may have killed it; the others must not end
for it.

So a job with a lost run runs only beside other such jobs, and before it could end for it, alone. Only a run that had
the process to itself says who is guilty.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .policy import Policy
from .records import Job

LOST_RUNS_MOST: Final = 2**31 - 1
"""More lost runs than a job can have."""


class Suspect(Struct, frozen=True):
    """A ready job with a lost run."""

    job_id: str
    pool: str
    tool: str
    recoveries: int


def is_suspect(job: Job) -> bool:
    return job.recoveries > 0


def runs_alone(policy: Policy, tool: str, recoveries: int) -> bool:
    """Whether a job with so many lost runs has the process to itself: it does before it is set aside."""
    return recoveries >= max(1, policy.recoveries_of(tool) - 1)


def taken_together(policy: Policy, waiting: Sequence[Suspect], most: int) -> list[Suspect]:
    """Which of the waiting suspects, best first, a process takes that runs nothing else: the first alone, or as many as
    may run together."""
    if waiting and runs_alone(policy, waiting[0].tool, waiting[0].recoveries):
        return [waiting[0]]
    return [one for one in waiting if not runs_alone(policy, one.tool, one.recoveries)][:most]
