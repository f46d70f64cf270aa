"""Metrics for Prometheus, read from the database at each request: the same in every process of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

from ..store.base import CountDeliveries

if TYPE_CHECKING:
    from ..app import Ficha
    from ..engine.views import ProviderView

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PROVIDERS: Final = 100
"""The figures of so many providers are shown, by name: each has labels of its own."""


async def figures(app: Ficha) -> bytes:
    registry = CollectorRegistry(auto_describe=True)
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR):
        registry.register(collector)
    stats = await app.stats()
    by_status = Gauge("ficha_jobs", "Active jobs.", ["status"], registry=registry)
    for status, count in stats.by_status.items():
        by_status.labels(status).set(count)
    Gauge("ficha_jobs_stuck", "Held jobs without a heartbeat for too long.", registry=registry).set(stats.stuck)
    Gauge("ficha_dead_letters", "Failed jobs not yet requeued or discarded.", registry=registry).set(stats.dead)
    if stats.avg_run_s is not None:
        Gauge("ficha_run_seconds_average", "From first start to completion, of recent jobs.", registry=registry).set(
            stats.avg_run_s
        )
    slots = Gauge("ficha_pool_slots", "Slots of a pool that has a limit.", ["pool"], registry=registry)
    busy = Gauge("ficha_pool_busy", "Jobs that hold a slot.", ["pool"], registry=registry)
    ready = Gauge("ficha_pool_ready", "Jobs that are ready for a slot.", ["pool"], registry=registry)
    paused = Gauge("ficha_pool_paused", "1 if the pool is paused.", ["pool"], registry=registry)
    for pool in await app.pools():
        if pool.slots is not None:
            slots.labels(pool.name).set(pool.slots)
        busy.labels(pool.name).set(pool.busy)
        ready.labels(pool.name).set(pool.ready)
        paused.labels(pool.name).set(pool.paused)
    if app.policy.webhooks is not None:
        waiting = await app.engine.read(CountDeliveries())
        Gauge("ficha_webhooks_pending", "Webhooks that are still to be delivered.", registry=registry).set(waiting)
    _add_providers(registry, await app.provider_states())
    return generate_latest(registry)


def _add_providers(registry: CollectorRegistry, providers: list[ProviderView]) -> None:
    if not providers:
        return
    down = Gauge("ficha_provider_down", "1 while nothing is sent to the provider.", ["provider"], registry=registry)
    probing = Gauge(
        "ficha_provider_probing", "1 while one request finds out if it works again.", ["provider"], registry=registry
    )
    failures = Gauge("ficha_provider_failures", "Requests in a row that failed.", ["provider"], registry=registry)
    turns = Gauge(
        "ficha_provider_turns", "Requests that are out, where their number is limited.", ["provider"], registry=registry
    )
    wait = Gauge(
        "ficha_provider_wait_seconds", "How long a new request waits for its turn.", ["provider"], registry=registry
    )
    for provider in providers[:PROVIDERS]:
        down.labels(provider.name).set(provider.breaker == "open")
        probing.labels(provider.name).set(provider.breaker == "probing")
        failures.labels(provider.name).set(provider.failures)
        turns.labels(provider.name).set(provider.turns)
        wait.labels(provider.name).set(provider.wait_s)
