"""Brakes: a tool is paused, a tool or a pool takes no submits, and jobs of a paused tool are held back."""

from __future__ import annotations

from typing import Literal

from .base import Command

Braked = Literal["tool", "pool"]


class PauseTool(Command, frozen=True):
    """Starts no more jobs of a tool in any of these pools, which are all that there are; or starts them again."""

    tool: str
    pools: tuple[str, ...]
    paused: bool = True


class CloseSubmits(Command, frozen=True):
    """Refuses all submits to a tool or a pool, in words for those who submit; without words, accepts them again."""

    kind: Braked
    name: str
    reason: str | None


class SettleTool(Command, frozen=True):
    """Notes that all waiting jobs of a tool stand where they should, since it was paused or resumed at `since_at`."""

    tool: str
    since_at: int
    paused: bool


class HoldBack(Command, frozen=True):
    """Holds a ready job of a paused tool back, or lets one go whose tool is paused no more."""

    job_id: str
    pool: str
