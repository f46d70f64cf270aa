"""What operators see: searches among all jobs, a job's page, dead letters by their error."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from ...core.acts import Act
from ...core.policy import SECOND
from ...core.records import Job, Status
from ...core.runs import Attempt, RunEnd
from .accounts import EntryView
from .dates import moment, moment_if_any
from .files import FileView
from .jobs import EventView, JobView


class JobSearch(Struct, frozen=True, kw_only=True):
    """A part of what a search found, newest first, without the stored texts.

    next: what to ask for to get the following part; None at the end. A part may have no items and still a `next`.
    looked_at: how many jobs the search scanned for it.
    is_whole: false where the search stopped because it had scanned enough jobs, and not because the part was full.
    back_to: the time back to which jobs were scanned; None if the search reached the beginning.
    """

    items: list[JobView]
    next: str | None
    looked_at: int
    is_whole: bool
    back_to: datetime | None


class JobCount(Struct, frozen=True, kw_only=True):
    """How many jobs match, and what they cost together: what a requeue of all would charge.

    is_exact: false where the count stopped because it had counted or scanned enough jobs; there may be more.
    """

    count: int
    is_exact: bool
    credits: int


class SearchWords(Struct, frozen=True, kw_only=True):
    """The values that complete a search text."""

    tools: list[str]
    pools: list[str]
    plans: list[str]
    states: list[Status]
    providers: list[str]


class DeadGroup(Struct, frozen=True, kw_only=True):
    """Dead letters of one tool with one error, in which `…` stands for numbers and ids.

    credits: what requeuing all of them would charge. first_at, last_at: when the first and the last of them failed.
    job_id: the newest of them.
    """

    error: str
    tool: str
    count: int
    credits: int
    first_at: datetime
    last_at: datetime
    job_id: str


class DeadGroups(Struct, frozen=True):
    """The dead letters by error, most of them first. `is_whole`: false if only the newest were looked at."""

    items: list[DeadGroup]
    is_whole: bool


class AttemptView(Struct, frozen=True, kw_only=True):
    """One run of a job. how: how it ended, or `running`; `recovered` is a run that was lost with its worker, `returned`
    one whose worker stopped."""

    number: int
    worker: str | None
    began_at: datetime
    ended_at: datetime | None
    how: RunEnd | Literal["running"]
    error: str | None


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        worker=attempt.worker,
        began_at=moment(attempt.began_at),
        ended_at=moment_if_any(attempt.ended_at),
        how=attempt.end or "running",
        error=attempt.error,
    )


class StepView(Struct, frozen=True, kw_only=True):
    """A stored step.

    took_s: seconds since the step, checkpoint or start before it; None if that is not known.
    result: left out where the results of all steps together are too large for a page.
    """

    name: str
    saved_at: datetime
    took_s: float | None
    result: Raw | UnsetType = UNSET


class RecentRun(Struct, frozen=True, kw_only=True):
    """A job that ended, and how long it took from its first start."""

    job_id: str
    status: Status
    finished_at: datetime
    run_s: float


def recent_run(job: Job) -> RecentRun | None:
    if job.started_at is None or job.finished_at is None:
        return None
    return RecentRun(
        job_id=job.id,
        status=job.status,
        finished_at=moment(job.finished_at),
        run_s=max(0, job.finished_at - job.started_at) / SECOND,
    )


class JobPage(Struct, frozen=True, kw_only=True):
    """All that an operator sees of one job. Secret fields of its texts are masked.

    events: the first of its history; `more_events` says whether there are more.
    attempts: its runs. recent_runs: the runs of its tool that ended last.
    traceback: that of its last failed run.
    trace_url: where its trace is shown, if the server is configured with such an address.
    acts: what an operator could do to it now.
    live_workers: how many workers of its pool are alive.
    """

    job: JobView
    events: list[EventView]
    more_events: bool
    steps: list[StepView]
    attempts: list[AttemptView]
    entries: list[EntryView]
    files: list[FileView]
    recent_runs: list[RecentRun]
    traceback: str | None
    trace_url: str | None = None
    acts: tuple[Act, ...]
    live_workers: int
