"""Questions about external providers: which jobs to poll them for, how each stands, what was earned and paid."""

from __future__ import annotations

from msgspec import Struct

from ...core.records import ProviderOutage, ProviderState
from .query import Query


class DuePoll(Struct, frozen=True):
    """A job whose provider is to be polled, and in how many milliseconds; 0 for now."""

    job_id: str
    wait_ms: int


class ListPolls(Query[list[DuePoll]], frozen=True):
    """Jobs of these tools whose providers are to be polled, the first due first, by the database's clock."""

    tools: tuple[str, ...]
    limit: int = 50


class ProviderRow(Struct, frozen=True):
    """What is stored of an external provider, and the time by the database's clock. Without an outage its circuit
    breaker is closed."""

    name: str
    now: int
    state: ProviderState | None
    outage: ProviderOutage | None


class ListProviders(Query[list[ProviderRow]], frozen=True):
    """Every provider of which something is stored, by name."""

    limit: int = 1_000


class MarginLine(Struct, frozen=True):
    """The jobs of a tool and a plan that were submitted on one day and whose provider's price is known.

    day_number: the UTC day, counted from 1970. credits: charged and not refunded. provider_cost: in millionths.
    """

    day_number: int
    tool: str
    plan: str
    jobs: int
    credits: int
    provider_cost: int


class GetMargins(Query[list[MarginLine]], frozen=True):
    """By day, tool and plan; of jobs that were submitted from `since_at` on and before `until_at`."""

    since_at: int
    until_at: int
    limit: int = 10_000
