"""Questions about jobs, their steps and their batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...core.records import Batch, Job, Status, Step
from .query import Query


class JobRow(Struct, frozen=True):
    """A job with its payload and result, which no rule reads."""

    job: Job
    payload: str
    result: str | None


class GetJobs(Query[list[JobRow]], frozen=True):
    """The jobs with these ids that exist, in no particular order."""

    ids: tuple[str, ...]


class GetParts(Query[list[JobRow]], frozen=True):
    """All jobs of a split request, earlier tries of its parts among them, in no particular order."""

    request_id: str


LEFT_OUT: Final = "null"


def without_texts(job: Job) -> Job:
    """The job as a list has it: `LEFT_OUT` stands for the data and the partial result of its checkpoint."""
    point = job.checkpoint
    return job if point is None else replace(job, checkpoint=replace(point, data=LEFT_OUT, partial=LEFT_OUT))


class ListJobs(Query[list[Job]], frozen=True):
    """Newest first (by id, descending), all conditions together; `before` is the id after which the page starts.

    Without the texts, which may be large: payloads and results, and what checkpoints hold (see `without_texts`).
    """

    account_id: str | None = None
    statuses: tuple[Status, ...] = ()
    tool: str | None = None
    pool: str | None = None
    batch_id: str | None = None
    session: str | None = None
    dead: bool = False
    """Only those in the dead-letter list."""
    stuck_before_at: int | None = None
    """Only leased ones whose last heartbeat is older than this."""
    before: str | None = None
    limit: int = 50


LISTED_BY: Final = ("tool", "pool", "batch_id", "session")
"""The fields of `ListJobs` whose value, if there is one, is that of the job's field with the same name."""


class ListSteps(Query[list[Step]], frozen=True):
    """All stored steps of a job, in the order they were stored."""

    job_id: str


class BatchCounts(Struct, frozen=True):
    """A batch and its items by status, each by its latest try."""

    batch: Batch
    by_status: dict[Status, int]


class GetBatch(Query[BatchCounts | None], frozen=True):
    batch_id: str


class CountCheckpoints(Query[dict[str, int]], frozen=True):
    """The jobs of a batch that have not ended, by the checkpoint that they saved last; '' for those without one."""

    batch_id: str


class BatchPart(Struct, frozen=True):
    """A page of batches; `goes_on` says whether more may follow."""

    batches: list[BatchCounts]
    goes_on: bool


class ListBatches(Query[BatchPart], frozen=True):
    """Batches, newest first (by id, descending); `before` is the id before which the page starts.

    counted: the page ends before the batch with which it would have more jobs to count, but has one batch at least.
    """

    account_id: str | None = None
    before: str | None = None
    limit: int = 50
    counted: int = 100_000


def countable(batches: Sequence[Batch], most: int) -> Sequence[Batch]:
    """The first of these batches, as many as have up to `most` jobs together, and one at least."""
    totals = accumulate(batch.total for batch in batches)
    return batches[: max(1, sum(total <= most for total in totals))]
