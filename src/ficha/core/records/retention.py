"""How far the removal of old jobs has come, and the jobs that it checks again later."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from .keyed import Keyed


class RetentionCursor(Keyed, frozen=True, tag=True):
    """How far the walks over all jobs have come. Each age has a walk of its own, with the last job that it has passed.
    `turn` rises with every move."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    rules: str
    """The name of the rules for which it walked (`rules_name`). Under other rules every walk begins anew."""
    turn: int = 0
    walks: dict[str, str] = field(default_factory=dict)
    """By age in microseconds, the id of the last job."""


class KeptJob(Keyed, frozen=True, tag=True):
    """A job that was not due when a walk passed it, as one that ended long after its submit. It is checked again at
    `look_at`."""

    is_in_every_part: ClassVar[bool] = False

    job_id: str
    look_at: int
