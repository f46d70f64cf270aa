"""What applications declare, as far as changes of it are told in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from .keyed import Keyed


class Shape(Struct, frozen=True, gc=False):
    """What was declared of one subject: a tool's price, a plan, the limits."""

    fields: Mapping[str, str]
    told_at: int
    """When the audit log last told of it; 0 if it did not, because nothing was known before."""


class Configuration(Keyed, frozen=True, tag=True):
    """The one row about all processes of a database."""

    is_in_every_part: ClassVar[bool] = False

    name: str
    subjects: Mapping[str, tuple[Shape, ...]]
    """For each subject what is declared, and before it what was declared lately, newest first."""
