"""Questions about bulk acts."""

from __future__ import annotations

from ...core.records import BulkAct
from .query import Query


class ListBulkActs(Query[list[BulkAct]], frozen=True):
    """Newest first (by id, descending); `before` is the id after which the page starts. With `id`, that one alone."""

    id: str | None = None
    before: str | None = None
    limit: int = 50


class ListDueBulkActs(Query[list[BulkAct]], frozen=True):
    """Bulk acts that may be worked on by now, by the database's clock, the longest due first."""

    limit: int = 50
