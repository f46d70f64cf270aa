"""What `ficha top` shows, from the overview and the list of workers: plain figures, and how they look in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ..core.alerts import Alert
from ..engine.views import Overview, PoolView, WorkerView
from .output import duration, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

RECENT: Final = 5
"""From how many of the last minutes waits and run times are taken."""
STATES: Final = {"alive": "green", "silent": "red"}
SEVERITIES: Final = {"critical": "bold red", "warning": "yellow"}


class TopFigures(Struct, frozen=True, kw_only=True):
    """One frame. Throughput is that of the last whole minute; waits and runs are the longest of the last five minutes'
    percentiles."""

    as_of: datetime
    submitted: int
    completed: int
    failed: int
    cancelled: int
    wait_s: float | None
    wait_p95_s: float | None
    run_s: float | None
    run_p95_s: float | None
    waiting: dict[str, int]
    """How many jobs wait, by plan."""
    pools: list[PoolView]
    workers: list[WorkerView]
    dead_letters: int
    alerts: list[Alert]


def top_figures(overview: Overview, workers: Iterable[WorkerView]) -> TopFigures:
    waiting: Counter[str] = Counter()
    for series in overview.depth:
        waiting[series.plan] += series.values[-1]
    counts = {
        name: sum(series.values[-2] for series in getattr(overview, name))
        for name in ("submitted", "completed", "failed", "cancelled")
    }
    return TopFigures(
        as_of=overview.as_of,
        **counts,
        wait_s=_longest(overview.wait_p50),
        wait_p95_s=_longest(overview.wait_p95),
        run_s=_longest(overview.run_p50),
        run_p95_s=_longest(overview.run_p95),
        waiting={plan: count for plan, count in sorted(waiting.items()) if count},
        pools=overview.pools,
        workers=sorted((one for one in workers if one.state in STATES), key=_silent_first),
        dead_letters=overview.dead_letters,
        alerts=overview.alerts,
    )


def _silent_first(worker: WorkerView) -> tuple[bool, str]:
    return worker.state != "silent", worker.name


def _longest(values: list[float | None]) -> float | None:
    return max((value for value in values[-RECENT:] if value is not None), default=None)


def frame(figures: TopFigures, note: str = "") -> RenderableType:
    """The figures for a terminal, of whatever width; `note` is a line of the moment, such as an error."""
    from rich.console import Group
    from rich.text import Text

    now = figures.as_of.astimezone()
    parts: list[RenderableType] = [
        Text.assemble(("ficha top", "bold"), f"  {now:%H:%M:%S}  ", (printable(note), "bold red")),
        Text(
            f"last minute: {figures.submitted} submitted, {figures.completed} completed, {figures.failed} failed, "
            f"{figures.cancelled} cancelled; dead letters: {figures.dead_letters}"
        ),
        Text(
            f"wait {_time(figures.wait_s)} typical, {_time(figures.wait_p95_s)} at 95 %; "
            f"run {_time(figures.run_s)} typical, {_time(figures.run_p95_s)} at 95 %"
        ),
        *(Text(printable(alert.text), SEVERITIES[alert.severity]) for alert in figures.alerts),
        _table(
            ("POOL", "SLOTS", "BUSY", "READY", "PARKED", ""),
            [
                (one.name, "-" if one.slots is None else one.slots, one.busy, one.ready, one.parked, _paused(one))
                for one in figures.pools
            ],
        ),
    ]
    if figures.waiting:
        parts.append(_table(("PLAN", "WAITING"), list(figures.waiting.items())))
    if figures.workers:
        titles = ("WORKER", "STATE", "RUNNING", "COMPLETED", "FAILED", "")
        parts.append(_table(titles, [*map(_worker_row, figures.workers)]))
    else:
        parts.append(Text("no worker is alive", "dim"))
    return Group(*parts)


def _worker_row(one: WorkerView) -> tuple[Any, ...]:
    return one.name, one.state, one.running, one.completed, one.failed, one.problem or ""


def _paused(pool: PoolView) -> str:
    return "paused" if pool.paused else ""


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f} s" if seconds < 10 else duration(seconds)


def _table(titles: tuple[str, ...], rows: list[tuple[Any, ...]]) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, header_style="bold", pad_edge=False)
    for number, title in enumerate(titles):
        is_number = all(isinstance(row[number], int) for row in rows)
        grid.add_column(title, overflow="ellipsis", no_wrap=True, justify="right" if rows and is_number else "left")
    for row in rows:
        grid.add_row(*(Text(printable(str(value)), STATES.get(value, "")) for value in row))
    return grid
