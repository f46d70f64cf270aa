"""Bulk acts: what an operator does to one job, done to all that a search finds, in the background."""

import asyncio
from typing import Any

import pytest

from ficha import BulkActView, Ficha, InvalidArgument, Limits, NotFound, TooLarge
from ficha.store.base import StoreError
from ficha.worker import BulkRunner, bulk_runner
from tests.support.shop import World, balance, claim_one, state
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_runner, "STEP_JOBS", 2)
    monkeypatch.setattr(bulk_runner, "REST_S", 0.001)


async def dead(app: Ficha, count: int = 5, account: str = "ana", **payload: Any) -> list[str]:
    """Dead letters, oldest first."""
    jobs = []
    for number in range(count):
        asked = {"image": f"x{number}", **payload}
        jobs.append((await app.submit("upscale", asked, account=account)).job_id)
        await app.fail(await claim_one(app), "out of memory")
    return jobs


async def run(app: Ficha, act: Any, search: str = "dead:yes", reason: str = "why not") -> BulkActView:
    begun = await app.acting("boss").begin_bulk_act(act, search, reason=reason)
    await BulkRunner(app).drain()
    return await app.bulk_act(begun.id)


async def test_all_dead_letters_are_requeued_once_in_the_name_of_who_asked(app: Ficha) -> None:
    jobs = await dead(app)
    begun = await app.acting("boss").begin_bulk_act("requeue", "dead:yes tool:upscale", reason="the GPU is mended")
    assert (begun.state, begun.total, begun.credits, begun.done) == ("running", 5, 25, 0)
    assert (begun.by, begun.reason, begun.search) == ("boss", "the GPU is mended", "dead:yes tool:upscale")
    assert await BulkRunner(app).drain() == 1
    act = await app.bulk_act(begun.id)
    assert (act.state, act.done, act.failed, act.failures) == ("done", 5, 0, ())
    assert act.ended_at is not None
    assert (await app.dead_letters()).items == []
    again = [job for job in (await state(app)).jobs.values() if job.requeue_of is not None]
    assert sorted(str(job.requeue_of) for job in again) == sorted(jobs)
    assert await balance(app) == 1_000 - 25
    lines = (await app.audit()).items
    assert [(line.actor, line.act) for line in reversed(lines)] == [
        ("boss", "begin_bulk_act"),
        *[("boss", "requeue")] * 5,
    ]
    assert {line.details.get("reason") for line in lines} == {"the GPU is mended"}
    assert [line.target for line in reversed(lines)][1:] == [f"job {job_id}" for job_id in reversed(jobs)]
    assert await BulkRunner(app).drain() == 0
    assert await app.verify() == []


async def test_each_act_does_what_it_does_to_one_job(app: Ficha) -> None:
    await dead(app, 3)
    assert (await run(app, "discard")).done == 3
    assert (await app.dead_letters()).items == []
    queued = [(await app.submit("upscale", {"image": "q"}, account="ana")).job_id for _ in range(3)]
    running = await claim_one(app)
    cancelled = await run(app, "cancel", "state:queued,starting", reason="a mistake")
    assert (cancelled.total, cancelled.done, cancelled.failed) == (3, 3, 0)
    assert {(await app.job(job_id)).error for job_id in queued} == {"a mistake"}
    assert (await app.job(running.job_id)).status == "cancelled"
    await app.submit("upscale", {"image": "d"}, account="ana")
    await app.finish(await claim_one(app), result={})
    refunded = await run(app, "refund", "state:completed")
    assert (refunded.done, await balance(app)) == (1, 1_000)
    assert await app.verify() == []


async def test_what_cannot_be_done_is_counted_and_told(app: Ficha) -> None:
    jobs = await dead(app, 3)
    await app.adjust("ana", -990, reason="poor")
    act = await run(app, "requeue", "tool:upscale")
    assert (act.done, act.failed) == (2, 1)
    assert [(failure.job_id, failure.code) for failure in act.failures] == [(jobs[0], "INSUFFICIENT_CREDITS")]
    assert "Add credits first" in act.failures[0].text


async def test_jobs_that_come_after_its_beginning_are_left_alone(world: World, app: Ficha) -> None:
    old = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    begun = await app.begin_bulk_act("cancel", "state:queued since:1h", reason="why")
    world.clock.advance(1)
    new = (await app.submit("upscale", {"image": "x"}, account="ana")).job_id
    await BulkRunner(app).drain()
    assert ((await app.job(old)).status, (await app.job(new)).status) == ("cancelled", "queued")
    assert (await app.bulk_act(begun.id)).done == 1


