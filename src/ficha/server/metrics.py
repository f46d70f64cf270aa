"""Metrics for Prometheus: those of the database, the same in every process, and those of this process.

The counters of the database are sums over all time that the leader of the sweepers adds to (`core/figures.py`), so they
never go down: not when a process starts anew, and not when old figures or jobs are deleted.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import PLATFORM_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry
from prometheus_client import Metric as Family
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest

from ..core.measures import BEYOND, DURATIONS_MS, OTHER, SIZES
from ..core.policy import MILLION, SECOND
from ..core.records import Histogram, Measures
from ..core.workers import state_of
from ..engine.metric_readings import MetricReadings, metric_readings
from ..version import __version__
from .metric_table import METRICS
from .process_metrics import SHARED, ProcessCollector, memory_bytes

if TYPE_CHECKING:
    from ..app import Ficha
    from ..engine.views import ProviderView

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
CACHED_S: Final = 1.0
"""How long an answer is reused for other scrapes."""
MOST_NAMES: Final = 100
"""How many pools, providers and workers have labels of their own, the first by name; the rest count as `other`."""

Labels = tuple[str, ...]


class Metrics:
    """The text that Prometheus reads. However many scrapes arrive, the database is read once a second at most."""

    def __init__(self, app: Ficha) -> None:
        self._app = app
        self._made_at = float("-inf")
        self._making: asyncio.Future[list[Family]] | None = None

    async def text(self) -> bytes:
        return rendered(await self.families())

    async def families(self) -> list[Family]:
        """The metrics of the database."""
        making = self._making
        is_old = time.monotonic() - self._made_at > CACHED_S
        if making is None or (making.done() and (is_old or making.exception() is not None)):
            making = self._making = asyncio.ensure_future(self._make())
            self._made_at = time.monotonic()
        # A scrape that is cancelled must not cancel the reading that others wait for.
        return await asyncio.shield(making)

    async def _make(self) -> list[Family]:
        engine = self._app.engine
        readings = await metric_readings(engine, engine.policy.stuck_ms)
        return [*database_families(readings, await self._app.provider_states())]


def rendered(families: Iterable[Family]) -> bytes:
    """The given metrics and those of this process, as text."""
    registry = CollectorRegistry()
    registry.register(_Made([*families, build_info(), memory()]))
    # Where several processes share a port, a scrape reaches any of them: its memory and processor time say nothing.
    own = () if SHARED is not None else (PROCESS_COLLECTOR,)
    for collector in (ProcessCollector(), *own, PLATFORM_COLLECTOR):
        registry.register(collector)
    return generate_latest(registry)


def build_info() -> Family:
    return _gauge("ficha_build_info", {(__version__,): 1})


def memory() -> Family:
    found = memory_bytes()
    return _gauge("ficha_memory_bytes", {} if found is None else {(): found})


class _Made:
    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def describe(self) -> list[Family]:
        return []

    def collect(self) -> list[Family]:
        return self._families


def database_families(seen: MetricReadings, providers: list[ProviderView]) -> Iterator[Family]:
    yield from _jobs(seen)
    yield from _measures(seen.total.measures or Measures())
    total, taken = seen.total, 0 if seen.total.measures is None else seen.total.measures.taken
    yield _counter("ficha_credits_charged_total", {(): total.charged})
    yield _counter("ficha_credits_refunded_total", {(): total.refunded})
    yield _counter("ficha_credits_granted_total", {(): total.granted + taken})
    yield _counter("ficha_credits_taken_total", {(): taken})
    yield _counter("ficha_provider_cost_total", {(): total.provider_cost / MILLION})
    yield from _backlog(seen)
    yield from _pools(seen)
    yield from _workers(seen)
    yield from _providers(providers)


def _jobs(seen: MetricReadings) -> Iterator[Family]:
    submitted: defaultdict[Labels, float] = defaultdict(int)
    started, finished, waiting = submitted.copy(), submitted.copy(), submitted.copy()
    for one in seen.total.counts:
        submitted[one.plan, one.tool] += one.submitted
        started[one.plan, one.tool] += one.started
        for end in ("completed", "failed", "cancelled"):
            finished[one.plan, one.tool, end] += getattr(one, end)
    for queued in seen.waiting:
        waiting[queued.plan, queued.tool, "ready"] += max(0, queued.ready)
        waiting[queued.plan, queued.tool, "parked"] += max(0, queued.parked)
    yield _counter("ficha_jobs_submitted_total", submitted)
    yield _counter("ficha_jobs_started_total", started)
    yield _counter("ficha_jobs_finished_total", finished)
    yield _gauge("ficha_jobs_waiting", waiting)


def _measures(found: Measures) -> Iterator[Family]:
    yield _histogram("ficha_job_wait_seconds", found.waits)
    yield _histogram("ficha_job_run_seconds", found.runs)
    yield _histogram("ficha_provider_call_seconds", found.latencies)
    yield _histogram("ficha_batch_jobs", {"": found.batches or Histogram(0, {})}, SIZES, 1)
    calls: dict[Labels, Any] = {
        (name, how): count for name, counts in found.calls.items() for how, count in counts.items()
    }
    yield _counter("ficha_provider_calls_total", calls)


def _backlog(seen: MetricReadings) -> Iterator[Family]:
    backlog, verified = seen.backlog, seen.verified
    yield _gauge("ficha_jobs_stuck", {(): seen.counts.stuck})
    yield _gauge("ficha_dead_letters", {(): seen.counts.dead})
    yield _gauge("ficha_leases_overdue", {(): backlog.overdue})
    yield _gauge("ficha_sweeper_lag_seconds", {(): _lag_s(backlog.now, backlog.overdue_at)})
    yield _gauge("ficha_figures_lag_seconds", {(): seen.figures_late_us / SECOND})
    yield _gauge("ficha_webhooks_pending", {(): backlog.messages})
    yield _gauge("ficha_webhooks_lag_seconds", {(): _lag_s(backlog.now, backlog.message_at)})
    yield _gauge("ficha_hooks_pending", {(): backlog.hooks})
    yield _gauge("ficha_hooks_lag_seconds", {(): _lag_s(backlog.now, backlog.hook_at)})
    yield _gauge("ficha_verify_timestamp_seconds", {} if verified is None else {(): verified.at / SECOND})
    yield _gauge("ficha_verify_violations", {} if verified is None else {(): verified.details["violations"]})


def _lag_s(now: int, due_at: int | None) -> float:
    return 0.0 if due_at is None else max(0, now - due_at) / SECOND


def _pools(seen: MetricReadings) -> Iterator[Family]:
    slots: defaultdict[Labels, float] = defaultdict(int)
    busy, ready, paused, served = slots.copy(), slots.copy(), slots.copy(), slots.copy()
    seen_at: dict[Labels, float] = {}
    names = _names(counts.pool.name for counts in seen.pools)
    for counts in seen.pools:
        label = (names[counts.pool.name],)
        if counts.pool.limit is not None:
            slots[label] += counts.pool.limit
        busy[label] += counts.occupied
        paused[label] = max(paused[label], counts.pool.paused)
        ready[label] += max(0, sum(one.ready for one in seen.waiting if one.pool == counts.pool.name))
        served[label] += 0
    for worker in seen.workers:
        for pool in worker.pools:
            label = (names.get(pool, OTHER),)
            seen_at[label] = max(seen_at.get(label, 0.0), worker.seen_at / SECOND)
            served[label] += state_of(worker, seen.now) == "alive"
    waits: dict[Labels, float] = dict.fromkeys(served, 0.0)
    heard: dict[Labels, float] = {}
    for times in seen.times:
        label = (names.get(times.pool, OTHER),)
        if times.waiting_since is not None:
            waits[label] = max(waits.get(label, 0.0), (seen.now - times.waiting_since) / SECOND)
        if times.heard_at is not None:
            # Pools that share a label show the one that has been silent for longest.
            heard[label] = min(heard.get(label, float("inf")), times.heard_at / SECOND)
    yield _gauge("ficha_pool_slots", slots)
    yield _gauge("ficha_pool_busy", busy)
    yield _gauge("ficha_pool_ready", ready)
    yield _gauge("ficha_pool_oldest_wait_seconds", waits)
    yield _gauge("ficha_pool_heartbeat_timestamp_seconds", heard)
    yield _gauge("ficha_pool_paused", paused)
    yield _gauge("ficha_pool_workers", served)
    yield _gauge("ficha_pool_seen_timestamp_seconds", seen_at)


def _workers(seen: MetricReadings) -> Iterator[Family]:
    states: dict[Labels, float] = {("alive",): 0.0, ("silent",): 0.0}
    seen_at: dict[Labels, float] = {}
    names = _names(worker.name for worker in seen.workers)
    for worker in seen.workers:
        label = (names[worker.name],)
        # Workers that share a label show the one that has been silent for longest.
        seen_at[label] = min(seen_at.get(label, float("inf")), worker.seen_at / SECOND)
        states[state_of(worker, seen.now),] += 1
    yield _gauge("ficha_workers", states)
    yield _gauge("ficha_worker_seen_timestamp_seconds", seen_at)


def _providers(providers: list[ProviderView]) -> Iterator[Family]:
    """Providers that share a label show the worst value."""
    names = _names(provider.name for provider in providers)
    values: dict[str, dict[Labels, float]] = {name: {} for name in _OF_PROVIDER}
    for provider in providers:
        label = (names[provider.name],)
        told = {
            "down": provider.breaker == "open",
            "probing": provider.breaker == "probing",
            "failures": provider.failures,
            "turns": provider.turns,
            "wait_seconds": provider.wait_s,
        }
        for name, value in told.items():
            values[name][label] = max(values[name].get(label, 0), value)
    for name, found in values.items():
        yield _gauge(f"ficha_provider_{name}", found)


_OF_PROVIDER: Final = ("down", "probing", "failures", "turns", "wait_seconds")


def _names(found: Iterable[str]) -> dict[str, str]:
    """The label of each name: the first `MOST_NAMES`, sorted by name so that labels are stable, have their own."""
    return {name: name if index < MOST_NAMES else OTHER for index, name in enumerate(sorted(set(found)))}


# The parts of Prometheus' format


def _counter(name: str, values: dict[Labels, Any]) -> Family:
    return _filled(CounterMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels), values)


def _gauge(name: str, values: dict[Labels, Any]) -> Family:
    return _filled(GaugeMetricFamily(name, METRICS[name].help, labels=METRICS[name].labels), values)


def _filled(family: CounterMetricFamily | GaugeMetricFamily, values: dict[Labels, Any]) -> Family:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, float(value))
    return family


def _histogram(
    name: str, found: dict[str, Histogram], bounds: tuple[int, ...] = DURATIONS_MS, unit: int = 1_000
) -> Family:
    """`unit`: how many units of the stored values make one that is shown (1,000 ms, a second)."""
    labels = METRICS[name].labels
    family = HistogramMetricFamily(name, METRICS[name].help, labels=labels)
    for label, histogram in sorted(found.items()):
        buckets, below = [], 0
        # A stored bound that this release does not have counts into the next bound up.
        for bound in sorted({*bounds, *histogram.buckets} - {BEYOND}):
            below += histogram.buckets.get(bound, 0)
            if bound in bounds:
                buckets.append((str(bound / unit), below))
        buckets.append(("+Inf", below + histogram.buckets.get(BEYOND, 0)))
        family.add_metric((label,) if labels else (), buckets, histogram.sum / unit)
    return family
