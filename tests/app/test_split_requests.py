"""A large request that its tool splits into several jobs is one thing to its owner."""

from __future__ import annotations

import asyncio

import pytest

from ficha import ActiveJobExists, Ficha, JobView, Plan, QuotaExceeded, Receipt, Refused, SubmitRequest
from ficha.core.invariants import violations
from ficha.engine.views import owner_job_view
from ficha.validation import Limits
from tests.support.shop import PLANS, World
from tests.support.shop import state as state_of

pytestmark = pytest.mark.req("D6")


@pytest.fixture
async def app(world: World) -> Ficha:
    plans = [*PLANS, Plan("once", max_active=1, per_hour=2)]
    app = await world.open(plans=plans)
    for plan in ("open", "single", "trio", "once"):
        await app.open_account(plan, plan=plan, credits=100)
    return app


async def eight(app: Ficha, account: str = "open", **options: object) -> Receipt:
    """Eight pictures, in two jobs of four."""
    receipt = await app.submit("images", {"n": 8, "prompt": "a cat"}, account=account, **options)
    assert receipt.jobs == 2
    return receipt


async def finish_one(app: Ficha, result: object = "done", **how: object) -> str:
    [lease] = await app.claim("gpu", limit=1, worker="w1")
    await app.finish(lease, result=result, **how)
    return lease.job_id


async def fail_one(app: Ficha) -> str:
    [lease] = await app.claim("gpu", limit=1, worker="w1")
    await app.fail(lease, "it broke", for_user=True)
    return lease.job_id


async def whole(app: Ficha, receipt: Receipt) -> JobView:
    return await app.job(receipt.job_id)


async def test_every_id_of_a_request_names_the_whole(app: Ficha) -> None:
    receipt = await eight(app)
    request = await whole(app, receipt)
    assert (request.id, request.batch, request.status, request.units) == (receipt.job_id, receipt.batch_id, "queued", 8)
    assert (request.cost, request.charged, request.refunded) == (8, 8, 0)
    assert request.parts is not None
    for job_id in (receipt.batch_id, *(part.id for part in request.parts)):
        assert job_id is not None
        assert (await app.job(job_id)).parts == request.parts
    assert request.payload == [{"n": 4, "prompt": "a cat"}] * 2
    assert owner_job_view(request).result is None


async def test_a_request_has_all_results_in_order_and_one_progress(app: Ficha) -> None:
    receipt = await eight(app)
    first, second = await app.claim("gpu", limit=2, worker="w1")
    await app.start(first)
    assert (await whole(app, receipt)).status == "running"
    await app.checkpoint(first, "HALF", progress=50)
    assert (await whole(app, receipt)).progress == 25
    await app.finish(second, result=["second"])
    request = await whole(app, receipt)
    assert (request.status, request.progress, request.result, request.partial) == (
        "running",
        75,
        None,
        [None, ["second"]],
    )
    await app.finish(first, result=["first"])
    request = await whole(app, receipt)
    assert (request.status, request.progress, request.delivered) == ("completed", 100, 8)
    assert request.result == [["first"], ["second"]]
    assert request.finished_at is not None


async def test_a_request_of_which_a_part_failed_is_completed_with_the_rest(app: Ficha) -> None:
    receipt = await eight(app)
    await finish_one(app, ["four"])
    await fail_one(app)
    request = await whole(app, receipt)
    assert (request.status, request.delivered, request.units, request.refunded) == ("completed", 4, 8, 4)
    assert request.result == [["four"], None]
    assert request.parts is not None
    assert [part.user_error for part in request.parts] == [None, "it broke"]


async def test_a_request_of_which_nothing_was_delivered_has_failed(app: Ficha) -> None:
    receipt = await eight(app)
    await fail_one(app)
    await fail_one(app)
    request = await whole(app, receipt)
    assert (request.status, request.error, request.refunded) == ("failed", "it broke", 8)


