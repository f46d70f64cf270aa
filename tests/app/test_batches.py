"""Batches: up to 10,000 jobs submitted together, watched, cancelled and resumed as one."""

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from ficha import (
    BatchResumed,
    CommitLimits,
    Ficha,
    InvalidArgument,
    Limits,
    NotFound,
    Overloaded,
    Plan,
    Refused,
    SubmitRequest,
    TooLarge,
)
from ficha.core.commands import Command, Resubmit
from ficha.store.base import Unavailable
from tests.support.shop import World, balance, state

MANY = 10_000


@pytest.mark.long_on("memory", "postgresql")
@pytest.mark.req("E6")
async def test_ten_thousand_jobs_are_submitted_watched_resumed_and_cancelled(world: World) -> None:
    app = await world.open(max_recoveries=0)
    await app.open_account("ana", plan="open", credits=3 * MANY)
    items = [("stubborn", {}) for _ in range(MANY)]
    receipt = await app.submit_batch(items, account="ana", idempotency_key="k")
    assert (receipt.jobs, receipt.cost, receipt.new_balance) == (MANY, 3 * MANY, 0)
    again = await app.submit_batch(items, account="ana", idempotency_key="k")
    assert (again.idempotent_hit, again.batch_id, again.jobs) == (True, receipt.batch_id, MANY)
    batch = await app.batch(receipt.batch_id)
    assert (batch.total, batch.by_status, batch.progress, batch.account) == (MANY, {"queued": MANY}, 0, "ana")

    leases = await app.claim("cpu", limit=1_000, worker="w1")
    assert len(leases) == 1_000
    await app.finish_many((lease, None) for lease in leases[:500])
    batch = await app.batch(receipt.batch_id)
    assert (batch.by_status, batch.progress) == ({"queued": MANY - 1_000, "starting": 500, "completed": 500}, 5)

    # The worker dies, and takes its last ones down for good.
    world.clock.advance(60)
    assert (await app.sweep()).jobs == {"failed": 500}
    assert (await app.batch(receipt.batch_id)).by_status["failed"] == 500
    assert await app.resume_batch(receipt.batch_id) == BatchResumed(
        resumed=500, left={"completed": 500, "waiting": MANY - 1_000}
    )
    batch = await app.batch(receipt.batch_id)
    assert (batch.total, batch.by_status["queued"], batch.progress) == (MANY, MANY - 500, 5)

    assert await app.cancel_batch(receipt.batch_id, reason="enough") == MANY - 500
    assert await app.cancel_batch(receipt.batch_id) == 0
    batch = await app.batch(receipt.batch_id)
    assert (batch.by_status, batch.progress) == ({"completed": 500, "cancelled": MANY - 500}, 100)
    assert await balance(app) == 3 * MANY - 3 * 500
    assert await app.verify() == []


@pytest.mark.req("E6")
async def test_a_batch_counts_each_item_once_by_its_latest_try(app: Ficha) -> None:
    """Also after a resume of a resume: the status converges."""
    receipt = await app.submit_batch([("upscale", {"image": str(number)}) for number in range(5)], account="ana")
    assert receipt.batch_id is not None
    for lease in await app.claim("gpu", limit=3, worker="w1"):
        await app.finish(lease, result="done")
    final, dead = await app.claim("gpu", limit=2, worker="w1")
    await app.fail(dead, "it broke")
    await app.fail(final, "never", final=True)
    for _ in range(2):
        resumed = await app.resume_batch(receipt.batch_id)
        assert resumed == BatchResumed(resumed=1, left={"completed": 3, "failed": 1})
        batch = await app.batch(receipt.batch_id)
        assert (batch.total, batch.by_status) == (5, {"completed": 3, "queued": 1, "failed": 1})
        [again] = await app.claim("gpu", limit=1, worker="w1")
        await app.fail(again, "it broke")
        batch = await app.batch(receipt.batch_id)
        assert (batch.total, batch.by_status, batch.progress) == (5, {"completed": 3, "failed": 2}, 100)
        assert (await app.batches(account="ana")).items[0] == batch
    await app.resume_batch(receipt.batch_id)
    [last] = await app.claim("gpu", limit=1, worker="w1")
    await app.finish(last, result="at last")
    assert await app.resume_batch(receipt.batch_id) == BatchResumed(resumed=0, left={"completed": 4, "failed": 1})
    assert (await app.batch(receipt.batch_id)).by_status == {"completed": 4, "failed": 1}
    items = [job async for job in app.batch_results(receipt.batch_id)]
    assert [job.payload["image"] for job in items] == [*"01234"]
    assert [job.status for job in items] == ["completed"] * 3 + ["failed", "completed"]


@pytest.mark.req("E6")
async def test_a_resumed_batch_takes_up_jobs_whose_worker_was_lost(world: World, app: Ficha) -> None:
    receipt = await app.submit_batch([("stubborn", {}) for _ in range(4)], account="ana")
    leases = await app.claim("cpu", limit=3, worker="w1")
    world.clock.advance(30)
    await app.heartbeat(leases[0])
    world.clock.advance(30)
    assert await app.resume_batch(receipt.batch_id) == BatchResumed(resumed=2, left={"waiting": 1, "running": 1})
    assert (await app.batch(receipt.batch_id)).by_status == {"queued": 3, "starting": 1}
    assert await app.resume_batch(receipt.batch_id) == BatchResumed(resumed=0, left={"waiting": 3, "running": 1})


