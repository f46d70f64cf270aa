"""The question for hooks that are still to be run."""

from __future__ import annotations

from ...core.records import PendingHook
from .query import Query


class ListHooks(Query[list[PendingHook]], frozen=True):
    """Hooks that are still to be run, the longest due first.

    names: only these; empty for all. is_due: only those that may be run by now, by the database's clock.
    """

    names: tuple[str, ...] = ()
    is_due: bool = False
    limit: int = 50
