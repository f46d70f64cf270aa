"""What a tool makes of a payload: its price, its parts, its place in the queue, and work that is not done twice."""

from collections import ChainMap, UserDict
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from ficha import (
    Ficha,
    InvalidArgument,
    InvalidPayload,
    InvalidState,
    JobContext,
    Lease,
    LeaseLost,
    Limits,
    SubmitRequest,
    TooLarge,
)
from tests.support.shop import World, balance, claim_one, history, ledger, state

pytestmark = pytest.mark.long_on("postgresql")


class Photo(BaseModel):
    taken_at: datetime
    tags: list[str] = []


# Large requests


@pytest.mark.req("D6")
async def test_a_large_request_is_split_into_even_jobs_as_one_batch(app: Ficha) -> None:
    receipt = await app.submit("images", {"n": 10, "prompt": "cat"}, account="ana", idempotency_key="k")
    assert (receipt.jobs, receipt.cost, receipt.new_balance) == (3, 10, 990)
    assert receipt.batch_id is not None
    jobs = (await app.jobs(batch=receipt.batch_id, include=["payload"])).items[::-1]
    assert [(job.payload, job.units, job.cost) for job in jobs] == [
        ({"n": 4, "prompt": "cat"}, 4, 4),
        ({"n": 3, "prompt": "cat"}, 3, 3),
        ({"n": 3, "prompt": "cat"}, 3, 3),
    ]
    assert receipt.job_id == jobs[0].id
    again = await app.submit("images", {"n": 10, "prompt": "cat"}, account="ana", idempotency_key="k")
    assert (again.idempotent_hit, again.batch_id, again.jobs, again.cost) == (True, receipt.batch_id, 3, 10)
    assert (await app.batch(receipt.batch_id)).by_status == {"queued": 3}


@pytest.mark.req("D6")
@pytest.mark.parametrize(("count", "parts"), [(1, [1]), (4, [4]), (5, [3, 2]), (8, [4, 4]), (9, [3, 3, 3])])
async def test_a_request_is_split_only_beyond_what_one_job_makes(app: Ficha, count: int, parts: list[int]) -> None:
    await app.resize_pool("gpu", 10)
    receipt = await app.submit("images", {"n": count}, account="ana")
    assert (receipt.jobs, receipt.batch_id is None) == (len(parts), len(parts) == 1)
    assert [lease.payload["n"] for lease in await app.claim("gpu", limit=10, worker="w1")] == parts


@pytest.mark.req("D6")
async def test_a_list_is_split_by_its_items(app: Ficha) -> None:
    texts = [f"text {number}" for number in range(10)]
    receipt = await app.submit("embed_all", {"texts": texts}, account="ana")
    assert (receipt.jobs, receipt.cost) == (3, 20)
    leases = await app.claim("cpu", limit=10, worker="w1")
    assert [lease.payload["texts"] for lease in leases] == [texts[:4], texts[4:7], texts[7:]]
    with pytest.raises(InvalidPayload, match="at least 1"):
        await app.submit("embed_all", {"texts": []}, account="ana")


@pytest.mark.req("D6")
async def test_a_default_is_split_like_what_is_asked_for() -> None:
    app = Ficha("memory:", batch_spacing_s=0)

    @app.tool(items="names", max_items=2)
    async def greet(job: JobContext, names: list[str] = ["a", "b", "c"]) -> None: ...  # noqa: B006

    @app.tool(items="n", max_items=2)
    async def count(job: JobContext, n: int = 3) -> None: ...

    async with app:
        await app.open_account("ana")
        assert (await app.submit("greet", account="ana")).jobs == 2
        assert (await app.submit("count", account="ana")).jobs == 2
        leases = await app.claim("default", limit=4, worker="w1")
        assert [lease.payload for lease in leases] == [{"names": ["a", "b"]}, {"names": ["c"]}, {"n": 2}, {"n": 1}]


