"""The questions of a search among all jobs: which jobs match, and how many there are.

A search walks back over jobs, newest first, and looks at a limited number of them. What it walks over depends on what
is asked: `walks_of` says so once for all stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from ...core.records import Job, Status
from ...core.states import ACTIVE, HOLDS_SLOT
from .query import Query

_SMALL: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def lowered(text: str) -> str:
    """The text with A to Z in lower case and no other letter changed: both databases can do exactly that."""
    return text.translate(_SMALL)


class JobMatch(Struct, frozen=True):
    """What a search asks of a job. All fields must match; of several values of one field, any one may match, but of
    `errors` all must. An empty field matches any job.

    ids: only these jobs.
    keys: submitted with one of these API keys, by their ids.
    errors: each of these texts, which are `lowered`, is part of the job's error, lowered.
    is_dead: whether it is in the dead-letter list.
    is_stuck: whether a worker holds it and has been silent for too long.
    since_id, until_id: the ids that it lies between, the first included. An id tells when its job was submitted.
    """

    ids: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()
    statuses: tuple[Status, ...] = ()
    sessions: tuple[str, ...] = ()
    batches: tuple[str, ...] = ()
    correlation_ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    is_dead: bool | None = None
    is_stuck: bool | None = None
    since_id: str | None = None
    until_id: str | None = None


class SearchPart(Struct, frozen=True):
    """What a search found, newest first and without the texts (see `without_texts`).

    looked_at: how many jobs it looked at.
    stopped: the id where it stopped, because it had found or looked at enough; None if it came to the end.
    """

    jobs: list[Job]
    looked_at: int
    stopped: str | None = None


class SearchJobs(Query[SearchPart], frozen=True):
    """Jobs that match, in the order of `ListJobs`; `before` is the id after which the page starts.

    stuck_before_at: a worker whose last heartbeat is older is silent for too long.
    searched: how many jobs are looked at, at most.
    """

    match: JobMatch
    stuck_before_at: int = 0
    before: str | None = None
    limit: int = 50
    searched: int = 10_000


class CountPart(Struct, frozen=True):
    """How many jobs match among those that were looked at, what they cost together, and where the count stopped."""

    count: int
    credits: int
    looked_at: int
    stopped: str | None = None


class CountJobs(Query[CountPart], frozen=True):
    """Counts what this search would find."""

    search: SearchJobs


class DeadSum(Struct, frozen=True):
    """Dead letters of one tool whose errors begin alike: how many, what they cost, when the first and the last failed,
    and the newest of them."""

    tool: str
    error: str
    jobs: int
    credits: int
    first_dead_at: int
    last_dead_at: int
    newest: str


class SumDeadLetters(Query[list[DeadSum]], frozen=True):
    """The newest `searched` dead letters, by tool and the first characters of their error, in no particular order."""

    searched: int = 10_000
    error_length: int = 300


WalkKind = Literal[
    "id",
    "leases",
    "batch_id",
    "correlation_id",
    "session",
    "dead",
    "submitted_by",
    "account_id",
    "ready",
    "parked",
    "all",
]


class Walk(Struct, frozen=True):
    """What a search walks over: the jobs of a hot table, those with a value in an indexed column, or all."""

    kind: WalkKind
    value: str | None = None


def walks_of(match: JobMatch) -> tuple[Walk, ...]:
    """What to walk over: the fewest jobs that an index can select. Several walks are merged by id."""
    statuses = frozenset(match.statuses)
    if match.ids:
        return (Walk("id"),)
    if match.is_stuck or (statuses and statuses <= HOLDS_SLOT):
        return (Walk("leases"),)
    if match.batches:
        return tuple(Walk("batch_id", value) for value in match.batches)
    if match.correlation_ids:
        return tuple(Walk("correlation_id", value) for value in match.correlation_ids)
    if match.sessions:
        return tuple(Walk("session", value) for value in match.sessions)
    if match.is_dead:
        return (Walk("dead"),)
    if match.keys:
        return tuple(Walk("submitted_by", value) for value in match.keys)
    if match.accounts:
        return tuple(Walk("account_id", value) for value in match.accounts)
    if statuses and statuses <= ACTIVE:
        return (Walk("ready"), Walk("parked"), *((Walk("leases"),) if statuses & HOLDS_SLOT else ()))
    return (Walk("all"),)


class Found(Struct, frozen=True):
    """The jobs that a walk found, newest first: what each costs, by id. The rest is as in `SearchPart`."""

    costs: dict[str, int]
    looked_at: int
    stopped: str | None = None


def merged(walks: Sequence[Found], limit: int) -> Found:
    """What several walks found, as far back as all of them have looked."""
    floor = max((walk.stopped for walk in walks if walk.stopped is not None), default=None)
    costs = {job_id: cost for walk in walks for job_id, cost in walk.costs.items()}
    ids = sorted((job_id for job_id in costs if floor is None or job_id >= floor), reverse=True)[:limit]
    stopped = ids[-1] if len(ids) == limit else floor
    return Found({job_id: costs[job_id] for job_id in ids}, sum(walk.looked_at for walk in walks), stopped)