async def test_an_act_that_is_stopped_goes_no_further_than_its_step(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    await dead(app, 5)
    begun = await app.begin_bulk_act("discard", "dead:yes", reason="why")
    inner, calls = app.advance_bulk_act, []

    async def advance(*given: Any, **named: Any) -> Any:
        calls.append(given)
        held = await inner(*given, **named)
        if len(calls) == 1:
            stopped = await app.stop_bulk_act(begun.id)
            assert (stopped.state, stopped.done) == ("stopped", 2)
        return held

    monkeypatch.setattr(app, "advance_bulk_act", advance)
    await BulkRunner(app).drain()
    act = await app.bulk_act(begun.id)
    assert (act.state, act.done, len(calls)) == ("stopped", 2, 2)
    assert len((await app.dead_letters()).items) == 3
    assert (await app.stop_bulk_act(begun.id)) == act


async def test_an_act_whose_process_died_is_resumed_by_another_without_doing_a_job_twice(world: World) -> None:
    apps = [await world.open(), await world.open()]
    await apps[0].open_account("ana", plan="open", credits=1_000)
    jobs = await dead(apps[0], 5)
    begun = await apps[0].begin_bulk_act("requeue", "dead:yes", reason="why")
    first = await apps[0].hold_bulk_act(begun.id, 30)
    assert first is not None
    assert await apps[1].due_bulk_acts(9) == []
    part = await apps[0].next_bulk_jobs(first, 2, 100)
    assert [job.id for job in part.jobs] == [jobs[4], jobs[3]]
    kept = await apps[0].advance_bulk_act(first, [job.id for job in part.jobs], part.stopped, 30)
    assert kept is not None
    # It dies here. Nobody goes on before its time is over.
    assert await BulkRunner(apps[1]).drain() == 0
    world.clock.advance(30)
    assert await BulkRunner(apps[1]).drain() == 1
    # What it would have done next, if it was only slow.
    assert await apps[0].advance_bulk_act(kept, jobs[:2], None, 30) is None
    act = await apps[0].bulk_act(begun.id)
    assert (act.state, act.done, act.failed) == ("done", 5, 0)
    assert await balance(apps[0]) == 1_000 - 25
    assert await apps[1].verify() == []


async def test_two_processes_at_once_do_each_job_once(world: World) -> None:
    apps = [await world.open(), await world.open()]
    await apps[0].open_account("ana", plan="open", credits=1_000)
    await dead(apps[0], 7)
    acts = [await apps[0].begin_bulk_act("requeue", "dead:yes", reason="why") for _ in range(2)]
    await asyncio.gather(*(BulkRunner(app).drain() for app in apps))
    found = [await apps[0].bulk_act(act.id) for act in acts]
    assert [act.state for act in found] == ["done", "done"]
    assert sum(act.done for act in found) == 7
    assert await balance(apps[0]) == 1_000 - 35
    assert await apps[0].verify() == []


async def test_a_worker_hears_of_an_act_at_once(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ficha.worker.due_runner.POLL_S", 3_600.0)
    await dead(app, 3)
    running = asyncio.create_task(BulkRunner(app).run())
    try:
        await asyncio.sleep(0)
        begun = await app.begin_bulk_act("discard", "dead:yes", reason="why")

        async def is_done() -> bool:
            return (await app.bulk_act(begun.id)).state == "done"

        await until(is_done)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_job_that_breaks_its_transaction_fails_alone(app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = await dead(app, 4)
    inner = app.advance_bulk_act

    async def advance(act: Any, named: list[str], *given: Any, **more: Any) -> Any:
        if jobs[1] in named:
            raise StoreError("a row was changed by hand")
        return await inner(act, named, *given, **more)

    monkeypatch.setattr(app, "advance_bulk_act", advance)
    act = await run(app, "requeue")
    assert (act.state, act.done, act.failed) == ("done", 3, 1)
    assert [(one.job_id, one.code, one.text) for one in act.failures] == [
        (jobs[1], "INTERNAL", "a row was changed by hand")
    ]


async def test_one_act_changes_so_many_jobs_at_most_and_looks_at_ten_times_as_many(world: World) -> None:
    app = await world.open(limits=Limits(bulk_jobs=2))
    await app.open_account("ana", plan="open", credits=1_000)
    first = (await app.submit("hasty", account="ana")).job_id
    for _ in range(2):
        await app.submit("upscale", {"image": "x"}, account="ana")
    assert (await app.begin_bulk_act("cancel", "tool:upscale", reason="why")).total == 2
    await app.submit("upscale", {"image": "x"}, account="ana")
    with pytest.raises(TooLarge, match=r"Limits\.bulk_jobs"):
        await app.begin_bulk_act("cancel", "tool:upscale", reason="why")
    for number in range(17):
        await app.submit("anything", {"n": number}, account="ana")
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr("ficha.operations.bulk_acts.COUNTED_AT_ONCE", 5)
        assert (await app.begin_bulk_act("cancel", "tool:hasty", reason="why")).total == 0
    await BulkRunner(app).drain()
    assert (await app.job(first)).status == "queued"


async def test_acts_are_listed_newest_first(app: Ficha) -> None:
    acts = [(await app.begin_bulk_act("discard", f"tool:t{number}", reason="why")).id for number in range(3)]
    page = await app.bulk_acts(limit=2)
    assert [act.id for act in page.items] == acts[:0:-1]
    assert [act.id for act in (await app.bulk_acts(after=page.next)).items] == [acts[0]]


async def test_what_is_wrong_is_told(app: Ficha) -> None:
    with pytest.raises(InvalidArgument, match='"state:faild" at 10'):
        await app.begin_bulk_act("cancel", "dead:yes state:faild", reason="why")
    with pytest.raises(InvalidArgument, match="requeue, discard, cancel, refund"):
        await app.begin_bulk_act("delete", "dead:yes", reason="why")  # type: ignore[arg-type]
    for reason in ("", " ", None):
        with pytest.raises(InvalidArgument, match="reason"):
            await app.begin_bulk_act("cancel", "dead:yes", reason=reason)  # type: ignore[arg-type]
    for bulk_id in ("none", "00000000-0000-7000-8000-000000000000"):
        with pytest.raises(NotFound):
            await app.bulk_act(bulk_id)
        with pytest.raises(NotFound):
            await app.stop_bulk_act(bulk_id)


async def done(app: Ficha, count: int) -> list[str]:
    """Completed jobs at 5 credits each."""
    jobs = []
    for number in range(count):
        jobs.append((await app.submit("upscale", {"image": f"d{number}"}, account="ana")).job_id)
        await app.finish(await claim_one(app), result={})
    return jobs


async def test_a_part_of_each_charge_is_refunded_and_the_audit_log_says_which(app: Ficha) -> None:
    await done(app, 3)
    begun = await app.acting("boss").begin_bulk_act("refund", "state:completed", reason="slow", share=0.3)
    assert (begun.share, begun.amount, begun.total) == (0.3, None, 3)
    assert await BulkRunner(app).drain() == 1
    act = await app.bulk_act(begun.id)
    assert (act.state, act.done, act.share) == ("done", 3, 0.3)
    assert await balance(app) == 1_000 - 3 * 3
    lines = (await app.audit()).items
    assert [line.details["share"] for line in lines] == ["0.3"] * 4
    assert [line.details.get("refunded") for line in lines] == [2, 2, 2, None]
    again = await app.begin_bulk_act("refund", "state:completed", reason="slow", amount=2)
    await BulkRunner(app).drain()
    assert (await app.bulk_act(again.id)).failed == 3
    assert await balance(app) == 1_000 - 3 * 3
    with pytest.raises(InvalidArgument, match="for refunds, not for 'cancel'"):
        await app.begin_bulk_act("cancel", "state:queued", reason="why", amount=1)
    assert await app.verify() == []


async def test_a_refund_of_a_part_whose_process_died_is_resumed_and_refunds_each_job_once(world: World) -> None:
    apps = [await world.open(), await world.open()]
    await apps[0].open_account("ana", plan="open", credits=1_000)
    await done(apps[0], 5)
    begun = await apps[0].begin_bulk_act("refund", "state:completed", reason="slow", amount=2)
    first = await apps[0].hold_bulk_act(begun.id, 30)
    assert first is not None
    assert await apps[1].due_bulk_acts(9) == []
    part = await apps[0].next_bulk_jobs(first, 2, 100)
    assert await apps[0].advance_bulk_act(first, [job.id for job in part.jobs], part.stopped, 30) is not None
    world.clock.advance(30)
    assert await BulkRunner(apps[1]).drain() == 1
    act = await apps[0].bulk_act(begun.id)
    assert (act.state, act.done, act.failed) == ("done", 5, 0)
    assert await balance(apps[0]) == 1_000 - 5 * 3
    assert await apps[0].verify() == []