@pytest.mark.req("D6")
async def test_a_part_that_would_not_fit_the_tool_refuses_the_whole() -> None:
    app = Ficha("memory:")

    @app.tool(items="names", max_items=2)
    async def pair(job: JobContext, names: Annotated[list[str], Field(min_length=2)]) -> None: ...

    async with app:
        await app.open_account("ana")
        before = await state(app)
        with pytest.raises(InvalidPayload, match="names: List should have at least 2 items"):
            await app.submit("pair", {"names": ["a", "b", "c"]}, account="ana")
        assert await state(app) == before
        assert (await app.submit("pair", {"names": ["a", "b", "c", "d"]}, account="ana")).jobs == 2


async def test_a_split_request_is_all_or_nothing(app: Ficha) -> None:
    await app.open_account("poor", plan="open", credits=9)
    before = await state(app)
    with pytest.raises(Exception, match="has 9 credits and needs 10"):
        await app.submit("images", {"n": 10}, account="poor")
    assert await state(app) == before


async def test_a_request_for_more_jobs_than_a_batch_may_have_is_refused_at_once(world: World) -> None:
    """However many it asks for: they are counted before they are made."""
    app = await world.open(limits=Limits(batch_jobs=3))
    await app.open_account("ana", plan="open", credits=1_000)
    before = await state(app)
    for count in (13, 10_000, 2**53 - 1):
        with pytest.raises(TooLarge, match="more than the 3 allowed"):
            await app.submit("images", {"n": count}, account="ana")
        with pytest.raises(TooLarge, match="more than the 3 allowed"):
            await app.submit_batch([("images", {"n": count})], account="ana")
    assert await state(app) == before
    assert (await app.submit("images", {"n": 12}, account="ana")).jobs == 3


# Prices


@pytest.mark.req("D7")
@pytest.mark.parametrize(
    ("tool", "payload", "cost"),
    [
        ("upscale", {"image": "x"}, 5),
        ("video", {}, 20),
        ("images", {}, 1),
        ("images", {"n": 3}, 3),
        ("images", {"n": 3, "quality": "fine"}, 9),
        ("images", {"n": 7, "quality": "fine"}, 21),
        ("embed_all", {"texts": ["a", "b"]}, 4),
        ("anything", {"whatever": 1}, 0),
    ],
)
async def test_the_cost_comes_from_tool_count_and_quality(
    app: Ficha, tool: str, payload: dict[str, object], cost: int
) -> None:
    receipt = await app.submit(tool, payload, account="ana")
    assert (receipt.cost, receipt.new_balance) == (cost, 1_000 - cost)


async def test_a_default_that_can_change_is_priced_and_counted_like_any_other() -> None:
    app = Ficha("memory:")

    @app.tool(cost=lambda images, options: len(images) + len(options), items="images")
    async def stitch(job, images: list[str] = ["a", "b", "c"], options: dict = {}) -> None: ...  # noqa: B006

    async with app:
        await app.open_account("ana", credits=10)
        receipt = await app.submit("stitch", account="ana")
        assert receipt.cost == 3
        assert (await app.job(receipt.job_id)).units == 3


@pytest.mark.parametrize("cost", [-1, 2.5, True, None, "5", 10**12 + 1, float("nan")], ids=repr)
async def test_a_price_that_makes_no_sense_charges_nothing(cost: object) -> None:
    app = Ficha("memory:")

    @app.tool(cost=lambda: cost)
    async def odd(job) -> None: ...

    async with app:
        await app.open_account("ana", credits=10)
        before = await state(app)
        with pytest.raises(InvalidPayload, match="the cost function of tool odd returned"):
            await app.submit("odd", account="ana")
        assert await state(app) == before


async def test_a_price_function_that_raises_is_a_refusal_and_charges_nothing(
    app: Ficha, caplog: pytest.LogCaptureFixture
) -> None:
    before = await state(app)
    request = SubmitRequest(tool="images", payload={"quality": "ultra"}, account="ana")
    (many,) = await app.submit_many([request])
    with pytest.raises(InvalidPayload) as refused:
        await app.submit("images", {"quality": "ultra"}, account="ana")
    with pytest.raises(InvalidPayload):
        await app.submit_batch([("images", {"quality": "ultra"})], account="ana")
    with pytest.raises(InvalidPayload):
        await app.quote("images", {"quality": "ultra"}, account="ana")
    words = "tool images has no price for this payload: its cost function raised KeyError; nothing was charged."
    assert str(refused.value) == str(many) == words
    assert "KeyError: 'ultra'" in caplog.text, "the log says what was wrong"
    assert await state(app) == before


