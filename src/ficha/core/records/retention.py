"""How far the removal of what is old has come, and the jobs that it comes back to."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from .keyed import Keyed


class RetentionCursor(Keyed, frozen=True, tag=True):
    """How far the walk over all jobs has come, once for every age: up to which job everything was looked at that is so
    old. `turn` rises with every move."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    rules: str
    """The ages that it was walked under. With other ages it begins anew."""
    turn: int = 0
    walks: dict[str, str] = field(default_factory=dict)
    """By age in microseconds, the id of the last job."""


class KeptJob(Keyed, frozen=True, tag=True):
    """A job that was not due when the walk passed it, because it ended long after its submit: looked at again then."""

    is_in_every_part: ClassVar[bool] = False

    job_id: str
    look_at: int
