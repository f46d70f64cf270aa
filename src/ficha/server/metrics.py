"""Metrics for Prometheus, read from the database at each request: the same in every process of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Gauge
from prometheus_client.exposition import generate_latest

if TYPE_CHECKING:
    from ..app import Ficha

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


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
    return generate_latest(registry)
