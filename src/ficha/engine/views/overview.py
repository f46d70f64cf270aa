"""The operator's overview: what happened over time, how things are now, and what needs attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal, get_args

from msgspec import Struct

from ...core.alerts import LATE_MS, Alert, Circumstances, PoolLoad, alerts
from ...core.figures import STEPS, Level, begin_of, percentile_s, total
from ...core.hooks import is_live
from ...core.measures import OTHER
from ...core.policy import HOUR, MILLION, MILLISECOND, SECOND
from ...core.records import Figures, Rollup, Worker
from ...core.schedules import is_unfired
from ...core.workers import state_of
from ...store.base import (
    AlertCounts,
    CommitFigures,
    DeclaredHooks,
    FigurePoint,
    OwedHook,
    PoolCounts,
    PoolTimes,
    ProviderRow,
    ScheduleList,
)
from .dates import moment
from .pools import PoolView

OverviewRange = Literal["1h", "6h", "24h", "7d", "30d"]
RANGES: Final[tuple[OverviewRange, ...]] = get_args(OverviewRange)
_MINUTE: Final = 60 * SECOND
_SPANS: Final[dict[OverviewRange, tuple[Level, int, int]]] = {
    "1h": ("minute", 60, _MINUTE),
    "6h": ("minute", 72, 5 * _MINUTE),
    "24h": ("hour", 24, HOUR),
    "7d": ("hour", 168, HOUR),
    "30d": ("hour", 180, 4 * HOUR),
}
"""For each range, the rollups that it is made of, how many points it has, and how far apart they are."""
SERIES_SHOWN: Final = 50
"""How many combinations of plan and tool have lines of their own; the others are one line, `other`."""
REASONS_SHOWN: Final = 20
DEAD_COUNTED: Final = 10_000
"""Dead letters are counted up to this number."""
STARTED: Final = 5 * _MINUTE
"""A pool in which a job was started within this time has a worker."""
_HISTORY: Final = 25 * HOUR
"""Alerts compare the last hour with the hours before it, up to this long ago."""


class Series(Struct, frozen=True):
    """One line of a chart: the jobs of a plan and a tool, in each step of the range."""

    plan: str
    tool: str
    values: list[int]


class FailureReason(Struct, frozen=True):
    reason: str
    count: int


class WorkerHealth(Struct, frozen=True):
    """Workers that have not stopped and were seen within a day: how many are alive, and which are silent."""

    alive: int
    silent: int
    names_silent: list[str]


class Overview(Struct, frozen=True, kw_only=True):
    """What happened in the time up to now, and how things are now.

    as_of: the time up to which the figures count. times: when each step of `step_s` began; all lists are as long.
    depth: how many jobs waited, ready or parked, at the end of each step. submitted, completed, failed, cancelled: jobs
        in each step. All five by plan and tool, without lines that are zero throughout.
    wait_p50, wait_p95: seconds from the submit to the first start; run_p50, run_p95: from there to the completion. Null
        where there were none. Within 7 % of the exact value.
    charged, refunded, granted: credits. Corrections count as granted. provider_cost: in the operator's currency.
    dead_letters: counted up to a limit; `dead_letters_more` says that there are more.
    """

    as_of: datetime
    range: OverviewRange
    step_s: int
    times: list[datetime]
    depth: list[Series]
    submitted: list[Series]
    completed: list[Series]
    failed: list[Series]
    cancelled: list[Series]
    wait_p50: list[float | None]
    wait_p95: list[float | None]
    run_p50: list[float | None]
    run_p95: list[float | None]
    charged: list[int]
    refunded: list[int]
    granted: list[int]
    provider_cost: list[float]
    failures: list[FailureReason]
    pools: list[PoolView]
    workers: WorkerHealth
    providers_down: list[str]
    dead_letters: int
    dead_letters_more: bool
    alerts: list[Alert]


class OverviewSteps(Struct, frozen=True):
    """The steps of a range: from which rollups they are made, when the first begins, and how many there are."""

    level: Level
    begins_at: int
    step: int
    count: int

    @classmethod
    def of(cls, asked: OverviewRange, now: int) -> OverviewSteps:
        level, count, step = _SPANS[asked]
        return cls(level, now - now % step + step - count * step, step, count)

    def index(self, at: int) -> int | None:
        """The step that a time belongs to; a time that is still to come belongs to the last."""
        return None if at < self.begins_at else min((at - self.begins_at) // self.step, self.count - 1)


class OverviewParts(Struct, frozen=True):
    """What an overview is made of.

    rollups: of the range. minutes, hours: of the last hour and of the last day. ahead: the figures of commits that are
    not added up yet; with `is_cut` there are more of them.
    """

    point: FigurePoint
    rollups: list[Rollup]
    minutes: list[Rollup]
    hours: list[Rollup]
    ahead: list[CommitFigures]
    is_cut: bool
    pools: list[PoolCounts]
    workers: list[Worker]
    providers: list[ProviderRow]
    counts: AlertCounts
    times: list[PoolTimes]
    hooks: DeclaredHooks
    owed: list[OwedHook]
    schedules: ScheduleList


def history_begins(now: int) -> tuple[int, int]:
    """Returns from when on alerts need the minutes, and from when on the hours."""
    return begin_of("minute", now - HOUR), begin_of("hour", now - _HISTORY)


def overview(asked: OverviewRange, parts: OverviewParts) -> Overview:
    now, cursor = parts.point.now, parts.point.cursor
    steps = OverviewSteps.of(asked, now)
    by_step: list[list[Figures]] = [[] for _ in range(steps.count)]
    for at, figures in (*_of_rollups(parts.rollups), *((one.at, one.figures) for one in parts.ahead)):
        if (index := steps.index(at)) is not None:
            by_step[index].append(figures)
    sums = [*map(total, by_step)]
    waiting = _waiting(parts)
    lines = _lines(sums, waiting)
    failures = Counter[str]()
    for figures in sums:
        failures.update(figures.failures)
    late_us = now - parts.ahead[0].at if parts.ahead else 0
    down = {row.name: row.outage.error for row in parts.providers if row.outage is not None}
    gap_at = None if cursor is None else cursor.gap_at
    pools = [_pool(counts, waiting) for counts in parts.pools]
    seen = Circumstances(
        now,
        _loads(parts, pools),
        tuple(parts.workers),
        down,
        parts.counts.stuck,
        parts.counts.messages,
        parts.counts.hooks,
        _hooks_not_run(parts),
        _schedules_not_fired(parts),
        _between(parts, "minute", now - HOUR, now),
        _between(parts, "hour", now - _HISTORY, now - HOUR),
        late_us,
        gap_at is not None and gap_at >= steps.begins_at,
    )
    return Overview(
        as_of=moment(parts.ahead[-1].at if parts.is_cut else now),
        range=asked,
        step_s=steps.step // SECOND,
        times=[moment(steps.begins_at + index * steps.step) for index in range(steps.count)],
        **lines,
        wait_p50=[percentile_s(figures.waits, 0.5) for figures in sums],
        wait_p95=[percentile_s(figures.waits, 0.95) for figures in sums],
        run_p50=[percentile_s(figures.runs, 0.5) for figures in sums],
        run_p95=[percentile_s(figures.runs, 0.95) for figures in sums],
        charged=[figures.charged for figures in sums],
        refunded=[figures.refunded for figures in sums],
        granted=[figures.granted for figures in sums],
        provider_cost=[figures.provider_cost / MILLION for figures in sums],
        failures=[FailureReason(reason, count) for reason, count in failures.most_common(REASONS_SHOWN)],
        pools=pools,
        workers=_health(parts.workers, now),
        providers_down=sorted(down),
        dead_letters=min(parts.counts.dead, DEAD_COUNTED),
        dead_letters_more=parts.counts.dead > DEAD_COUNTED,
        alerts=alerts(seen),
    )


def _hooks_not_run(parts: OverviewParts) -> tuple[str, ...]:
    run = {hook.name for hook in parts.hooks.hooks if is_live(hook.run_at, parts.hooks.now)}
    late_at = parts.hooks.now - LATE_MS * MILLISECOND
    return tuple(hook.name for hook in parts.owed if hook.due_at <= late_at and hook.name not in run)


def _schedules_not_fired(parts: OverviewParts) -> tuple[str, ...]:
    late_at = parts.schedules.now - LATE_MS * MILLISECOND
    return tuple(one.name for one in parts.schedules.schedules if is_unfired(one, late_at))


def _of_rollups(rollups: Iterable[Rollup]) -> Iterable[tuple[int, Figures]]:
    return ((rollup.begins_at, rollup.figures) for rollup in rollups)


def _waiting(parts: OverviewParts) -> dict[tuple[str, str, str], tuple[int, int]]:
    """How many jobs of each plan, tool and pool are ready and parked now."""
    cursor = parts.point.cursor
    counted = () if cursor is None else cursor.waiting
    waiting = {(one.plan, one.tool, one.pool): (one.ready, one.parked) for one in counted}
    for commit in parts.ahead:
        for one in commit.figures.counts:
            name = one.plan, one.tool, one.pool
            ready, parked = waiting.get(name, (0, 0))
            waiting[name] = ready + one.ready, parked + one.parked
    return waiting


def _lines(sums: list[Figures], waiting: dict[tuple[str, str, str], tuple[int, int]]) -> dict[str, list[Series]]:
    """The charts by plan and tool. Depths are counted back from what waits now, so their end is always right."""
    volumes: Counter[tuple[str, str]] = Counter()
    for figures in sums:
        for one in figures.counts:
            volumes[one.plan, one.tool] += one.submitted + one.completed + one.failed + one.cancelled
    for (plan, tool, _), (ready, parked) in waiting.items():
        volumes[plan, tool] += abs(ready) + abs(parked)
    own = {name for name, _ in volumes.most_common(SERIES_SHOWN)}
    charts: dict[str, dict[tuple[str, str], list[int]]] = {name: {} for name in _CHARTS}
    levels: Counter[tuple[str, str]] = Counter()

    def named(plan: str, tool: str) -> tuple[str, str]:
        return (plan, tool) if (plan, tool) in own else (OTHER, OTHER)

    for (plan, tool, _), (ready, parked) in waiting.items():
        levels[named(plan, tool)] += ready + parked
    for index, figures in enumerate(sums):
        for one in figures.counts:
            name = named(one.plan, one.tool)
            numbers = (one.ready + one.parked, one.submitted, one.completed, one.failed, one.cancelled)
            for chart, number in zip(_CHARTS, numbers, strict=True):
                if number:
                    charts[chart].setdefault(name, [0] * len(sums))[index] += number
    changes = charts["depth"]
    charts["depth"] = {name: _depths(levels[name], changes.get(name), len(sums)) for name in {*changes, *levels}}
    return {
        chart: [Series(plan, tool, values) for (plan, tool), values in sorted(lines.items()) if any(values)]
        for chart, lines in charts.items()
    }


_CHARTS: Final = ("depth", "submitted", "completed", "failed", "cancelled")


def _depths(level: int, changes: list[int] | None, count: int) -> list[int]:
    """Returns how many waited at the end of each step, given how many wait now (`level`) and each step's change."""
    if changes is None:
        return [max(0, level)] * count
    depths = []
    for change in reversed(changes):
        depths.append(max(0, level))
        level -= change
    return depths[::-1]