async def test_a_payload_may_be_any_mapping(app: Ficha) -> None:
    for number, payload in enumerate((MappingProxyType({"n": 9}), UserDict(n=9), ChainMap({}, {"n": 9}))):
        receipt = await app.submit("images", payload, account="ana", idempotency_key="k")
        assert (receipt.jobs, receipt.cost, receipt.idempotent_hit) == (3, 9, number > 0)
        batch = await app.submit_batch([("images", payload)], account="ana")
        assert (batch.jobs, batch.cost) == (3, 9)
    assert (await app.quote("images", MappingProxyType({"n": 9}), account="ana")).cost == 9


async def test_more_than_was_asked_for_is_not_delivered(app: Ficha) -> None:
    await app.submit("images", {"n": 4}, account="ana")
    lease = await claim_one(app)
    before = await state(app)
    with pytest.raises(InvalidArgument, match="5 of 4 cannot have been delivered: delivered is at most of"):
        await app.finish(lease, ["a"] * 5, delivered=5, of=4)
    assert await state(app) == before


async def test_a_free_job_writes_no_ledger_line(app: Ficha) -> None:
    receipt = await app.submit("anything", account="ana")
    await app.cancel(receipt.job_id)
    assert len((await app.ledger("ana")).items) == 1
    assert await app.verify() == []


# Content that was computed before


@pytest.mark.req("B7")
async def test_the_same_content_is_computed_once_and_served_free_to_its_account(app: Ficha) -> None:
    first = await app.submit("embed", {"text": "hello"}, account="ana")
    unfinished = await app.submit("embed", {"text": "hello"}, account="ana")
    assert (first.status, unfinished.status) == ("queued", "queued")
    await app.finish(await claim_one(app, "cpu"), 5)
    served = await app.submit("embed", {"text": "hello"}, account="ana")
    assert (served.status, served.cost, served.new_balance, served.position) == ("completed", 0, 996, None)
    job = await app.job(served.job_id)
    assert (job.result, job.charged, job.progress, job.attempts) == (5, 0, 100, 0)
    assert await history(app, served.job_id) == ["submitted", "reused"]
    other = await app.submit("embed", {"text": "other"}, account="ana")
    assert (other.status, other.cost) == ("queued", 2)
    assert await app.verify() == []


@pytest.mark.req("B7")
async def test_no_account_is_served_anothers_result_or_learns_that_there_is_one(app: Ficha) -> None:
    await app.open_account("ben", plan="open", credits=10)
    await app.open_account("eva", plan="open", credits=10)
    asked = {"tool": "embed", "payload": {"text": "secret"}}
    before = await app.quote(**asked, account="ben")
    first = await app.submit(**asked, account="ana")
    lease = await claim_one(app, "cpu")
    assert lease.job_id == first.job_id

    # While it runs, an equal job of another account does not wait for it.
    other = await app.submit(**asked, account="eva")
    assert (await claim_one(app, "cpu")).job_id == other.job_id

    await app.finish(lease, 5)
    after = await app.quote(**asked, account="ben")
    assert (after.admitted, after.cost) == (before.admitted, before.cost) == (True, 2)
    own = await app.submit(**asked, account="ben")
    assert (own.status, own.cost, own.new_balance) == ("queued", 2, 8)
    assert (await claim_one(app, "cpu")).job_id == own.job_id
    assert (await app.job(own.job_id)).result is None
    batch = await app.submit_batch([("embed", {"text": "secret"})], account="ben")
    assert (batch.status, batch.cost) == ("queued", 2)
    assert await app.verify() == []


