"""What was set out to be reached: ratios within one run, and a few limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OURS: Final = "Ficha"
CEILING: Final = "raw ceiling"
FASTEST: Final = "fastest peer"


@dataclass(frozen=True)
class Target:
    """We are to be at least so many times as fast in one measurement as another, which may be in another measurement.
    Where it is a wait that is measured, as fast means as short.

    among: of whom the fastest is meant; empty for all.
    """

    database: str
    key: str
    peer: str
    theirs: str
    least: float
    among: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limit:
    """Our p50 in one measurement is to be under so many milliseconds."""

    database: str
    key: str
    under_ms: float


LISTENERS: Final = ("PgQueuer", "Procrastinate")

TARGETS: Final = (
    Target("PostgreSQL", "submit_1", FASTEST, "submit_1", 1.0),
    Target("PostgreSQL", "submit_64", FASTEST, "submit_64", 4.0),
    Target("PostgreSQL", "submit_512", FASTEST, "submit_512", 5.0),
    Target("PostgreSQL", "submit_512", CEILING, "bulk", 0.6),
    Target("PostgreSQL", "bulk", CEILING, "bulk", 0.6),
    Target("PostgreSQL", "claim_finish", "PgQueuer", "work", 1.3),
    Target("PostgreSQL", "work_apart_1", "PgQueuer", "work_apart_1", 1.0),
    Target("PostgreSQL", "work_apart_2", "PgQueuer", "work_apart_2", 0.8),
    Target("PostgreSQL", "latency", FASTEST, "latency", 1.0, LISTENERS),
    Target("PostgreSQL", "latency_apart", FASTEST, "latency_apart", 1.0, LISTENERS),
    Target("SQLite", "submit_64", "huey", "submit_64", 3.0),
    Target("SQLite", "claim_finish", "huey", "work", 5.0),
)
LIMITS: Final = (Limit("SQLite", "latency", 1.0),)


@dataclass(frozen=True)
class ByteLimit:
    """A finished life is to cost us at most so many bytes, of storage or of log."""

    what: str
    most: int


BYTE_LIMITS: Final = (ByteLimit("storage", 1_700), ByteLimit("log", 3_000))
