"""What was set out to be reached, as ratios within one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OURS: Final = "Ficha"
CEILING: Final = "raw ceiling"
FASTEST: Final = "fastest peer"


@dataclass(frozen=True)
class Target:
    """Our rate in one measurement is to be at least so many times another's, which may be in another measurement."""

    database: str
    key: str
    peer: str
    theirs: str
    least: float


TARGETS: Final = (
    Target("PostgreSQL", "submit_1", FASTEST, "submit_1", 1.0),
    Target("PostgreSQL", "submit_64", FASTEST, "submit_64", 4.0),
    Target("PostgreSQL", "submit_512", FASTEST, "submit_512", 5.0),
    Target("PostgreSQL", "submit_512", CEILING, "bulk", 0.6),
    Target("PostgreSQL", "bulk", CEILING, "bulk", 0.6),
    Target("PostgreSQL", "claim_finish", "PgQueuer", "work", 1.5),
    Target("SQLite", "submit_64", "huey", "submit_64", 3.0),
    Target("SQLite", "claim_finish", "huey", "work", 5.0),
)