def _pool(counts: PoolCounts, waiting: dict[tuple[str, str, str], tuple[int, int]]) -> PoolView:
    ready, parked = _in_pool(counts.pool.name, waiting)
    return PoolView(
        name=counts.pool.name,
        slots=counts.pool.limit,
        busy=counts.occupied,
        ready=ready,
        parked=parked,
        paused=counts.pool.paused,
    )


def _in_pool(pool: str, waiting: dict[tuple[str, str, str], tuple[int, int]]) -> tuple[int, int]:
    found = [counts for (_, _, name), counts in waiting.items() if name == pool]
    return max(0, sum(ready for ready, _ in found)), max(0, sum(parked for _, parked in found))


def _loads(parts: OverviewParts, pools: list[PoolView]) -> tuple[PoolLoad, ...]:
    lately = _between(parts, "minute", parts.point.now - STARTED, parts.point.now)
    started: Counter[str] = Counter()
    for one in lately.counts:
        started[one.pool] += one.started
    times = {one.pool: one for one in parts.times}
    none = PoolTimes("", None, None)
    return tuple(
        PoolLoad(counts.pool, pool.ready, started[pool.name], found.waiting_since, found.heard_at)
        for counts, pool in zip(parts.pools, pools, strict=True)
        for found in (times.get(pool.name, none),)
    )


def _between(parts: OverviewParts, level: Level, since_at: int, until_at: int) -> Figures:
    """The figures of the minutes or hours that overlap with this time, and of what was not added up yet."""
    rollups = parts.minutes if level == "minute" else parts.hours
    found = [
        rollup.figures
        for rollup in rollups
        if rollup.begins_at + STEPS[level] > since_at and rollup.begins_at + (level == "hour") * HOUR <= until_at
    ]
    return total([*found, *(one.figures for one in parts.ahead if since_at <= one.at <= until_at)])


def _health(workers: list[Worker], now: int) -> WorkerHealth:
    silent = [worker.name for worker in workers if state_of(worker, now) == "silent"]
    return WorkerHealth(len(workers) - len(silent), len(silent), silent)
