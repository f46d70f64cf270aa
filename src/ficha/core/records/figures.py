"""Figures: what commits did to jobs and credits, added up by minute, by hour and over all time."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from .base import Record
from .keyed import Keyed


class JobCounts(Record, frozen=True, array_like=True):
    """Jobs of a plan, tool and pool: the change in how many are ready and parked, and how many were submitted, started
    for the first time, and ended in each way."""

    plan: str
    tool: str
    pool: str
    ready: int = 0
    parked: int = 0
    submitted: int = 0
    started: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0


class Histogram(Record, frozen=True, array_like=True):
    """Numbers, such as durations in milliseconds: their sum, and how many lie at or below each bound and above the one
    before it. The bound `BEYOND` stands for all that are larger than the last."""

    sum: int
    buckets: dict[int, int]


class Measures(Record, frozen=True, omit_defaults=True):
    """What is counted over all time only, not by minute or hour.

    waits: from the submit to the first start, by plan. runs: from there to the completion, by tool. calls: requests to
        providers, by provider and outcome. latencies: how long those took. Durations are in milliseconds.
    batches: how many jobs new batches have. taken: credits that corrections took away; `granted` is less by them.
    """

    waits: dict[str, Histogram] = field(default_factory=dict)
    runs: dict[str, Histogram] = field(default_factory=dict)
    calls: dict[str, dict[str, int]] = field(default_factory=dict)
    latencies: dict[str, Histogram] = field(default_factory=dict)
    batches: Histogram | None = None
    taken: int = 0


class Figures(Record, frozen=True, omit_defaults=True):
    """What one commit did, or many together.

    waits: jobs by the time from the submit to the first start. runs: completed jobs by the time from there to the end.
        Both are counted by `duration_bucket`. failures: failed jobs by reason.
    dead: the change in the number of dead letters.
    charged, refunded, granted: credits. Corrections count as granted, up or down, so that granted less charged plus
        refunded is the sum of all balances.
    provider_cost: in millionths of the operator's currency.
    measures: of a commit, and of the sum of all; the figures of a minute or an hour have none.
    """

    counts: tuple[JobCounts, ...] = ()
    waits: dict[int, int] = field(default_factory=dict)
    runs: dict[int, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    dead: int = 0
    charged: int = 0
    refunded: int = 0
    granted: int = 0
    provider_cost: int = 0
    measures: Measures | None = None


class Rollup(Keyed, frozen=True, tag=True):
    """The figures of one minute, of one hour, or of all time. The key says which (`rollup_key`)."""

    is_in_every_part: ClassVar[bool] = False

    key: str
    begins_at: int
    figures: Figures


class QueueCount(Record, frozen=True, array_like=True):
    """How many jobs of a plan, tool and pool are ready, and how many are parked."""

    plan: str
    tool: str
    pool: str
    ready: int
    parked: int


class FigureCursor(Keyed, frozen=True, tag=True):
    """How far commits are added up, and how many jobs wait after them."""

    name: str
    turn: int = 0
    """Rises with every change: a command made for an earlier turn changes nothing."""
    number: int = 0
    """The number of the last commit that was read. All before it are counted, except those left out."""
    folded_at: int = 0
    """The time up to which figures are added up."""
    left_out: tuple[int, ...] = ()
    """Numbers below `number` that a transaction may still use, because it lasts too long to wait for it."""
    waiting: tuple[QueueCount, ...] = ()
    gap_at: int | None = None
    """When it was last noticed that commits had been deleted before they were counted."""
