"""What Prometheus reads of the database: exact over all processes, never less than before, and cheap to ask for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from ficha import Ficha, InvalidArgument
from ficha.core import commands as c
from ficha.core.figures import STEPS
from ficha.core.measures import BEYOND
from ficha.core.policy import DAY, SECOND
from ficha.core.records import Figures, Histogram, Measures, Pool, QueueCount, Worker
from ficha.engine.metric_readings import MetricReadings
from ficha.engine.views import ProviderView, provider_view
from ficha.server import metrics as module
from ficha.server.metric_table import METRICS
from ficha.server.metrics import MOST_NAMES, Metrics, database_families, rendered
from ficha.store import base as q
from tests.support.shop import World, add_up_figures, claim_one

pytestmark = pytest.mark.req("E8")

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""By name and labels."""


@pytest.fixture(autouse=True)
def always_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_S", -1.0)


def samples(text: bytes) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def scraped(app: Ficha) -> Samples:
    return samples(await Metrics(app).text())


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, tuple(sorted(labels.items()))]


async def some_lives(app: Ficha, world: World) -> None:
    for number in range(3):
        await app.submit("upscale", {"image": f"{number}"}, account="ana")
    world.clock.advance(20)
    await app.finish(await claim_one(app), {"image": "y"}, provider_cost=0.25)
    lease = await claim_one(app)
    world.clock.advance(50)
    await app.fail(lease, "no")
    await add_up_figures(app)


async def test_counters_say_what_happened(app: Ficha, world: World) -> None:
    await some_lives(app, world)
    await app.adjust("ana", -7, reason="too much")
    await add_up_figures(app)
    found = await scraped(app)
    series = {"plan": "open", "tool": "upscale"}
    assert of(found, "ficha_jobs_submitted_total", **series) == 3
    assert of(found, "ficha_jobs_started_total", **series) == 2
    names = ("completed", "failed", "cancelled")
    ends = {end: of(found, "ficha_jobs_finished_total", **series, end=end) for end in names}
    assert ends == {"completed": 1, "failed": 1, "cancelled": 0}
    assert of(found, "ficha_jobs_waiting", **series, state="ready") == 1
    assert of(found, "ficha_job_wait_seconds_bucket", plan="open", le="10.0") == 0
    assert of(found, "ficha_job_wait_seconds_bucket", plan="open", le="20.0") == 2
    assert of(found, "ficha_job_wait_seconds_sum", plan="open") == 40
    assert of(found, "ficha_job_run_seconds_count", tool="upscale") == 1
    cost = -sum(entry.amount for entry in (await app.ledger("ana")).items if entry.kind == "charge")
    assert of(found, "ficha_credits_charged_total") == cost
    assert of(found, "ficha_credits_refunded_total") == cost // 3
    assert (of(found, "ficha_credits_granted_total"), of(found, "ficha_credits_taken_total")) == (1_000, 7)
    assert of(found, "ficha_provider_cost_total") == 0.25
    balance = (await app.account("ana")).balance
    assert balance == 1_000 - 7 - cost + cost // 3


async def test_every_process_says_the_same_and_nothing_goes_down(world: World) -> None:
    first = await world.open(sweep_by_itself=False)
    await first.open_account("ana", plan="open", credits=1_000)
    second = await world.open(sweep_by_itself=False)
    before: Samples = {}
    for round_number in range(3):
        await some_lives(first if round_number % 2 else second, world)
        counted = [_counters(await scraped(app)) for app in (first, second)]
        assert counted[0] == counted[1]
        assert all(counted[0][name] >= value for name, value in before.items())
        before = counted[0]
        # What the minutes and the hours said is forgotten.
        world.clock.advance(4_000 * DAY / SECOND)
        for level in STEPS:
            keys = await first.engine.read(q.ListOldRollups(level, world.clock(), 10_000))
            assert keys
            await first.engine.call(c.ForgetRollups(tuple(keys)))
        assert _counters(await scraped(second)) == before
    assert sum(value for (name, _), value in before.items() if name == "ficha_jobs_submitted_total") == 9