@pytest.mark.req("B7")
async def test_a_tool_may_share_its_results_between_all_accounts(world: World) -> None:
    def prepare(app: Ficha) -> None:
        @app.tool(pool="cpu", cost=2, dedupe="global")
        async def translate(job: JobContext, text: str) -> str:
            return text

    app = await world.open(prepare)
    for account in ("ana", "ben"):
        await app.open_account(account, plan="open", credits=10)
    await app.submit("translate", {"text": "hello"}, account="ana")
    lease = await claim_one(app, "cpu")
    waits = await app.submit("translate", {"text": "hello"}, account="ben")
    assert await app.claim("cpu", worker="w1") == []
    assert (await app.job(waits.job_id)).waiting_for == "equal_job"
    await app.finish(lease, "olá")
    await app.sweep()
    assert (await app.job(waits.job_id)).result == "olá"
    served = await app.submit("translate", {"text": "hello"}, account="ben")
    assert (served.status, served.cost, served.new_balance) == ("completed", 0, 10)
    assert (await app.quote("translate", {"text": "hello"}, account="ben")).cost == 0
    assert await app.verify() == []


@pytest.mark.req("B7")
async def test_equal_jobs_that_wait_are_computed_once_and_the_others_are_paid_back(app: Ficha) -> None:
    await app.open_account("ben", plan="open", credits=10)
    jobs = [(await app.submit("embed", {"text": "hello"}, account="ben")).job_id for _ in range(3)]
    other = await app.submit("embed", {"text": "other"}, account="ben")
    assert await balance(app, "ben") == 2
    leases = await app.claim("cpu", limit=2, worker="w1")
    assert [lease.job_id for lease in leases] == [jobs[0], other.job_id], "a claim looks beyond those that wait"
    waits = await app.job(jobs[1])
    assert (waits.status, waits.waiting_for, waits.scheduled_at) == ("queued", "equal_job", None)
    assert await app.claim("cpu", limit=2, worker="w2") == []
    await app.finish(leases[0], 5)
    assert (await app.sweep()).jobs == {"reused": 2}
    for job_id in jobs[1:]:
        job = await app.job(job_id)
        assert (job.status, job.result, job.charged, job.refunded, job.attempts) == ("completed", 5, 2, 2, 0)
        assert await history(app, job_id) == ["submitted", "reused"]
    assert await ledger(app, "ben") == [
        *(("grant", 10, 10), ("charge", -2, 8), ("charge", -2, 6), ("charge", -2, 4), ("charge", -2, 2)),
        *(("refund", 2, 4), ("refund", 2, 6)),
    ]
    assert not await app.sweep()
    assert await app.verify() == []


@pytest.mark.req("B7")
async def test_a_job_whose_result_came_while_it_waited_gets_it_when_it_is_about_to_run(app: Ficha) -> None:
    first, second = [(await app.submit("embed", {"text": "hello"}, account="ana")).job_id for _ in range(2)]
    await app.finish(await claim_one(app, "cpu"), 5)
    assert await app.claim("cpu", worker="w1") == []
    assert [(await app.job(job_id)).result for job_id in (first, second)] == [5, 5]
    assert await balance(app) == 998


@pytest.mark.req("B7")
async def test_an_equal_job_runs_itself_when_the_first_fails_or_is_cancelled(app: Ficha) -> None:
    jobs = [(await app.submit("embed", {"text": "hello"}, account="ana")).job_id for _ in range(3)]
    for number, end in enumerate((lambda lease: app.fail(lease, "no"), lambda lease: app.cancel(lease.job_id))):
        (lease,) = await app.claim("cpu", limit=9, worker="w1")
        assert lease.job_id == jobs[number]
        await end(lease)
        await app.sweep()
    (last,) = await app.claim("cpu", limit=9, worker="w1")
    await app.finish(last, 5)
    assert [(await app.job(job_id)).status for job_id in jobs] == ["failed", "cancelled", "completed"]
    assert await balance(app) == 998
    assert await app.verify() == []


@pytest.mark.req("B7")
async def test_a_job_that_is_taken_by_its_id_is_refused_or_served_while_an_equal_one_has_the_work(app: Ficha) -> None:
    await app.submit("embed", {"text": "hello"}, account="ana")
    second = (await app.submit("embed", {"text": "hello"}, account="ana")).job_id
    lease = await claim_one(app, "cpu")
    with pytest.raises(InvalidState, match="does the same work"):
        await app.claim_job(second, worker="w1")
    await app.finish(lease, 5)
    with pytest.raises(InvalidState, match="it is completed"):
        await app.claim_job(second, worker="w1")
    assert (await app.job(second)).result == 5


