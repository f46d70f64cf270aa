"""Reads from the database what metrics are made of. No query takes longer when there are, or were, more jobs."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..core.alerts import LATE_MS
from ..core.policy import DAY
from ..core.records import AuditLine, Figures, QueueCount, Worker
from ..core.verification import VERIFIED
from ..store import base as q

COUNTED: Final = 10_000
"""Dead letters, messages and hooks are counted up to this number."""
SEEN: Final = DAY
"""A worker that was not seen for longer is left out."""


class MetricReadings(Struct, frozen=True):
    """total: the sum of all figures since the first. waiting: counts of the waiting jobs. figures_late_us: how long ago
    the oldest commit not yet added up was made. verified: the audit line of the last `verify`."""

    now: int
    total: Figures
    waiting: tuple[QueueCount, ...]
    figures_late_us: int
    pools: list[q.PoolCounts]
    workers: list[Worker]
    counts: q.AlertCounts
    backlog: q.Backlog
    times: list[q.PoolTimes]
    verified: AuditLine | None


async def metric_readings(reader: q.Reader, stuck_ms: int) -> MetricReadings:
    read = reader.read
    point = await read(q.GetFigurePoint())
    total = await read(q.GetTotal())
    ahead = await read(q.ListFigures(0 if point.cursor is None else point.cursor.number, limit=1))
    verified = await read(q.ListAudit(limit=1, target=VERIFIED))
    return MetricReadings(
        point.now,
        Figures() if total is None else total.figures,
        () if point.cursor is None else point.cursor.waiting,
        max(0, point.now - ahead[0].at) if ahead else 0,
        await read(q.ListPools(count_waiting=False)),
        await read(q.ListWorkersSeen(point.now - SEEN)),
        await read(q.GetAlertCounts(stuck_ms, LATE_MS, COUNTED)),
        await read(q.GetBacklog(COUNTED)),
        await read(q.ListPoolTimes()),
        verified[0].line if verified else None,
    )
