"""What is known of external providers."""

from __future__ import annotations

from .keyed import Keyed


class ProviderState(Keyed, frozen=True, tag=True):
    """What all processes share of an external provider: when the next request may go out, and which are out now."""

    name: str
    next_at: int = 0
    """When the next request may go out, if requests are spaced evenly (see `turns.py`)."""
    turns: tuple[tuple[str, int], ...] = ()
    """The requests that are out, where their number is limited: the id of each, and when its caller counts as dead."""
    failures: int = 0
    """Requests in a row that failed, while the circuit breaker is closed."""


class ProviderOutage(Keyed, frozen=True, tag=True):
    """A provider's circuit breaker while it is not closed; the row goes when it closes. A submit reads this row and no
    other, so that submits wait neither for requests nor for each other while the provider works."""

    provider: str
    since_at: int
    until_at: int
    """Until then no request goes out but the probe."""
    trips: int = 1
    """How often in a row it has opened; 0 if an operator opened it."""
    probe: str | None = None
    """The one request that is out to find out whether the provider works again."""
    error: str | None = None
    """The error of the last request that counted, or the reason that an operator gave."""
