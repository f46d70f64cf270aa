"""The memory store's answers about hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.records import DeclaredHook, PendingHook
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_hooks(store: MemoryStore, query: q.ListHooks) -> list[PendingHook]:
    now = store.clock()
    found = [
        hook
        for hook in store.state.hooks.values()
        if (not query.names or hook.name in query.names) and (not query.is_due or hook.due_at <= now)
    ]
    return sorted(found, key=lambda hook: (hook.due_at, hook.job_id, hook.name))[: query.limit]


def _list_declared_hooks(store: MemoryStore, query: q.ListDeclaredHooks) -> q.DeclaredHooks:
    found = sorted(store.state.of(DeclaredHook).values(), key=lambda hook: hook.name)
    return q.DeclaredHooks(store.clock(), found[: query.limit])


def _count_hooks(store: MemoryStore, query: q.CountHooks) -> list[q.OwedHook]:
    found: dict[str, list[int]] = {}
    for due_at, name in sorted((hook.due_at, hook.name) for hook in store.state.hooks.values())[: query.limit]:
        found.setdefault(name, []).append(due_at)
    return [q.OwedHook(name, len(times), times[0]) for name, times in sorted(found.items())]


HOOK_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.ListHooks: _list_hooks,
    q.ListDeclaredHooks: _list_declared_hooks,
    q.CountHooks: _count_hooks,
}