@pytest.mark.req("B7")
async def test_failed_content_is_computed_again(app: Ficha) -> None:
    await app.submit("embed", {"text": "hello"}, account="ana")
    await app.fail(await claim_one(app, "cpu"), "no")
    assert (await app.submit("embed", {"text": "hello"}, account="ana")).status == "queued"
    assert await balance(app) == 998


# What is stored is what the handler gets


async def test_the_payload_of_a_claimed_job_becomes_what_its_handler_names(app: Ficha) -> None:
    @app.tool()
    async def develop(job: JobContext, photo: Photo, title: str = "—") -> None: ...

    payload = {"photo": {"taken_at": "2026-03-10T12:30:00+01:00", "tags": ["日本"]}}
    receipt = await app.submit("develop", payload, account="ana")
    lease = await claim_one(app, "default")
    taken_at = datetime(2026, 3, 10, 11, 30, tzinfo=UTC)
    assert app.tools[lease.tool].arguments(lease.claimed.payload) == {
        "photo": Photo(taken_at=taken_at, tags=["日本"]),
        "title": "—",
    }
    assert (await app.job(receipt.job_id)).payload == payload


# Checkpoints that are declared


async def claimed_painting(app: Ficha) -> Lease:
    app.tool(
        name="paint",
        cost=5,
        checkpoints={"ASKED": ["DRAWN", "FOUND"], "DRAWN": ["SENT"], "FOUND": ["SENT"], "SENT": []},
    )(lambda job: None)
    await app.submit("paint", account="ana")
    return await claim_one(app, "default")


@pytest.mark.req("E2")
async def test_a_declared_checkpoint_is_saved_in_its_order_with_its_data(app: Ficha) -> None:
    lease = await claimed_painting(app)
    for name, kind, words in (
        ("ASKD", InvalidArgument, "declares no checkpoint 'ASKD', only 'ASKED', 'DRAWN', 'FOUND', 'SENT'"),
        ("SENT", InvalidState, "may save 'ASKED', not 'SENT'"),
    ):
        before = await state(app)
        with pytest.raises(kind, match=words):
            await app.checkpoint(lease, name, progress=50, data={"page": 1})
        assert await state(app) == before
    await app.checkpoint(lease, "ASKED", progress=10)
    await app.checkpoint(lease, "FOUND", progress=50, data={"page": 3})
    with pytest.raises(InvalidState, match="may save 'SENT', not 'DRAWN'") as caught:
        await app.checkpoint(lease, "DRAWN", progress=60)
    assert caught.value.details == {"checkpoint": "FOUND", "may_follow": ["SENT"]}
    job = await app.job(lease.job_id)
    assert (job.checkpoint, job.progress, job.resume_data) == ("FOUND", 50, {"page": 3})
    assert await history(app, lease.job_id) == ["submitted", "claimed", "checkpoint", "checkpoint"]


@pytest.mark.req("E2", "E3")
async def test_a_resumed_run_that_begins_from_the_top_loses_no_checkpoint(world: World, app: Ficha) -> None:
    lease = await claimed_painting(app)
    await app.checkpoint(lease, "ASKED", progress=10)
    await app.checkpoint(lease, "DRAWN", progress=50, data={"page": 3})
    world.clock.advance(61)
    await app.sweep()
    again = await claim_one(app, "default", worker="w2")
    with pytest.raises(LeaseLost):
        await app.checkpoint(lease, "SENT", progress=90)
    until = await app.checkpoint(again, "ASKED", progress=10, data={"page": 0})
    assert until > lease.expires_at
    job = await app.job(lease.job_id)
    assert (job.checkpoint, job.progress, job.resume_data) == ("DRAWN", 50, {"page": 3})
    await app.checkpoint(again, "SENT", progress=90)
    assert (await app.job(lease.job_id)).checkpoint == "SENT"
    assert await app.verify() == []


@pytest.mark.req("E2")
async def test_where_nothing_is_declared_any_checkpoint_is_saved_in_any_order(app: Ficha) -> None:
    await app.submit("anything", account="ana")
    lease = await claim_one(app, "cpu")
    for name in ("B", "A", "B", "whatever"):
        await app.checkpoint(lease, name)
        assert (await app.job(lease.job_id)).checkpoint == name
