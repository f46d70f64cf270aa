"""The arguments of submitting and listing jobs, the same in-process, over HTTP, in a client and in a terminal.

`SubmitRequest` and `BatchRequest` are themselves the bodies of their routes. The `…Options` have the same fields, as
keyword arguments of Python calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sized
from datetime import datetime
from itertools import islice
from typing import Annotated, Any, TypedDict

from msgspec import Meta, Struct

from . import trace_context
from . import validation as arg
from .core.records import Status
from .engine.views import JobText
from .ids import first_id_at
from .store.base import CLOCKS_APART, ListJobs, ListLibrary
from .validation import Limits

Name = Annotated[str, Meta(min_length=1, max_length=255)]
Seconds = Annotated[float, Meta(ge=0)]


class Body(Struct, frozen=True, kw_only=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all bodies that are sent to a server: an unknown field is refused as a mistake."""


class CommonOptions(TypedDict, total=False):
    """The options of every submit, of one job or of many."""

    idempotency_key: str | None
    key_ttl_hours: float | None
    session: str | None
    run_at: datetime | None
    correlation_id: str | None


class BatchOptions(CommonOptions, total=False):
    """The options of a submit of many jobs."""

    as_far_as_credits: bool


class SubmitOptions(CommonOptions, total=False):
    """The options of a submit of one job."""

    reservation: str | None
    batch: str | None
    delay_s: float


class _Submitting(Body, frozen=True, kw_only=True):
    account: Name | None = None
    idempotency_key: str | None = None
    key_ttl_hours: Seconds | None = None
    session: Name | None = None
    run_at: datetime | None = None
    correlation_id: Name | None = None


class SubmitRequest(_Submitting, frozen=True, kw_only=True):
    """One submit.

    tool, payload: the tool to run, and its arguments.
    account: the account that pays. Over HTTP, service and admin keys name it; a user's key pays with its own.
    idempotency_key: the caller's own name for this submit; a repeat returns the first job.
    key_ttl_hours: how long the key is remembered, up to the application's `key_ttl_max_s`, 30 days. Defaults to its
        `key_ttl_s`, 24 hours.
    session: the caller's own name for a visit; jobs can be listed by it.
    run_at, delay_s: the earliest start, at most the application's `schedule_max_s` ahead, 365 days.
    correlation_id: appears in logs and traces.
    reservation: the id of the quota reservation that the job uses.
    batch: the id of a batch of the same account that the job joins.
    """

    tool: Name
    payload: Mapping[str, Any] = {}
    reservation: str | None = None
    batch: str | None = None
    delay_s: Seconds = 0.0


class BatchItem(Body, frozen=True, kw_only=True):
    tool: Name
    payload: Mapping[str, Any] = {}


class BatchRequest(_Submitting, frozen=True, kw_only=True):
    """Many jobs, all of them or none. The other fields are those of a submit of one job.

    as_far_as_credits: if the balance or the plan's limits do not allow all jobs, creates the first ones that they do.
    """

    items: Annotated[list[BatchItem], Meta(min_length=1)]
    as_far_as_credits: bool = False


class Labels(TypedDict):
    """The caller's own labels for the jobs of a submit, and the caller's trace."""

    session: str | None
    correlation_id: str | None
    trace_context: str | None


def labels_of(request: SubmitRequest | BatchRequest) -> Labels:
    """The labels that a request gives its jobs, checked; and the trace that they are part of."""
    correlation_id = arg.optional_name(request.correlation_id, "a correlation id")
    trace = trace_context.current()
    if trace is None and correlation_id is not None:
        trace = trace_context.checked(correlation_id)
    return {
        "session": arg.optional_name(request.session, "a session"),
        "correlation_id": correlation_id,
        "trace_context": trace,
    }


def batch_items(items: Iterable[tuple[str, Mapping[str, Any]]], most: int | None = None) -> list[BatchItem]:
    """The items of a batch, from tools and payloads.

    most: the most items that are allowed. Of an iterator, which may be endless, at most one more is taken: enough for a
    refusal.
    """
    taken = items if most is None or isinstance(items, Sized) else islice(items, most + 1)
    return [BatchItem(tool=tool, payload=payload) for tool, payload in taken]


class JobNames(TypedDict, total=False):
    """The names that jobs are listed by: only jobs with this tool, pool, batch or session."""

    tool: str | None
    pool: str | None
    batch: str | None
    session: str | None


class JobFilter(JobNames, total=False):
    """Which jobs are listed: those that meet all conditions. `after` is the `next` of the page before; `include` names
    the texts that are not omitted."""

    account: str | None
    statuses: Iterable[Status]
    after: str | None
    limit: int
    include: Iterable[JobText]


class LibraryFilter(TypedDict, total=False):
    """Which work of a library is listed: jobs that meet all conditions.

    tool: only jobs of this tool. since, until: only jobs submitted at or after `since`, and before `until`.
    search: only jobs with these words in their payload; the case of the letters A to Z does not matter.
    after: the `next` of the page before. include: the texts that are not omitted, as in lists of jobs.
    """

    tool: str | None
    since: datetime | None
    until: datetime | None
    search: str | None
    after: str | None
    limit: int
    include: Iterable[JobText]


def library_query(account: str, asked: LibraryFilter, limits: Limits) -> ListLibrary:
    """The checked query for the store. An id tells when its job was submitted, by the submitting process's clock, so a
    search of the past begins at that time and not at the newest job."""
    after, until_at = asked.get("after"), arg.date(asked.get("until"), "until")
    starts = [] if after is None else [arg.job_id(after)]
    starts += [] if until_at is None else [first_id_at(until_at + CLOCKS_APART)]
    return ListLibrary(
        account_id=arg.name(account, "an account"),
        tool=arg.optional_name(asked.get("tool"), "a tool"),
        since_at=arg.date(asked.get("since"), "since"),
        until_at=until_at,
        search=arg.search(asked.get("search")),
        before=min(starts, default=None),
        limit=arg.count(asked.get("limit", 50), "limit", limits.page_items),
        searched=limits.library_searched,
    )


def jobs_query(asked: JobFilter, limits: Limits) -> ListJobs:
    """The checked query for the store."""
    after, batch = asked.get("after"), asked.get("batch")
    return ListJobs(
        account_id=arg.optional_name(asked.get("account"), "an account"),
        statuses=arg.statuses(asked.get("statuses", ())),
        tool=arg.optional_name(asked.get("tool"), "a tool"),
        pool=arg.optional_name(asked.get("pool"), "a pool"),
        batch_id=None if batch is None else arg.job_id(batch, "batch"),
        session=arg.optional_name(asked.get("session"), "a session"),
        before=None if after is None else arg.job_id(after),
        limit=arg.count(asked.get("limit", 50), "limit", limits.page_items),
    )
