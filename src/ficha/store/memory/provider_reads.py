"""The memory store's answers about external providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.policy import DAY, MILLISECOND
from ...core.records import (
    Awaiting,
    ProviderOutage,
    ProviderState,
)
from .. import base as q

if TYPE_CHECKING:
    from .store import MemoryStore


def _list_providers(store: MemoryStore, query: q.ListProviders) -> list[q.ProviderRow]:
    states, outages = store.state.of(ProviderState), store.state.of(ProviderOutage)
    names = sorted({*states, *outages})[: query.limit]
    return [q.ProviderRow(name, store.clock(), states.get(name), outages.get(name)) for name in names]


def _get_margins(store: MemoryStore, query: q.GetMargins) -> list[q.MarginLine]:
    sums: dict[tuple[int, str, str], list[int]] = {}
    for job in store.state.jobs.values():
        if job.provider_cost is not None and query.since_at <= job.created_at < query.until_at:
            found = sums.setdefault((job.created_at // DAY, job.spec.tool, job.plan), [0, 0, 0])
            for index, amount in enumerate((1, job.charged - job.refunded, job.provider_cost)):
                found[index] += amount
    return [q.MarginLine(*names, *amounts) for names, amounts in sorted(sums.items())[: query.limit]]


def _list_polls(store: MemoryStore, query: q.ListPolls) -> list[q.DuePoll]:
    now = store.clock()
    found = sorted(
        (job.place.poll_at, job.id)
        for held in store.held.values()
        for job in map(store.state.jobs.__getitem__, held)
        if isinstance(job.place, Awaiting) and job.place.poll_at is not None and job.spec.tool in query.tools
    )
    return [q.DuePoll(job_id, max(0, -(-(poll_at - now) // MILLISECOND))) for poll_at, job_id in found[: query.limit]]


PROVIDER_READS: dict[type[q.Query[Any]], Callable[[MemoryStore, Any], Any]] = {
    q.ListPolls: _list_polls,
    q.ListProviders: _list_providers,
    q.GetMargins: _get_margins,
}