@pytest.mark.req("E6")
async def test_a_resume_that_the_plan_refuses_costs_no_more_the_larger_its_batch_is(world: World) -> None:
    app = await world.open(
        max_recoveries=0, plans=[Plan("open"), Plan("some", max_active=130), Plan("none", daily_limit=1)]
    )
    await app.open_account("ana", plan="open", credits=2_000)
    receipt = await app.submit_batch([("stubborn", {}) for _ in range(350)], account="ana")
    await app.claim("cpu", limit=350, worker="w1")
    world.clock.advance(60)
    assert (await app.sweep()).jobs == {"failed": 350}
    tried: list[int] = []
    ask_many = app._ask_many

    async def counted(commands: Sequence[Command], expected: Any) -> Any:
        tried.append(sum(isinstance(command, Resubmit) for command in commands))
        return await ask_many(commands, expected)

    app._ask_many = counted  # type: ignore[method-assign]
    for plan, resumed, refused, asked in (("none", 0, 350, 100), ("some", 130, 220, 300), ("some", 0, 220, 100)):
        await app.change_plan("ana", plan)
        tried.clear()
        told = await app.resume_batch(receipt.batch_id, account="ana")
        assert (told.resumed, told.refused, sum(tried)) == (resumed, refused, asked)
        assert told.refusal is not None
    assert (await app.account("ana")).active == 130
    assert await app.verify() == []


async def test_a_batch_of_different_tools_is_all_or_nothing(app: Ficha) -> None:
    receipt = await app.submit_batch(
        [("upscale", {"image": "x"}), ("images", {"n": 5}), ("embed", {"text": "a"})],
        account="ana",
        session="tab",
        correlation_id="trace",
    )
    assert (receipt.jobs, receipt.cost) == (4, 12)
    jobs = (await app.jobs(batch=receipt.batch_id)).items
    assert {job.tool for job in jobs} == {"upscale", "images", "embed"}
    assert {(job.session, job.correlation_id) for job in jobs} == {("tab", "trace")}
    before = await state(app)
    for bad in (("nope", {}), ("upscale", {}), ("upscale", {"image": 1}), ("video", {"seconds": "x"})):
        with pytest.raises(Refused):
            await app.submit_batch([("upscale", {"image": "x"}), bad], account="ana")
    with pytest.raises(Refused, match="needs 1005"):
        await app.submit_batch([("upscale", {"image": "x"}) for _ in range(201)], account="ana")
    assert await state(app) == before


async def test_a_batch_must_have_items_and_no_more_than_allowed(app: Ficha) -> None:
    before = await state(app)
    with pytest.raises(InvalidArgument, match="at least one"):
        await app.submit_batch([], account="ana")
    with pytest.raises(TooLarge, match="10000 allowed"):
        await app.submit_batch([("anything", {}) for _ in range(MANY + 1)], account="ana")
    assert await state(app) == before


@pytest.mark.req("E6")
async def test_a_stream_without_end_is_refused_as_soon_as_it_is_too_long(world: World) -> None:
    app = await world.open(limits=Limits(batch_jobs=20))
    await app.open_account("ana", plan="open", credits=100)
    taken = itertools.count()
    with pytest.raises(TooLarge, match=r"more than the 20 allowed; .* several parts"):
        await app.submit_batch((("upscale", {"image": str(number)}) for number in taken), account="ana")
    assert next(taken) == 21
    assert await balance(app) == 100


async def test_a_batch_that_does_not_exist_is_not_found(app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    for call in (app.batch, app.cancel_batch, app.resume_batch):
        for batch_id in (receipt.job_id, "no id", ""):
            with pytest.raises(NotFound, match="there is no batch"):
                await call(batch_id)


async def test_many_submits_are_each_answered_in_their_order(app: Ficha) -> None:
    answers = await app.submit_many(
        [
            SubmitRequest(tool="upscale", payload={"image": "x"}, account="ana", idempotency_key="k"),
            SubmitRequest(tool="nope", account="ana"),
            SubmitRequest(tool="upscale", payload={"image": 7}, account="ana"),
            SubmitRequest(tool="upscale", payload={"image": "x"}, account="nobody"),
            SubmitRequest(tool="upscale", payload={"image": "x"}, account="ana", idempotency_key="k"),
            SubmitRequest(tool="images", payload={"n": 5}, account="ana"),
        ]
    )
    assert [getattr(answer, "code", None) for answer in answers] == [
        None,
        "UNKNOWN_TOOL",
        "INVALID_PAYLOAD",
        "NOT_FOUND",
        None,
        None,
    ]
    assert answers[4].job_id == answers[0].job_id
    assert (answers[0].position, answers[5].jobs, answers[5].position) == (1, 2, 2)
    assert await app.submit_many([]) == []
    assert await balance(app) == 1_000 - 5 - 5


async def test_a_database_that_is_away_refuses_with_an_exception_that_says_when_to_come_back(world: World) -> None:
    app = await world.open(commit_limits=CommitLimits(give_up_s=0.0))
    await app.open_account("ana", plan="open", credits=10)
    store = app.engine.store
    before = await state(app)
    transact = store.transact

    async def unavailable(*args: object) -> None:
        raise Unavailable("the disk is full")

    store.transact = unavailable
    with pytest.raises(Overloaded, match="the disk is full") as refused:
        await app.submit("upscale", {"image": "x"}, account="ana")
    assert (refused.value.retryable, refused.value.retry_after_s) == (True, 2.0)
    store.transact = transact
    assert await state(app) == before
