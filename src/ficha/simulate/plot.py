"""The plot of a comparison: one SVG picture, or the same in an HTML page. It needs no library and loads nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from ..core.policy import DAY, HOUR, SECOND
from .comparison import busy_shares, figures_of_scenario, plans_of, pools_of, waits_over_time
from .replay import BUCKETS, Simulated
from .traffic import Unusable

COLOURS: Final = ("#5b6b7f", "#c8501e", "#2166ac", "#3c8d40", "#8e4ea6", "#a67c00")
"""The colours of the scenarios; the first is that of today's."""
WIDTH: Final = 960
_LEFT, _RIGHT, _ROW, _GAP, _TOP = 96, 24, 110, 46, 92
_TICKS_S: Final = (1, 10, 60, 600, 3_600, 36_000, 360_000, 3_600_000)
_INK, _GRID, _PAPER = "#26303b", "#dfe4ea", "#ffffff"


def write_plot(simulated: Sequence[Simulated], path: Path) -> None:
    """Writes the picture; the file's name says in which form."""
    if path.suffix.lower() not in (".svg", ".html"):
        raise Unusable(f"--plot {path}: the file's name must end in .svg or .html")
    picture = svg(simulated)
    if path.suffix.lower() == ".html":
        names = escape(", ".join(done.scenario.name for done in simulated))
        head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Simulation: {names}</title>'
        picture = f'{head}<body style="margin:24px;background:{_PAPER}">{picture}</body></html>\n'
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise Unusable(f"--plot {path} cannot be written: {error.strerror}") from None


def svg(simulated: Sequence[Simulated]) -> str:
    """For each plan the wait over time, for each pool its use, and the credits kept; a colour per scenario."""
    plans = plans_of(simulated)
    parts = [_legend(simulated)]
    y = _TOP
    for plan in plans:
        lines = [waits_over_time(done, plan) for done in simulated]
        parts.append(_waits_row(simulated, plan, lines, y))
        y += _ROW + _GAP
    for pool in pools_of(simulated):
        shares = [busy_shares(done, pool) for done in simulated]
        has_limit = any(pool in done.pools and done.pools[pool].limit for done in simulated)
        words = "slots held" if has_limit else "jobs held, of the most at once (it has no limit)"
        parts.append(_row(simulated, f"pool {pool}: {words}", shares, y))
        y += _ROW + _GAP
    parts.append(_money(simulated, y))
    height = y + 34 * len(simulated) + 40
    style = "font-family:system-ui,sans-serif;font-size:13px"
    title = f'<text x="{_LEFT}" y="30" font-size="18" font-weight="600" fill="{_INK}">Simulation</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'style="{style}" role="img"><rect width="100%" height="100%" fill="{_PAPER}"/>{title}{"".join(parts)}</svg>\n'
    )


def _legend(simulated: Sequence[Simulated]) -> str:
    parts, x = [], _LEFT
    for number, done in enumerate(simulated):
        name = done.scenario.name
        parts.append(f'<rect x="{x}" y="44" width="14" height="14" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{x + 20}" y="56" fill="{_INK}">{escape(name)}</text>')
        x += 44 + 8 * len(name)
    return "".join(parts)


def _waits_row(simulated: Sequence[Simulated], plan: str, lines: Sequence[Sequence[float | None]], y: int) -> str:
    """Waits reach from seconds to hours, so the axis is logarithmic: from a second up."""
    most = max((value for line in lines for value in line if value is not None), default=0.0)
    top = next((tick for tick in _TICKS_S[1:] if tick >= most), _TICKS_S[-1])
    scaled = [
        [None if value is None else math.log(max(value, 1.0)) / math.log(top) for value in line] for line in lines
    ]
    ticks = [(math.log(tick) / math.log(top), _duration(tick)) for tick in _TICKS_S if tick <= top]
    totals = []
    for done in simulated:
        found = next(line for line in figures_of_scenario(done).waits if line.plan == plan)
        totals.append(f"{done.scenario.name} {_duration(found.wait_p95_s)}")
    title = f"plan {plan}: wait that 95 % did not exceed (in all: {', '.join(totals)})"
    return _row(simulated, title, scaled, y, ticks)


def _row(
    simulated: Sequence[Simulated],
    title: str,
    lines: Sequence[Sequence[float | None]],
    y: int,
    ticks: Sequence[tuple[float, str]] = ((0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")),
) -> str:
    wide = WIDTH - _LEFT - _RIGHT
    parts = [f'<text x="{_LEFT}" y="{y - 8}" font-weight="600" fill="{_INK}">{escape(title)}</text>']
    for share, label in ticks:
        at = y + _ROW * (1 - share)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="{_GRID}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="{_INK}">{label}</text>')
    done = simulated[0]
    unit, word = (DAY, "day") if done.ends_at - done.starts_at > 2 * DAY else (HOUR, "hour")
    span = done.bucket_us * BUCKETS
    every = max(1, -(-span // unit // 14))
    for number in range(0, span // unit + 1, every):
        x = _LEFT + wide * number * unit / span
        if x <= WIDTH - _RIGHT:
            label = f"{word} {number + 1}" if number == 0 else f"{number + 1}"
            parts.append(f'<text x="{x:.1f}" y="{y + _ROW + 16}" fill="{_INK}" font-size="11">{label}</text>')
    for number, line in enumerate(lines):
        path, pen = [], "M"
        for index, value in enumerate(line):
            if value is None:
                pen = "M"
                continue
            x, at = _LEFT + wide * (index + 0.5) / BUCKETS, y + _ROW * (1 - min(1.0, value))
            path.append(f"{pen}{x:.1f} {at:.1f}")
            pen = "L"
        if path:
            drawn = " ".join(path)
            parts.append(
                f'<path d="{drawn}" fill="none" stroke="{_colour(number)}" stroke-width="1.6" stroke-linejoin="round" '
                'stroke-linecap="round"/>'
            )
    return "".join(parts)


def _money(simulated: Sequence[Simulated], y: int) -> str:
    """A bar for the credits that each scenario keeps, with what was refused."""
    figures = [figures_of_scenario(done) for done in simulated]
    most = max([1, *(one.kept for one in figures)])
    wide = WIDTH - _LEFT - _RIGHT - 430
    parts = [f'<text x="{_LEFT}" y="{y - 8}" font-weight="600" fill="{_INK}">credits kept</text>']
    for number, one in enumerate(figures):
        at = y + 34 * number
        length = wide * one.kept / most
        worth = "" if one.revenue is None else f", worth {one.revenue:,.2f}"
        refused = sum(one.refusals.values())
        words = f"{one.kept:,}{worth}; {refused:,} of {one.jobs:,} submits refused"
        parts.append(f'<rect x="{_LEFT}" y="{at}" width="{length:.1f}" height="22" fill="{_colour(number)}"/>')
        parts.append(f'<text x="{_LEFT + length + 8:.1f}" y="{at + 16}" fill="{_INK}">{escape(words)}</text>')
    return "".join(parts)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _duration(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds * SECOND / HOUR:.0f} h"