def _counters(found: Samples) -> Samples:
    of_database = {name for name, metric in METRICS.items() if metric.scope == "database" and metric.kind != "gauge"}
    parts = {f"{name}{part}" for name in of_database for part in ("", "_bucket", "_sum", "_count")}
    return {name: value for name, value in found.items() if name[0] in parts}


async def test_gauges_say_how_things_stand(app: Ficha, world: World) -> None:
    assert of(await scraped(app), "ficha_sweeper_lag_seconds") == 0
    await app.engine.call(c.RegisterWorker("w1", "host", 1, ("gpu",), 1, "1", 5_000))
    await app.submit("upscale", {"image": "x"}, account="ana")
    await claim_one(app)
    began_at = world.clock() / SECOND
    found = await scraped(app)
    assert of(found, "ficha_pool_busy", pool="gpu") == of(found, "ficha_pool_workers", pool="gpu") == 1
    assert of(found, "ficha_pool_slots", pool="gpu") == 3
    assert of(found, "ficha_worker_seen_timestamp_seconds", worker="w1") == began_at
    assert of(found, "ficha_pool_seen_timestamp_seconds", pool="gpu") == began_at
    lease_s = app.policy.lease_ms / 1_000
    world.clock.advance(lease_s + 100)
    found = await scraped(app)
    assert of(found, "ficha_leases_overdue") == of(found, "ficha_jobs_stuck") == 1
    assert of(found, "ficha_sweeper_lag_seconds") == 100
    assert of(found, "ficha_workers", state="silent") == 1
    assert of(found, "ficha_pool_workers", pool="gpu") == 0
    assert of(found, "ficha_figures_lag_seconds") >= 100
    await add_up_figures(app)
    found = await scraped(app)
    assert of(found, "ficha_leases_overdue") == of(found, "ficha_sweeper_lag_seconds") == 0
    assert of(found, "ficha_figures_lag_seconds") == 0


async def test_the_last_verification_is_told(app: Ficha, world: World) -> None:
    assert not any(name.startswith("ficha_verify") for name, _ in await scraped(app))
    for violations in (3, 0):
        world.clock.advance(60)
        await app.acting("boss").note_verification(violations)
        found = await scraped(app)
        assert of(found, "ficha_verify_violations") == violations
        assert of(found, "ficha_verify_timestamp_seconds") == world.clock() / SECOND
    for bad in (-1, True, "3", None):
        with pytest.raises(InvalidArgument, match="violations must be a whole number"):
            await app.note_verification(bad)
    await app.note_verification(1)
    assert [line.actor for line in (await app.audit(target="database")).items] == ["system", "boss", "boss"]


async def test_requests_to_a_provider_are_counted_with_their_time(app: Ficha) -> None:
    class Fal:
        name, rate, at_once, timeout_s = "fal", None, None, 5.0
        breaker: Any = type("Breaker", (), {"failures": 5, "open_s": 1.0})()

    async with app.turn(Fal()):
        pass
    async with app.turn(Fal()) as turn:
        turn.is_fault = True
    with pytest.raises(asyncio.CancelledError):
        async with app.turn(Fal()):
            raise asyncio.CancelledError
    await add_up_figures(app)
    found = await scraped(app)
    outcomes = ("answered", "failed", "abandoned")
    assert [of(found, "ficha_provider_calls_total", provider="fal", outcome=one) for one in outcomes] == [1, 1, 1]
    assert of(found, "ficha_provider_call_seconds_count", provider="fal") == 3


