"""Work that is overdue: whether a process leads the sweeps, leases that are over, parked jobs that are due."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..core.policy import SECOND
from ..engine.sweeper import DUTY
from .database import Looking
from .findings import Finding, Severity
from .looked_over import LookedOver

COUNTED = 10_000
"""How many overdue rows are counted at most."""


async def duties(seen: LookedOver[Looking]) -> AsyncIterator[Finding]:
    sql, limits = seen.database.dialect, seen.limits
    [(now,)] = await seen.database.rows(f"SELECT {sql.clock}")
    late_at = now - int(limits.overdue_s * SECOND)
    parts = {
        "leader_until": sql.read("expires_at", "instant"),
        "late": sql.parameter(1, "instant"),
        "duty": sql.parameter(2, "text"),
        "most": str(COUNTED),
    }
    [(leader_until, leases, parked, active)] = await seen.database.ask("duties", late_at, DUTY, **parts)
    is_led = leader_until is not None and leader_until >= now - int(limits.sweeper_s * SECOND)
    if not is_led and active:
        since = "no process has ever" if leader_until is None else f"for {(now - leader_until) // SECOND} s none has"
        yield Finding(
            "duties",
            "NOBODY_SWEEPS",
            "critical" if leases or parked else "warning",
            f"Jobs wait or run, and {since} led the sweeps that recover jobs and start delayed ones.",
            "Start a server or a worker (`ficha serve`, `ficha worker`); `ficha recover` sweeps once, now.",
        )
    severity: Severity = "warning" if is_led else "critical"
    if leases:
        yield Finding(
            "duties",
            "LEASES_OVERDUE",
            severity,
            f"{_count(leases)} held jobs are over their lease or their deadline by more than {limits.overdue_s:g} s, "
            "and nobody has recovered them.",
            "See the log of the servers and workers for sweeps that fail; `ficha recover` recovers them now.",
        )
    if parked:
        yield Finding(
            "duties",
            "PARKED_OVERDUE",
            severity,
            f"{_count(parked)} jobs were due to start more than {limits.overdue_s:g} s ago, and are parked still.",
            "See the log of the servers and workers for sweeps that fail; `ficha recover` starts them now.",
        )


def _count(found: int) -> str:
    return f"{found} or more" if found >= COUNTED else str(found)
