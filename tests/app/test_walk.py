"""The in-process face, operation by operation: a job's whole way, and what each call answers."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from ficha import (
    ActiveJobExists,
    CostLimit,
    Ficha,
    IdempotencyMismatch,
    InsufficientCredits,
    InvalidArgument,
    InvalidState,
    LeaseLost,
    NotFound,
    QuotaExceeded,
    RateLimited,
    SubmitRequest,
)
from ficha.core import commands as c
from tests.support.shop import World, balance, claim_one, history, ledger, state


@pytest.mark.req("D1", "D2", "A7", "A13", "B1", "E1")
async def test_a_job_goes_from_submit_to_completed_and_every_step_can_be_seen(world: World) -> None:
    app = await world.open(first_job_boost=20)
    me = await app.open_account("ana", plan="pro", credits=100)
    assert (me.id, me.plan, me.balance, me.active, me.active_job) == ("ana", "pro", 100, 0, None)
    assert (await app.grant("ana", 50, reason="promo")).balance == 150

    receipt = await app.submit(
        "upscale", {"image": "x"}, account="ana", idempotency_key="k1", session="tab-1", correlation_id="trace-1"
    )
    assert (receipt.status, receipt.position, receipt.priority, receipt.cost) == ("queued", 1, -10, 5)
    assert (receipt.new_balance, receipt.idempotent_hit, receipt.jobs, receipt.batch_id) == (145, False, 1, None)
    assert (receipt.quota_warnings, receipt.cost_limit_warning) == ((), None)

    job = await app.job(receipt.job_id)
    assert (job.id, job.account, job.session, job.tool, job.pool) == (receipt.job_id, "ana", "tab-1", "upscale", "gpu")
    assert (job.status, job.position, job.waiting_for, job.payload) == ("queued", 1, "place", {"image": "x"})
    assert (job.cost, job.charged, job.refunded, job.attempts, job.progress) == (5, 5, 0, 0, 0)
    assert (job.locked_by, job.started_at, job.finished_at, job.correlation_id) == (None, None, None, "trace-1")
    assert (job.plan, job.is_first, job.deadline_at) == ("pro", True, None)
    assert job.created_at.tzinfo is UTC

    world.clock.advance(2.5)
    lease = await claim_one(app)
    assert (lease.job_id, lease.epoch, lease.worker, lease.payload) == (receipt.job_id, 1, "w1", {"image": "x"})
    assert lease.expires_at - lease.job.locked_at == timedelta(seconds=60)
    assert lease.deadline_at - lease.job.locked_at == timedelta(seconds=600)
    assert (await app.job(lease.job_id)).deadline_at == lease.deadline_at
    assert (await app.job(lease.job_id)).status == "starting"
    assert (await app.job(lease.job_id)).position is None
    await app.start(lease)
    job = await app.job(lease.job_id)
    assert (job.status, job.locked_by, job.waited_in_queue) == ("running", "w1", 2.5)

    world.clock.advance(10)
    (expires,) = await app.heartbeat(lease)
    assert expires == lease.expires_at + timedelta(seconds=10)
    await app.checkpoint(lease, "UPSCALING", progress=30, data={"at": [1, 2]})
    job = await app.job(lease.job_id)
    assert (job.checkpoint, job.progress, job.resume_data) == ("UPSCALING", 30, {"at": [1, 2]})
    assert job.last_heartbeat_at - job.locked_at == timedelta(seconds=10)
    assert await app.save_step(lease, "download", {"bytes": 3}) == {"bytes": 3}
    assert await app.save_step(lease, "download", {"bytes": 4}) == {"bytes": 3}
    assert await app.steps(lease.job_id) == {"download": {"bytes": 3}}

    finished = await app.finish(lease, {"image": "y"})
    assert (finished.status, finished.changed, finished.refunded, finished.new_balance) == ("completed", True, 0, 145)
    job = await app.job(lease.job_id)
    assert (job.status, job.result, job.progress, job.delivered) == ("completed", {"image": "y"}, 100, 1)
    assert (job.locked_by, job.lock_expires_at, job.waiting_for, job.deadline_at) == (None, None, None, None)
    assert job.finished_at - job.started_at == timedelta(seconds=10)

    assert await ledger(app) == [("grant", 100, 100), ("grant", 50, 150), ("charge", -5, 145)]
    assert await history(app, lease.job_id) == ["submitted", "claimed", "started", "checkpoint", "step", "completed"]
    assert await app.verify() == []


@pytest.mark.req("A5", "A6")
async def test_a_second_finish_changes_nothing_and_says_so(app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    lease = await claim_one(app)
    assert (await app.finish(lease, {"image": "y"})).changed
    again = await app.finish(lease, {"image": "z"})
    assert (again.changed, again.status, again.refunded) == (False, "completed", 0)
    failed = await app.fail(lease, "too late")
    assert (failed.changed, failed.status) == (False, "completed")
    assert not (await app.cancel(receipt.job_id)).changed
    job = await app.job(receipt.job_id)
    assert (job.status, job.result, job.refunded, job.late_finishes) == ("completed", {"image": "y"}, 0, 2)
    assert (await history(app, receipt.job_id))[-2:] == ["completed", "late"]
    assert await balance(app) == 995


@pytest.mark.req("A4", "A6")
async def test_a_final_error_reaches_the_user_and_brings_the_credits_back_once(app: Ficha) -> None:
    receipt = await app.submit("stubborn", account="ana")
    lease = await claim_one(app, "cpu")
    failed = await app.fail(lease, "the provider said: NSFW", final=True)
    assert (failed.status, failed.refunded, failed.new_balance) == ("failed", 3, 1_000)
    for _ in range(3):
        assert not (await app.fail(lease, "again")).changed
    job = await app.job(receipt.job_id)
    assert (job.error, job.charged, job.refunded, job.is_dead_letter) == ("the provider said: NSFW", 3, 3, False)
    assert await ledger(app) == [("grant", 1_000, 1_000), ("charge", -3, 997), ("refund", 3, 1_000)]
    assert await app.verify() == []


@pytest.mark.req("B6")
async def test_a_failed_run_is_retried_with_backoff_until_its_attempts_are_used_up(world: World, app: Ficha) -> None:
    receipt = await app.submit("stubborn", account="ana")
    for attempt in (1, 2):
        lease = await claim_one(app, "cpu")
        assert (await app.fail(lease, "flaky")).status == "queued"
        job = await app.job(receipt.job_id)
        assert (job.attempts, job.status, job.waiting_for, job.locked_by) == (attempt, "queued", "schedule", None)
        assert job.scheduled_at is not None
        assert await app.claim("cpu", worker="w1") == []
        world.clock.advance(10 * attempt)
        await app.sweep()
    assert (await app.fail(await claim_one(app, "cpu"), "flaky")).status == "failed"
    job = await app.job(receipt.job_id)
    assert (job.attempts, job.refunded, job.is_dead_letter) == (3, 3, True)
    assert await balance(app) == 1_000


@pytest.mark.parametrize("held", ["queued", "starting", "running"])
@pytest.mark.req("A6", "A7")
async def test_a_cancel_refunds_from_any_active_state_and_stops_the_worker(app: Ficha, held: str) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    lease = None if held == "queued" else await claim_one(app)
    if held == "running":
        await app.start(lease)
    assert (await app.job(receipt.job_id)).status == held
    cancelled = await app.cancel(receipt.job_id, account="ana", reason="changed my mind")
    assert (cancelled.status, cancelled.changed, cancelled.refunded) == ("cancelled", True, 5)
    assert not (await app.cancel(receipt.job_id)).changed
    if lease is not None:
        (refused,) = await app.heartbeat([lease])
        assert isinstance(refused, LeaseLost)
        assert not (await app.finish(lease, 1)).changed
    job = await app.job(receipt.job_id)
    assert (job.status, job.error, job.result, job.refunded) == ("cancelled", "changed my mind", None, 5)
    assert await balance(app) == 1_000
    assert await app.verify() == []


async def test_another_accounts_job_is_not_found(app: Ficha) -> None:
    await app.open_account("ben", plan="open")
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    with pytest.raises(NotFound):
        await app.cancel(receipt.job_id, account="ben")
    hold = await app.reserve("ana")
    for ending in (app.consume, app.release):
        with pytest.raises(NotFound):
            await ending(hold.id, account="ben")
    assert (await app.job(receipt.job_id)).status == "queued"


@pytest.mark.req("D9")
async def test_part_of_the_work_completes_and_refunds_the_rest(app: Ficha) -> None:
    receipt = await app.submit("images", {"n": 4, "quality": "fine"}, account="ana")
    assert (receipt.cost, receipt.new_balance) == (12, 988)
    finished = await app.finish(await claim_one(app), ["a", "b", "c"], delivered=3, of=4)
    assert (finished.status, finished.refunded, finished.new_balance) == ("completed", 3, 991)
    job = await app.job(receipt.job_id)
    assert (job.units, job.delivered, job.refunded, job.result) == (4, 3, 3, ["a", "b", "c"])


async def test_a_run_can_ask_to_be_retried_without_counting_as_a_failure(world: World, app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    finished = await app.retry(await claim_one(app), 30, reason="the provider is busy")
    assert (finished.status, finished.refunded) == ("queued", 0)
    world.clock.advance(30)
    await app.sweep()
    lease = await claim_one(app)
    assert (lease.job_id, lease.epoch, lease.job.attempts) == (receipt.job_id, 2, 0)


async def test_a_run_can_cancel_its_own_job(app: Ficha) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana")
    finished = await app.give_up(await claim_one(app), "the image is gone")
    assert (finished.status, finished.refunded, finished.new_balance) == ("cancelled", 5, 1_000)


async def test_a_job_with_a_provider_keeps_its_slot_and_is_finished_by_its_id(app: Ficha) -> None:
    await app.resize_pool("gpu", 1)
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    await app.submit("upscale", {"image": "y"}, account="ana")
    await app.accept(await claim_one(app), "prediction-7")
    job = await app.job(receipt.job_id)
    assert (job.status, job.provider_ref, job.locked_by) == ("running", "prediction-7", None)
    assert await app.claim("gpu", worker="w1") == []
    ended = await app.finish_job(receipt.job_id, c.Completed('{"image": "z"}'))
    assert ended.changed
    assert not (await app.finish_job(receipt.job_id, c.Failed("late"))).changed
    assert (await app.job(receipt.job_id)).result == {"image": "z"}
    assert len(await app.claim("gpu", worker="w1")) == 1


@pytest.mark.req("B5")
async def test_a_worker_that_lost_its_lease_can_write_nothing(world: World, app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    lost = await claim_one(app)
    world.clock.advance(60)
    assert (await app.recover(receipt.job_id)).act == "requeued"
    held = await claim_one(app, worker="w2")
    before = await state(app)
    for write in (
        app.start(lost),
        app.checkpoint(lost, "HALF", progress=50),
        app.save_step(lost, "paid", 1),
        app.finish(lost, 1),
        app.fail(lost, "no"),
        app.retry(lost, 1),
        app.give_up(lost, "no"),
        app.accept(lost, "ref"),
    ):
        with pytest.raises(LeaseLost, match="Stop working on it"):
            await write
    after = await state(app)
    late = [event for event in after.events if event.kind == "late"]
    after.events = [event for event in after.events if event.kind != "late"]
    job = after.jobs[receipt.job_id]
    assert (len(late), job.late_finishes) == (1, 5)
    after.jobs[job.id] = replace(job, events=job.events - 1, late_finishes=0)
    assert after == before
    assert (await app.finish(held, 1)).changed


@pytest.mark.req("B3")
async def test_one_claim_takes_several_of_the_oldest_jobs_and_nobody_gets_one_twice(world: World, app: Ficha) -> None:
    jobs = []
    for number in range(5):
        jobs.append((await app.submit("embed", {"text": str(number)}, account="ana")).job_id)
        world.clock.advance(0.001)
    first = await app.claim("cpu", limit=3, worker="w1")
    second = await app.claim("cpu", limit=3, worker="w2")
    assert [lease.job_id for lease in first + second] == jobs
    assert await app.claim(["cpu", "gpu"], limit=3, worker="w3") == []
    answers = await app.finish_many((lease, number) for number, lease in enumerate(first))
    assert [answer.status for answer in answers] == ["completed"] * 3
    assert [(await app.job(job)).result for job in jobs[:3]] == [0, 1, 2]


# Keys


@pytest.mark.req("C1", "C3")
async def test_a_repeated_submit_gets_the_first_job_as_it_stands_now(app: Ficha) -> None:
    first = await app.submit("upscale", {"image": "x", "scale": 4}, account="ana", idempotency_key="k")
    again = await app.submit("upscale", {"scale": 4, "image": "x"}, account="ana", idempotency_key="k")
    assert (again.job_id, again.idempotent_hit, again.position) == (first.job_id, True, 1)
    assert (again.cost, again.new_balance) == (5, 995)
    await app.finish(await claim_one(app), 1)
    again = await app.submit("upscale", {"image": "x", "scale": 4}, account="ana", idempotency_key="k")
    assert (again.job_id, again.status, again.position) == (first.job_id, "completed", None)
    assert (await app.account("ana")).submitted == 1
    assert len(await ledger(app)) == 2


@pytest.mark.req("C1")
async def test_repeats_that_come_at_once_make_one_job(world: World, app: Ficha) -> None:
    other = await world.open()
    calls = [shop.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k") for shop in (app, other) * 20]
    receipts = await asyncio.gather(*calls)
    assert len({receipt.job_id for receipt in receipts}) == 1
    assert sum(not receipt.idempotent_hit for receipt in receipts) == 1
    assert await ledger(app) == [("grant", 1_000, 1_000), ("charge", -5, 995)]


@pytest.mark.req("C2")
async def test_of_two_that_race_for_the_last_slot_one_gets_it(world: World, app: Ficha) -> None:
    other = await world.open()
    await app.open_account("trio", plan="trio", credits=100)
    await app.reserve("trio")
    calls = [shop.reserve("trio") for shop in (app, other) * 5]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(answer, QuotaExceeded) for answer in answers) == 8
    assert sum(getattr(answer, "state", "") == "active" for answer in answers) == 2


@pytest.mark.req("C1")
async def test_a_key_used_for_something_else_is_refused_and_names_the_first_job(app: Ficha) -> None:
    first = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    before = await state(app)
    for tool, payload in (("upscale", {"image": "y"}), ("upscale", {"image": "x", "scale": 2}), ("video", {})):
        with pytest.raises(IdempotencyMismatch) as refused:
            await app.submit(tool, payload, account="ana", idempotency_key="k")
        assert refused.value.details == {"job_id": first.job_id}
        assert not refused.value.retryable
    assert await state(app) == before


@pytest.mark.req("C1")
async def test_a_key_belongs_to_its_account(app: Ficha) -> None:
    await app.open_account("ben", plan="open", credits=10)
    first = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    other = await app.submit("upscale", {"image": "y"}, account="ben", idempotency_key="k")
    assert (other.idempotent_hit, other.job_id == first.job_id) == (False, False)


@pytest.mark.req("C1")
async def test_a_key_lives_a_day_or_as_long_as_the_submit_says(world: World, app: Ficha) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="day")
    await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="hour", key_ttl_hours=1)
    keys = {key.key: key for key in await app.idempotency_keys(account="ana")}
    assert keys["day"].expires_at - keys["day"].created_at == timedelta(days=1)
    assert keys["hour"].expires_at - keys["hour"].created_at == timedelta(hours=1)
    for hours, hits in ((0.9999, {"day": True, "hour": True}), (0.0001, {"day": True, "hour": False})):
        world.clock.advance(hours * 3_600)
        for key, hit in hits.items():
            again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key=key, key_ttl_hours=1)
            assert again.idempotent_hit is hit, (hours, key)
    world.clock.advance(23 * 3_600)
    assert not (await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="day")).idempotent_hit


async def test_a_grant_with_a_key_adds_once(app: Ficha) -> None:
    for repeat in range(3):
        granted = await app.grant("ana", 7, reason="bought", key="stripe:pi/1")
        assert (granted.account, granted.plan, granted.balance) == ("ana", "open", 1_007)
        assert (granted.entry, granted.idempotent_hit) == (2, repeat > 0)
        await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key=f"acme/shop:{repeat}")
        await app.adjust("ana", 5, reason="a gift")
    entries = {entry.number: entry for entry in (await app.ledger("ana")).items}
    assert (entries[granted.entry].amount, entries[granted.entry].reason) == (7, "bought")
    with pytest.raises(IdempotencyMismatch):
        await app.grant("ana", 8, key="stripe:pi/1")
    assert await balance(app) == 1_007


async def test_an_account_of_ficha_s_own_cannot_be_opened_by_hand(app: Ficha) -> None:
    before = await state(app)
    for exist_ok in (False, True):
        with pytest.raises(InvalidArgument, match="'ficha:' are Ficha's own"):
            await app.open_account("ficha:schedules", plan="open", credits=5, exist_ok=exist_ok)
    assert await state(app) == before
    assert (await app.open_account("ficha", plan="open")).id == "ficha"


async def test_an_account_may_be_opened_where_it_is_open_already(app: Ficha) -> None:
    before = await state(app)
    with pytest.raises(InvalidState, match="account ana is open already"):
        await app.open_account("ana", plan="pro", credits=50)
    again = await app.open_account("ana", plan="pro", credits=50, exist_ok=True)
    assert (again.plan, again.balance) == ("open", 1_000), "as it was, and nothing is granted"
    assert await state(app) == before
    for _ in range(2):
        opened = await app.open_account("eva", plan="pro", credits=50, exist_ok=True)
        assert (opened.plan, opened.balance) == ("pro", 50)
    with pytest.raises(InvalidArgument, match="exist_ok must be True or False"):
        await app.open_account("eva", exist_ok="yes")  # type: ignore[arg-type]
    assert await ledger(app, "eva") == [("grant", 50, 50)]


async def test_a_job_shows_its_plan_at_the_submit_and_whether_it_was_the_first(app: Ficha) -> None:
    await app.open_account("eva", plan="starter", credits=100)
    batch = await app.submit("images", {"n": 9}, account="eva")
    await app.change_plan("eva", "pro")
    later = await app.submit("hasty", account="eva")
    jobs = (await app.jobs(account="eva")).items[::-1]
    assert [(job.plan, job.is_first) for job in jobs] == [("starter", True), *[("starter", False)] * 2, ("pro", False)]
    assert jobs[0].id == batch.job_id
    waiting = await app.job(later.job_id)
    assert waiting.deadline_at - waiting.created_at == timedelta(seconds=5)
    lease = await claim_one(app, "cpu")
    assert lease.job.deadline_at - lease.job.locked_at == timedelta(seconds=60)
    await app.fail(lease, "no")
    again = await app.job(await app.requeue(later.job_id))
    assert (again.plan, again.is_first) == ("pro", False)
    assert await app.verify() == []


async def test_a_charge_says_what_was_bought(app: Ficha) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana")
    cancelled = await app.submit("images", {"n": 3}, account="ana")
    await app.cancel(cancelled.job_id)
    reasons = [(entry.kind, entry.reason) for entry in (await app.ledger("ana")).items[::-1]]
    charges = [("charge", "upscale"), ("charge", "images, 3 items")]
    assert reasons == [("grant", "opening balance"), *charges, ("refund", "cancelled")]


# Money and quotas


@pytest.mark.req("D1")
async def test_too_few_credits_create_nothing_and_charge_nothing(app: Ficha) -> None:
    await app.open_account("poor", plan="open", credits=4)
    before = await state(app)
    with pytest.raises(InsufficientCredits, match="has 4 credits and needs 5") as refused:
        await app.submit("upscale", {"image": "x"}, account="poor")
    assert refused.value.details == {"have": 4, "need": 5}
    assert await state(app) == before
    assert (await app.adjust("poor", 1, reason="a gift")).balance == 5
    assert (await app.submit("upscale", {"image": "x"}, account="poor")).new_balance == 0
    with pytest.raises(InsufficientCredits):
        await app.adjust("poor", -1, reason="a mistake")


@pytest.mark.req("A3")
async def test_a_plan_with_one_active_job_refuses_the_next_and_names_it(app: Ficha) -> None:
    await app.open_account("solo", plan="single", credits=100)
    assert (await app.account("solo")).active_job is None
    first = await app.submit("upscale", {"image": "x"}, account="solo")
    assert (await app.account("solo")).active_job == first.job_id
    lease = None
    for _ in range(3):
        with pytest.raises(ActiveJobExists, match=first.job_id) as refused:
            await app.submit("video", account="solo")
        assert refused.value.details["job_id"] == first.job_id
        lease = lease or await claim_one(app)
    await app.start(lease)
    with pytest.raises(ActiveJobExists):
        await app.submit("video", account="solo")
    await app.finish(lease, 1)
    assert (await app.account("solo")).active_job is None
    assert (await app.submit("video", account="solo")).status == "queued"


@pytest.mark.req("C2")
async def test_a_reservation_holds_a_slot_until_a_submit_uses_it(app: Ficha) -> None:
    await app.open_account("trio", plan="trio", credits=100)
    holds = [await app.reserve("trio") for _ in range(3)]
    assert holds[2].state == "active"
    assert holds[2].expires_at - holds[2].created_at == timedelta(seconds=300)
    assert holds[2].quota_warnings == ("3 of 3 active jobs",)
    with pytest.raises(QuotaExceeded, match="Wait for one to end"):
        await app.submit("upscale", {"image": "x"}, account="trio")
    with pytest.raises(QuotaExceeded):
        await app.reserve("trio")
    receipt = await app.submit("upscale", {"image": "x"}, account="trio", reservation=holds[0].id)
    with pytest.raises(InvalidState, match="consumed"):
        await app.submit("upscale", {"image": "x"}, account="trio", reservation=holds[0].id)
    assert (await app.release(holds[1].id)).state == "released"
    assert (await app.release(holds[1].id)).state == "released"
    with pytest.raises(InvalidState, match="released"):
        await app.consume(holds[1].id)
    assert (await app.submit("upscale", {"image": "x"}, account="trio")).status == "queued"
    assert (await app.consume(holds[2].id)).state == "consumed"
    page = await app.reservations(account="trio")
    assert [(hold.id, hold.state) for hold in page.items] == [
        (holds[2].id, "consumed"),
        (holds[1].id, "released"),
        (holds[0].id, "consumed"),
    ]
    assert page.items[2].job_id == receipt.job_id


@pytest.mark.req("C2")
async def test_a_reservation_can_be_given_its_own_time(world: World, app: Ficha) -> None:
    await app.open_account("solo", plan="single", credits=100)
    hold = await app.reserve("solo", ttl_s=10)
    world.clock.advance(9.999)
    with pytest.raises(QuotaExceeded):
        await app.submit("upscale", {"image": "x"}, account="solo")
    world.clock.advance(0.001)
    with pytest.raises(InvalidState, match="expired"):
        await app.submit("upscale", {"image": "x"}, account="solo", reservation=hold.id)
    assert (await app.submit("upscale", {"image": "x"}, account="solo")).status == "queued"


@pytest.mark.req("C3", "C4")
@pytest.mark.parametrize(("period", "limit", "warned"), [("day", 20, 2), ("month", 30, 5)])
async def test_spending_limits_warn_first_and_refuse_then(
    world: World, app: Ficha, period: str, limit: int, warned: int
) -> None:
    # The first of a month at noon: a period that ends in the middle of the test would be another one.
    first = datetime.fromtimestamp(world.clock.now / 1_000_000, UTC).replace(day=1, hour=12)
    world.clock.now = int(first.timestamp()) * 1_000_000
    await app.open_account("tight", plan="thrifty" if period == "day" else "monthly", credits=100)
    receipts = [await app.submit("upscale", {"image": "x"}, account="tight") for _ in range(limit // 5)]
    warnings = [receipt.cost_limit_warning for receipt in receipts]
    assert [warning is not None for warning in warnings] == [number >= warned for number in range(1, limit // 5 + 1)]
    assert f"{limit} credits spent this {period}" in str(warnings[-1])
    with pytest.raises(CostLimit, match=f"{limit} of {limit} credits this {period}") as refused:
        await app.submit("upscale", {"image": "x"}, account="tight")
    assert not refused.value.retryable
    # What is given back no longer counts as spent.
    await app.cancel(receipts[0].job_id)
    assert (await app.submit("upscale", {"image": "x"}, account="tight")).status == "queued"
    world.clock.advance(86_400 if period == "day" else 31 * 86_400)
    assert (await app.submit("upscale", {"image": "x"}, account="tight")).cost_limit_warning is None


@pytest.mark.req("D5", "C3")
@pytest.mark.parametrize(("plan", "per_hour"), [("free", 10), ("starter", 50), ("growth", 100), ("pro", 999)])
async def test_the_hourly_limit_of_a_plan_holds_and_says_when_to_come_back(
    world: World, app: Ficha, plan: str, per_hour: int
) -> None:
    world.clock.now += 1_800_000_000 - world.clock.now % 3_600_000_000
    await app.open_account("busy", plan=plan, credits=10_000)
    requests = [SubmitRequest(tool="upscale", payload={"image": str(n)}, account="busy") for n in range(per_hour + 2)]
    answers = await app.submit_many(requests)
    assert [isinstance(answer, RateLimited) for answer in answers] == [False] * per_hour + [True, True]
    assert (answers[-1].retryable, answers[-1].retry_after_s) == (True, 1_800)
    assert answers[per_hour - 1].quota_warnings == (f"{per_hour} of {per_hour} jobs this hour",)
    world.clock.advance(1_800)
    assert (await app.submit("upscale", {"image": "x"}, account="busy")).status == "queued"


@pytest.mark.req("D3", "D4")
async def test_jobs_start_by_priority_then_age_and_an_account_at_its_limit_blocks_nobody(world: World) -> None:
    app = await world.open(first_job_boost=20)
    for plan in ("free", "starter", "growth", "pro"):
        await app.open_account(plan, plan=plan, credits=1_000)
        # The first job ever goes before its plan's others.
        assert (await app.submit("upscale", {"image": "x"}, account=plan)).priority == _plan_priority(plan) - 20
    for lease in await app.claim("gpu", limit=3, worker="w1") + await app.claim("gpu", limit=3, worker="w1"):
        await app.finish(lease, 1)
    for lease in await app.claim("gpu", limit=3, worker="w1"):
        await app.finish(lease, 1)
    await app.resize_pool("gpu", 100)
    wanted = {}
    for number in range(6):
        for plan in ("free", "starter", "growth", "pro"):
            world.clock.advance(0.001)
            receipt = await app.submit("upscale", {"image": str(number)}, account=plan)
            assert receipt.priority == _plan_priority(plan)
            wanted.setdefault(plan, []).append(receipt.job_id)
    claimed = [lease.job_id for lease in await app.claim("gpu", limit=100, worker="w1")]
    assert claimed == wanted["pro"][:4] + wanted["growth"][:3] + wanted["starter"][:2] + wanted["free"][:1]
    assert (await app.job(wanted["pro"][4])).waiting_for == "account_limit"
    assert (await app.submit("video", account="pro")).priority == 20
    assert await app.verify() == []


def _plan_priority(plan: str) -> int:
    return {"pro": 10, "growth": 20, "starter": 30, "free": 50}[plan]


@pytest.mark.req("A1")
async def test_a_pools_slots_hold_across_its_tools_and_workers(app: Ficha) -> None:
    for number in range(4):
        await app.submit("upscale", {"image": str(number)}, account="ana")
        await app.submit("images", account="ana")
    leases = await app.claim("gpu", limit=10, worker="w1")
    assert len(leases) == 3
    assert await app.claim("gpu", limit=10, worker="w2") == []
    await app.start(leases[0])
    assert await app.claim("gpu", limit=10, worker="w2") == []
    await app.finish(leases[0], 1)
    await app.cancel(leases[1].job_id)
    assert len(await app.claim("gpu", limit=10, worker="w2")) == 2


async def test_a_change_of_plan_lets_parked_jobs_go(app: Ficha) -> None:
    await app.open_account("ben", plan="free", credits=100)
    for number in range(4):
        await app.submit("upscale", {"image": str(number)}, account="ben")
    assert (await app.account("ben")).parked == 3
    assert (await app.change_plan("ben", "pro")).parked == 0
    assert len(await app.claim("gpu", limit=10, worker="w1")) == 3
    with pytest.raises(NotFound, match="declare it"):
        await app.change_plan("ben", "gold")


# Time


async def test_a_job_can_be_scheduled_by_date_or_delay_and_has_no_position_until_then(world: World, app: Ficha) -> None:
    at = datetime.fromtimestamp(world.clock.now / 1_000_000, UTC) + timedelta(seconds=100)
    later = await app.submit("upscale", {"image": "x"}, account="ana", run_at=at, idempotency_key="k")
    soon = await app.submit("upscale", {"image": "x"}, account="ana", delay_s=50)
    assert (later.position, soon.position) == (None, None)
    assert (await app.submit("upscale", {"image": "x"}, account="ana", run_at=at, idempotency_key="k")).position is None
    job = await app.job(later.job_id)
    assert (job.position, job.waiting_for) == (None, "schedule")
    assert abs(job.scheduled_at - at) < timedelta(milliseconds=1)
    assert await app.position(later.job_id) is None
    world.clock.advance(50)
    assert (await app.sweep()).jobs == {"promoted": 1}
    assert (await app.position(soon.job_id)).position == 1
    world.clock.advance(50)
    await app.sweep()
    assert [lease.job_id for lease in await app.claim("gpu", limit=3, worker="w1")] == [later.job_id, soon.job_id]


async def test_a_date_without_a_zone_is_taken_for_utc_and_one_in_the_past_is_now(app: Ficha) -> None:
    past = datetime(2020, 1, 1)
    assert (await app.submit("upscale", {"image": "x"}, account="ana", run_at=past)).position == 1


@pytest.mark.req("A8")
async def test_a_tool_can_bound_the_wait_and_the_run(world: World, app: Ficha) -> None:
    waits, runs = [(await app.submit("hasty", account="ana")).job_id for _ in range(2)]
    await app.cancel(waits)
    lease = await claim_one(app, "cpu")
    waits = (await app.submit("hasty", account="ana")).job_id
    world.clock.advance(5)
    assert (await app.sweep()).jobs == {"cancelled": 1}
    assert (await app.job(waits)).refunded == 1
    world.clock.advance(50)
    await app.heartbeat(lease)
    world.clock.advance(5)
    await app.heartbeat(lease)
    assert (await app.sweep()).jobs == {"failed": 1}
    job = await app.job(runs)
    assert (job.status, job.error, job.refunded) == ("failed", "timed out after 60 s", 1)


async def test_two_applications_on_one_database_see_each_other(world: World, app: Ficha) -> None:
    other = await world.open()
    receipt = await other.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    again = await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="k")
    assert (again.job_id, again.idempotent_hit) == (receipt.job_id, True)
    await app.finish(await claim_one(app), 1)
    assert (await other.job(receipt.job_id)).status == "completed"
    assert await other.verify() == []