@pytest.mark.parametrize("by", ["first", "last", "batch"])
async def test_one_cancel_ends_all_open_parts_and_keeps_the_charge_of_the_rest(app: Ficha, by: str) -> None:
    receipt = await eight(app)
    await finish_one(app, ["four"])
    request = await whole(app, receipt)
    assert request.parts is not None
    assert receipt.batch_id is not None
    named = {"first": request.parts[0].id, "last": request.parts[1].id, "batch": receipt.batch_id}[by]
    ended = await app.cancel(named, account="open")
    assert (ended.job_id, ended.status, ended.changed, ended.refunded) == (receipt.job_id, "completed", True, 4)
    assert (await app.account("open")).balance == ended.new_balance == 96
    again = await app.cancel(named, account="open")
    assert (again.changed, again.refunded) == (False, 4)
    request = await whole(app, receipt)
    assert (request.delivered, request.charged, request.refunded) == (4, 8, 4)


async def test_a_cancel_ends_a_part_that_the_cancel_of_another_promotes(world: World) -> None:
    app = await world.open()
    await app.open_account("ana", plan="free", credits=100)
    receipt = await app.submit("images", {"n": 12}, account="ana")
    await app.claim("gpu", limit=1, worker="w1")
    ended = await app.cancel(receipt.job_id)
    assert (ended.status, ended.refunded, ended.new_balance) == ("cancelled", 12, 100)
    assert violations(await state_of(app)) == []


async def test_others_cannot_cancel_a_request(app: Ficha) -> None:
    receipt = await eight(app)
    with pytest.raises(Refused, match=f"there is no job {receipt.job_id}") as caught:
        await app.cancel(receipt.job_id, account="single")
    assert caught.value.code == "NOT_FOUND"
    assert (await whole(app, receipt)).status == "queued"


async def test_one_item_of_a_batch_is_cancelled_alone(app: Ficha) -> None:
    receipt = await app.submit_batch([("images", {"n": 4}), ("images", {"n": 8})], account="open")
    jobs = sorted(job.id for job in (await app.jobs(batch=receipt.batch_id)).items)
    assert (await app.job(jobs[0])).parts is None
    await app.cancel(jobs[0])
    assert [(await app.job(job)).status for job in jobs] == ["cancelled", "queued", "queued"]
    request = await app.job(jobs[1])
    assert (request.id, request.units) == (jobs[1], 8)
    assert (await app.cancel(jobs[2])).refunded == 8


async def test_a_plan_with_one_active_job_may_order_a_split_request(app: Ficha) -> None:
    receipt = await eight(app, "single")
    with pytest.raises(ActiveJobExists) as caught:
        await app.submit("images", {"n": 1}, account="single")
    assert (await app.job(caught.value.details["job_id"])).id == receipt.job_id
    with pytest.raises(ActiveJobExists):
        await eight(app, "single")
    await app.cancel(receipt.job_id)
    await eight(app, "single")


async def test_a_request_is_active_until_its_last_part_ends(app: Ficha) -> None:
    """Also if the part that was submitted last ends first: the refusal names the request nevertheless."""
    receipt = await eight(app, "single")
    first, second = await app.claim("gpu", limit=2, worker="w1")
    await app.finish(second, result=[])
    with pytest.raises(ActiveJobExists) as caught:
        await app.submit("images", {"n": 1}, account="single")
    assert (await app.job(caught.value.details["job_id"])).id == receipt.job_id
    await app.finish(first, result=[])
    await app.submit("images", {"n": 1}, account="single")


async def test_requests_and_single_jobs_count_alike(app: Ficha) -> None:
    await eight(app, "trio")
    await app.submit("images", {"n": 1}, account="trio")
    receipt = await eight(app, "trio")
    assert receipt.quota_warnings == ("3 of 3 active jobs",)
    quote = await app.quote("images", {"n": 8}, account="trio")
    assert quote.refusal is not None
    assert quote.refusal.details["active"] == 3
    with pytest.raises(QuotaExceeded, match="has 3 and 0 reserved, and asks for 1 more"):
        await app.submit("images", {"n": 2}, account="trio")
    [refused] = await app.submit_many([SubmitRequest(tool="images", payload={"n": 2}, account="trio")])
    assert isinstance(refused, QuotaExceeded)
    with pytest.raises(QuotaExceeded):
        await app.reserve("trio")
    await app.cancel(receipt.job_id)
    hold = await app.reserve("trio")
    await eight(app, "trio", reservation=hold.id)


