"""Questions about brakes."""

from __future__ import annotations

from ...core.records import Brake
from .query import Query


class ListBrakes(Query[list[Brake]], frozen=True):
    """All brakes, by name."""
