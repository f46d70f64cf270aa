"""What is asked for when jobs are submitted or listed: the same in-process, over HTTP, in a client and in a terminal.

`SubmitRequest` and `BatchRequest` are the bodies of their routes as they stand. The `…Options` are what Python calls
take by name, field by field the same.
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


class Body(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The base of all that is sent to a server: a field that nobody knows is a mistake that is told."""


class CommonOptions(TypedDict, total=False):
    """What a submit of one job or of many takes."""

    idempotency_key: str | None
    key_ttl_hours: float | None
    session: str | None
    run_at: datetime | None
    correlation_id: str | None


class BatchOptions(CommonOptions, total=False):
    """What a submit of many jobs takes beside."""

    as_far_as_credits: bool


class SubmitOptions(CommonOptions, total=False):
    """What a submit of one job takes beside."""

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

    tool, payload: what, with which fields.
    account: who pays. Over HTTP, only for service and admin keys; a user's own account is known.
    idempotency_key: the caller's own name for this submit; a repeat gets the first job.
    key_ttl_hours: how long the key is remembered, up to the application's `key_ttl_max_s`, 30 days. Defaults to its
        `key_ttl_s`, 24 hours.
    session: the caller's own name for a visit, for later lists.
    run_at, delay_s: not to be started before; at most the application's `schedule_max_s` ahead, 365 days.
    correlation_id: carried along to logs and traces.
    reservation: the quota slot that it stands on.
    batch: a batch of the same account that it joins.
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
    """Many jobs, all of them or none; the rest is as in a submit of one.

    as_far_as_credits: where the balance or the plan's numbers do not allow all, the first ones that they do allow.
    """

    items: Annotated[list[BatchItem], Meta(min_length=1)]
    as_far_as_credits: bool = False


class Labels(TypedDict):
    """The caller's own words for the jobs of a submit, and the caller's trace."""

    session: str | None
    correlation_id: str | None
    trace_context: str | None


def labels_of(request: SubmitRequest | BatchRequest) -> Labels:
    """The labels that a request gives its jobs, checked; and the trace that they are part of."""
    correlation_id = arg.optional_name(request.correlation_id, "a correlation id")
    return {
        "session": arg.optional_name(request.session, "a session"),
        "correlation_id": correlation_id,
        "trace_context": trace_context.current() or trace_context.checked(correlation_id or ""),
    }


def batch_items(items: Iterable[tuple[str, Mapping[str, Any]]], most: int | None = None) -> list[BatchItem]:
    """The items of a batch, from tools and payloads.

    most: so many are allowed. Of more, which may have no end, only one is taken: enough to be refused.
    """
    taken = items if most is None or isinstance(items, Sized) else islice(items, most + 1)
    return [BatchItem(tool=tool, payload=payload) for tool, payload in taken]


class JobNames(TypedDict, total=False):
    """What jobs are listed by: only those with this tool, pool, batch or session."""

    tool: str | None
    pool: str | None
    batch: str | None
    session: str | None


class JobFilter(JobNames, total=False):
    """Which jobs are listed: those for which all of it is so. `after` is the `next` of the page before; `include` names
    the texts that are not to be left out."""

    account: str | None
    statuses: Iterable[Status]
    after: str | None
    limit: int
    include: Iterable[JobText]


class LibraryFilter(TypedDict, total=False):
    """Which work of a library is listed: that for which all of it is so.

    tool: only this tool's. since, until: only what was submitted at or after the one, and before the other.
    search: only what has these words in its payload; the case of the letters A to Z does not matter.
    after: the `next` of the page before. include: the texts that are not to be left out, as with lists of jobs.
    """

    tool: str | None
    since: datetime | None
    until: datetime | None
    search: str | None
    after: str | None
    limit: int
    include: Iterable[JobText]


def library_query(account: str, asked: LibraryFilter, limits: Limits) -> ListLibrary:
    """The question to the store, checked. An id tells when its job was submitted, by the clock of whoever submitted it,
    so that a search of the past begins there, and not at the newest job."""
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
    """The question to the store, checked."""
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
