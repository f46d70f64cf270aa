"""What a caller may have stored is bounded: how long keys and reservations are kept, how far ahead a job is scheduled,
what a refused finish leaves behind."""

import json
from datetime import timedelta

import pytest

from ficha import Ficha, InvalidArgument, LeaseLost
from ficha.engine.views import moment
from tests.support.shop import World, state

DAY_S = 86_400
CAT = {"image": "cat"}


@pytest.mark.req("C1", "C2")
async def test_keys_and_reservations_are_kept_for_no_longer_than_allowed(app: Ficha) -> None:
    await app.submit("upscale", CAT, account="ana", idempotency_key="month", key_ttl_hours=30 * 24)
    await app.submit_batch([("upscale", CAT)], account="ana", idempotency_key="batch", key_ttl_hours=30 * 24)
    await app.reserve("ana", ttl_s=DAY_S)
    before = await state(app)
    for call, words in (
        (
            app.submit("upscale", CAT, account="ana", idempotency_key="k", key_ttl_hours=720.001),
            "at most 720, not 720.",
        ),
        (app.submit_batch([("upscale", CAT)], account="ana", idempotency_key="k", key_ttl_hours=721), "at most 720"),
        (app.reserve("ana", ttl_s=DAY_S + 0.001), "ttl_s may be at most 86400"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            await call
    assert await state(app) == before
    # What was done already is answered, whatever the repeat asks for.
    again = await app.submit("upscale", CAT, account="ana", idempotency_key="month", key_ttl_hours=10_000)
    assert again.idempotent_hit


async def test_a_job_is_scheduled_no_further_ahead_than_allowed(world: World, app: Ficha) -> None:
    await app.submit("upscale", CAT, account="ana", delay_s=365 * DAY_S)
    too_late = moment(world.clock()) + timedelta(days=366)
    for options in ({"delay_s": 365 * DAY_S + 0.001}, {"run_at": too_late}):
        with pytest.raises(InvalidArgument, match="at most 365 days ahead"):
            await app.submit("upscale", CAT, account="ana", **options)
    quote = await app.quote("upscale", CAT, account="ana", delay_s=366 * DAY_S)
    assert quote.refusal is not None
    assert quote.refusal.code == "INVALID_ARGUMENT"


async def test_an_application_sets_how_long_may_be_asked_for(world: World) -> None:
    app = await world.open(
        key_ttl_s=60, key_ttl_max_s=3_600, reservation_ttl_s=5, reservation_ttl_max_s=10, schedule_max_s=7_200
    )
    await app.open_account("ana", plan="open", credits=100)
    await app.submit("upscale", CAT, account="ana", idempotency_key="k", key_ttl_hours=1, delay_s=7_200)
    await app.reserve("ana", ttl_s=10)
    for call, words in (
        (app.submit("upscale", CAT, account="ana", idempotency_key="l", key_ttl_hours=1.001), "at most 1, not 1.001"),
        (app.submit("upscale", CAT, account="ana", delay_s=7_200.001), "days ahead"),
        (app.reserve("ana", ttl_s=10.001), "at most 10, not 10.001"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            await call


@pytest.mark.req("A5", "B5")
async def test_refused_finishes_are_kept_once_per_job_and_cut_to_a_limit(world: World, app: Ficha) -> None:
    ended, taken = [(await app.submit("upscale", CAT, account="ana")).job_id for _ in range(2)]
    leases = {lease.job_id: lease for lease in await app.claim("gpu", limit=2, worker="w1")}
    await app.finish(leases[ended], 1)
    world.clock.advance(60)
    await app.recover(taken)
    for _ in range(5):
        assert not (await app.finish(leases[ended], "x" * 1_000_000)).changed
        for lost in (app.finish(leases[taken], "x" * 1_000_000), app.fail(leases[taken], "é" * 10_000)):
            with pytest.raises(LeaseLost):
                await lost
        with pytest.raises(LeaseLost):
            await app.report(leases[taken], partial="x" * 1_000_000)
        [refused] = await app.heartbeat(leases[taken])
        assert isinstance(refused, LeaseLost)
    assert [(await app.job(job_id)).late_finishes for job_id in (ended, taken)] == [5, 10]
    for job_id in (ended, taken):
        kept = [event for event in await app.events(job=job_id) if event.kind == "late"]
        assert [len(event.data["result"].encode()) for event in kept] == [4_096]
    # What followers read is bounded with it.
    told = [event for event in await app.events(account="ana", limit=1_000) if event.kind == "late"]
    assert sum(len(json.dumps(event.data, ensure_ascii=False)) for event in told) < 2 * 4_200
    assert await app.verify() == []