async def test_a_scrape_asks_a_few_bounded_questions_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = await world.open(sweep_by_itself=False)
    monkeypatch.setattr(module, "CACHED_S", 3_600.0)
    asked: list[q.Query[Any]] = []
    read = app.engine.read

    async def noting(query: q.Query[Any]) -> Any:
        asked.append(query)
        return await read(query)

    monkeypatch.setattr(app.engine, "read", noting)
    metrics = Metrics(app)
    texts = await asyncio.gather(*(metrics.text() for _ in range(20)))
    texts.append(await metrics.text())
    # (The processor time of this process may differ.)
    assert len({tuple(sorted(_counters(samples(text)).items())) for text in texts}) == 1
    # How much work each of them is, however many jobs there are, is in the tests of plans.
    assert {type(query) for query in asked} == {
        *(q.GetFigurePoint, q.GetTotal, q.ListFigures, q.ListAudit, q.ListPools, q.ListWorkersSeen, q.ListProviders),
        *(q.GetAlertCounts, q.GetBacklog, q.ListPoolTimes),
    }
    assert len(asked) == 10
    assert not any(query.count_waiting for query in asked if isinstance(query, q.ListPools))


async def test_a_scrape_that_failed_is_not_kept(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED_S", 3_600.0)
    metrics = Metrics(app)

    async def failing(query: q.Query[Any]) -> Any:
        raise q.StoreError("away")

    with monkeypatch.context() as broken:
        broken.setattr(app.engine.store, "read", failing)
        with pytest.raises(q.StoreError):
            await metrics.text()
    assert b"ficha_jobs_stuck 0.0" in await metrics.text()


# What is bounded


def readings(**more: Any) -> MetricReadings:
    nothing = MetricReadings(
        DAY, Figures(), (), 0, [], [], q.AlertCounts(0, 0, 0, 0), q.Backlog(DAY, 0, None, 0, None, 0, None), [], None
    )
    return replace(nothing, **more)


def shown(seen: MetricReadings, providers: list[ProviderView] | None = None) -> Samples:
    return samples(rendered(database_families(seen, providers or [])))


def test_names_beyond_a_limit_share_a_label() -> None:
    names = [f"n{number:03d}" for number in range(MOST_NAMES + 2)]
    workers = [Worker(name, "h", 1, ("n000",), 1, "1", 5_000, 0, DAY - n * SECOND) for n, name in enumerate(names)]
    pools = [q.PoolCounts(Pool(name, 2), 1, 0, 0) for name in names]
    waiting = tuple(QueueCount("pro", "draw", name, 3, 0) for name in names)
    providers = [provider_view(q.ProviderRow(name, 0, None, None)) for name in names]
    found = shown(readings(pools=pools, workers=workers, waiting=waiting), providers)
    for name in ("pool_busy", "pool_slots", "pool_ready", "worker_seen_timestamp_seconds", "provider_down"):
        label = name.partition("_")[0]
        labels = {dict(key)[label] for metric, key in found if metric == f"ficha_{name}"}
        assert labels == {*names[:MOST_NAMES], "other"}, name
    assert of(found, "ficha_pool_busy", pool="other") == 2
    assert of(found, "ficha_pool_ready", pool="other") == 6
    assert of(found, "ficha_pool_slots", pool="other") == 4
    # The one that was not heard of for longest.
    assert of(found, "ficha_worker_seen_timestamp_seconds", worker="other") == DAY / SECOND - MOST_NAMES - 1
    assert of(found, "ficha_pool_workers", pool="n000") == 16


def test_a_bound_of_another_release_counts_from_the_next_one_up() -> None:
    waits = {"pro": Histogram(33_000, {5_000: 1, 7_000: 1, 10_000: 1, BEYOND: 2})}
    found = shown(readings(total=Figures(measures=Measures(waits=waits))))
    counts = [of(found, "ficha_job_wait_seconds_bucket", plan="pro", le=le) for le in ("2.5", "5.0", "10.0", "+Inf")]
    assert counts == [0, 1, 3, 5]
    assert of(found, "ficha_job_wait_seconds_count", plan="pro") == 5
    assert of(found, "ficha_job_wait_seconds_sum", plan="pro") == 33
