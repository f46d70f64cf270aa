"""Jobs before and after their runs: submitted, cancelled, recovered, and taken from the dead-letter list."""

from __future__ import annotations

from msgspec import Struct

from ..records import JobSpec
from .base import Command


class NewJob(Struct, frozen=True, gc=False):
    """What a tool makes of one payload: the part of a submit that becomes one job."""

    id: str
    spec: JobSpec
    payload: str
    priority: int = 0
    """The tool's offset: added to the plan's priority."""
    max_wait_ms: int | None = None
    plans: tuple[str, ...] | None = None
    """The only plans that may submit it; None where any may, and where the application itself submits."""
    provider: str | None = None
    """The external provider whose outage refuses the submit; None if the job waits for the end of an outage."""
    files: tuple[str, ...] = ()
    """The files that its payload names."""


class Submit(Command, frozen=True):
    """Creates and charges all of `jobs`, or none. More than one job needs a `batch_id`, of a new batch or (`joins`) of
    one that the account has already.

    as_far_as_credits: if the balance and the plan's limits do not allow all jobs, creates the first ones that they do.
    submitted_by: the id of the caller's API key, if there is one.
    counts_parts: see `refuse_quota`.
    """

    account_id: str
    jobs: tuple[NewJob, ...]
    fingerprint: str = ""
    key: str | None = None
    key_ttl_ms: int | None = None
    reservation_id: str | None = None
    batch_id: str | None = None
    run_at: int | None = None
    delay_ms: int = 0
    joins: bool = False
    as_far_as_credits: bool = False
    submitted_by: str | None = None
    counts_parts: bool = False


class CancelJob(Command, frozen=True):
    job_id: str
    account_id: str | None = None
    """When given, another account's job is not found."""
    reason: str | None = None
    parts: tuple[str, ...] = ()
    """The other parts of the job's request, which are cancelled with it."""


class Recover(Command, frozen=True):
    """Does what is due for a job by now (see `recover.py`), if anything is."""

    job_id: str


class Requeue(Command, frozen=True):
    """Runs a dead letter again as the new job `new_id`, with a new charge. The old job stays failed and refunded.
    `submitted_by` is as in `Submit`."""

    job_id: str
    new_id: str
    submitted_by: str | None = None


class ToolTerms(Struct, frozen=True, gc=False):
    """What a submit takes from the tool, beside the job itself. The fields are those of `NewJob`,
    with its pool."""

    priority: int = 0
    plans: tuple[str, ...] | None = None
    provider: str | None = None
    pool: str = ""


class Resubmit(Command, frozen=True):
    """Runs a dead letter again as `Requeue` does, but for the account's own user: the limits of a submit apply.

    tools: those that users may call, by name; a job of any other tool is refused.
    """

    account_id: str
    """Another account's job is not found."""
    job_id: str
    new_id: str
    tools: dict[str, ToolTerms]
    submitted_by: str | None = None


class RefundJob(Command, frozen=True):
    """Gives back what a job that ended was charged, or a part of it, if nothing of it was refunded yet.

    amount: only so many credits.
    share: only so much of the charge, as a decimal text from above 0 to 1.
    """

    job_id: str
    reason: str
    amount: int | None = None
    share: str | None = None


class Discard(Command, frozen=True):
    """Removes a job from the dead-letter list."""

    job_id: str
