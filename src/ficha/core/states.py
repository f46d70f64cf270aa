"""The one transition table. No other file says which move of a job is legal."""

from __future__ import annotations

from typing import Final

from .records import Status

MOVES: Final[dict[Status, frozenset[Status]]] = {
    "queued": frozenset({"starting", "cancelled"}),
    "starting": frozenset({"running", "failed", "cancelled", "queued"}),
    "running": frozenset({"completed", "failed", "cancelled", "queued"}),
    "completed": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}

BIRTHS: Final[frozenset[Status]] = frozenset({"queued", "completed"})
"""A job is born queued, or completed where an earlier result of the same content answers it."""

WHY: Final[dict[tuple[Status, Status], str]] = {
    ("queued", "starting"): "a worker claims it",
    ("queued", "cancelled"): "cancelled, or waited too long",
    ("starting", "running"): "the handler starts",
    ("starting", "failed"): "error, timeout or poison",
    ("starting", "cancelled"): "cancelled",
    ("starting", "queued"): "retry or recovery",
    ("running", "completed"): "finish",
    ("running", "failed"): "error, timeout or poison",
    ("running", "cancelled"): "cancelled",
    ("running", "queued"): "retry or recovery",
}

ACTIVE: Final[frozenset[Status]] = frozenset(status for status, moves in MOVES.items() if moves)
FINAL: Final[frozenset[Status]] = frozenset(MOVES) - ACTIVE
HOLDS_SLOT: Final[frozenset[Status]] = frozenset({"starting", "running"})


def is_legal(before: Status, after: Status) -> bool:
    """Whether a job may go from one status to the other."""
    return after in MOVES[before]


def diagram() -> str:
    """The table as a Mermaid state diagram; the documentation shows exactly this text."""
    lines = ["stateDiagram-v2", "    [*] --> queued", "    [*] --> completed: an earlier result is reused"]
    for before, moves in MOVES.items():
        lines += [f"    {before} --> {after}: {WHY[before, after]}" for after in MOVES if after in moves]
    lines += [f"    {status} --> [*]" for status in MOVES if status in FINAL]
    return "\n".join(lines) + "\n"
