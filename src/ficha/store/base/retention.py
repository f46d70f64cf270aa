"""Questions about what is removed by age, and about what is left of an account that is being erased."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import Job, KeyScope, RetentionCursor
from .query import Query


class RetentionPoint(Struct, frozen=True):
    """The time, how far the walk over all jobs has come (None: it never began), and jobs to look at again by now."""

    now: int
    cursor: RetentionCursor | None
    kept: list[str]


class GetRetention(Query[RetentionPoint], frozen=True):
    """`limit` bounds the jobs to look at again, those that are due longest first."""

    limit: int = 100


class ListOldJobs(Query[list[Job]], frozen=True):
    """Jobs with ids beyond `after` and before `before`, or those with these ids, by id. Without the texts, and without
    their place: an active one has no `finished_at`."""

    after: str | None = None
    before: str | None = None
    ids: tuple[str, ...] | None = None
    account_id: str | None = None
    limit: int = 100


class ListFuller(Query[list[str]], frozen=True):
    """Which of these batches have jobs other than these."""

    batches: tuple[str, ...]
    jobs: tuple[str, ...]


class RowsLeft(Struct, frozen=True):
    """What an account has beside its jobs and files: the ids of its API keys that still have their name, its
    idempotency keys, reservations, messages, and the numbers of its ledger lines with a reason and of audit lines with
    words about it."""

    api_keys: list[str]
    keys: list[tuple[KeyScope, str]]
    reservations: list[str]
    deliveries: list[str]
    entries: list[int]
    audit: list[int]


class ListRowsLeft(Query[RowsLeft], frozen=True):
    """At most `limit` of each; of the ledger those after a number."""

    account_id: str
    after_number: int = 0
    limit: int = 500