async def test_a_request_is_one_submit_of_the_hour(app: Ficha) -> None:
    receipt = await eight(app, "once")
    assert receipt.rate is not None
    assert receipt.rate.left == 1
    await app.cancel(receipt.job_id)
    receipt = await eight(app, "once")
    assert receipt.rate is not None
    assert receipt.rate.left == 0
    await app.cancel(receipt.job_id)
    with pytest.raises(Refused) as caught:
        await eight(app, "once")
    assert caught.value.code == "RATE_LIMITED"


async def test_a_part_that_runs_again_takes_the_place_of_the_one_that_failed(app: Ficha) -> None:
    receipt = await eight(app, "single")
    await finish_one(app, ["first"])
    dead = await fail_one(app)
    again = await app.requeue(dead)
    request = await whole(app, receipt)
    assert (request.id, request.status, request.charged, request.refunded) == (receipt.job_id, "running", 8, 0)
    assert request.parts is not None
    assert [part.id for part in request.parts][1] == again
    with pytest.raises(ActiveJobExists):
        await app.submit("images", {"n": 1}, account="single")
    await finish_one(app, ["second"])
    assert (await whole(app, receipt)).result == [["first"], ["second"]]


async def test_a_user_resumes_a_part_of_a_request_that_is_active(app: Ficha) -> None:
    """The part belongs to the one active job that the plan allows."""
    receipt = await eight(app, "single")
    await fail_one(app)
    assert receipt.batch_id is not None
    resumed = await app.resume_batch(receipt.batch_id, account="single")
    assert (resumed.resumed, resumed.refusal) == (1, None)


async def test_a_part_of_a_split_item_is_not_left_out_alone(app: Ficha) -> None:
    await app.open_account("poor", plan="open", credits=10)
    items = [("images", {"n": 4}), ("images", {"n": 8})]
    receipt = await app.submit_batch(items, account="poor", as_far_as_credits=True)
    assert (receipt.jobs, receipt.left_out, receipt.cost) == (1, 2, 4)


async def test_a_request_of_more_parts_than_the_limit_is_a_batch(world: World) -> None:
    app = await world.open(limits=Limits(request_parts=2))
    await app.open_account("ana", plan="single", credits=100)
    assert (await app.submit("images", {"n": 8}, account="ana")).jobs == 2
    await app.open_account("bob", plan="single", credits=100)
    with pytest.raises(QuotaExceeded, match="asks for 3 more"):
        await app.submit("images", {"n": 9}, account="bob")


async def test_a_wait_ends_with_the_last_part(app: Ficha) -> None:
    receipt = await eight(app)
    waiting = asyncio.create_task(app.wait(receipt.job_id, timeout_s=30))
    watching = asyncio.create_task(watched(app, receipt))
    await finish_one(app, ["first"])
    assert not waiting.done()
    await finish_one(app, ["second"])
    assert (await waiting).result == [["first"], ["second"]]
    told = await watching
    assert told[0].status != "completed"
    assert told[-1].status == "completed"
    assert all(job.units == 8 for job in told)


async def watched(app: Ficha, receipt: Receipt) -> list[JobView]:
    return [told async for told in app.watch(receipt.job_id) if isinstance(told, JobView)]


async def test_the_counters_agree_with_the_rows_whatever_became_of_the_parts(app: Ficha) -> None:
    receipt = await eight(app, "single")
    await finish_one(app)
    await app.requeue(await fail_one(app))
    await app.cancel(receipt.job_id)
    assert violations(await state_of(app)) == []
