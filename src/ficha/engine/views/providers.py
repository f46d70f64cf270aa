"""The state of external providers, and what is left of the credits after providers were paid."""

from __future__ import annotations

from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from ...core.policy import DAY, MILLION, SECOND
from ...core.turns import held_turns
from ...store.base import MarginLine, ProviderRow
from .dates import moment, moment_if_any

BreakerState = Literal["closed", "open", "probing"]


class ProviderView(Struct, frozen=True, kw_only=True):
    """The state of an external provider, over all processes.

    breaker: `closed` while requests are sent, `open` while none is, `probing` when a single one may find out whether
        the provider works again.
    failures: requests in a row that failed. trips: how often in a row the breaker has opened; 0 if an operator opened
        it. down_since, down_until: since when it is not closed, and until when no request is sent.
    turns: requests under way, where `at_once` limits them. wait_s: how long a new request waits for its turn.
    rate, at_once: how many requests the provider accepts, as the application declares; None without a limit.
    """

    name: str
    breaker: BreakerState
    failures: int
    trips: int
    down_since: datetime | None
    down_until: datetime | None
    error: str | None
    turns: int
    wait_s: float
    rate: str | None = None
    at_once: int | None = None


def provider_view(row: ProviderRow) -> ProviderView:
    state, outage = row.state, row.outage
    is_probing = outage is not None and (outage.probe is not None or outage.until_at <= row.now)
    return ProviderView(
        name=row.name,
        breaker="closed" if outage is None else "probing" if is_probing else "open",
        failures=0 if state is None else state.failures,
        trips=0 if outage is None else outage.trips,
        down_since=None if outage is None else moment(outage.since_at),
        down_until=moment_if_any(None if outage is None else outage.until_at),
        error=None if outage is None else outage.error,
        turns=0 if state is None else len(held_turns(state, row.now)),
        wait_s=0.0 if state is None else max(0, state.next_at - row.now) / SECOND,
    )


class MarginView(Struct, frozen=True, kw_only=True):
    """The jobs of a tool and a plan that were submitted on one UTC day and whose provider's price is known.

    credits: charged and not refunded. provider_cost: in the operator's currency.
    """

    day: date
    tool: str
    plan: str
    jobs: int
    credits: int
    provider_cost: float


def margin_view(line: MarginLine) -> MarginView:
    return MarginView(
        day=moment(line.day_number * DAY).date(),
        tool=line.tool,
        plan=line.plan,
        jobs=line.jobs,
        credits=line.credits,
        provider_cost=line.provider_cost / MILLION,
    )
