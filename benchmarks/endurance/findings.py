"""What a measure found: figures, tables, plots, and whether the target was reached."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..databases import Kind
from .sizes import Size

Say = Callable[[str], None]


@dataclass(frozen=True)
class Verdict:
    """One target and what was measured against it."""

    what: str
    target: str
    measured: str
    is_reached: bool


@dataclass(frozen=True)
class Plot:
    """Lines over one axis: name → its points. `spans` are stretches of the axis with a name of their own."""

    name: str
    title: str
    across: str
    up: str
    lines: dict[str, list[tuple[float, float]]]
    spans: tuple[tuple[float, float, str], ...] = ()


@dataclass
class Findings:
    """`tables` are titles and rows, the first of them the header; `notes` say what was done, and what it means."""

    verdicts: list[Verdict] = field(default_factory=list)
    tables: list[tuple[str, list[list[str]]]] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measure:
    """Something to measure: its key on the command line and in the results, what it is, and how."""

    key: str
    title: str
    take: Callable[[Sequence[Kind], Size, Say], Awaitable[Findings]]


def about(subject: str, say: Say) -> Say:
    """Says what it is about first."""
    return lambda text: say(f"{subject}: {text}")


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
