"""The memory store's answers about bulk acts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.records import BulkAct
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_bulk_acts(store: MemoryStore, query: q.ListBulkActs) -> list[BulkAct]:
    found = [
        act
        for act in store.state.of(BulkAct).values()
        if query.id in (None, act.id) and (query.before is None or act.id < query.before)
    ]
    return sorted(found, key=lambda act: act.id, reverse=True)[: query.limit]


def _list_due_bulk_acts(store: MemoryStore, query: q.ListDueBulkActs) -> list[BulkAct]:
    now = store.clock()
    due = [act for act in store.state.of(BulkAct).values() if act.state == "running" and act.holdable_at() <= now]
    return sorted(due, key=lambda act: (act.holdable_at(), act.id))[: query.limit]


BULK_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.ListBulkActs: _list_bulk_acts,
    q.ListDueBulkActs: _list_due_bulk_acts,
}
