"""What an operator's pages read: searches among all jobs, a job's page, dead letters by error, batches, words."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from ficha import Ficha, InvalidArgument, JobContext, NotFound
from ficha.core.commands import RegisterWorker, Submit
from ficha.engine import operator_queries, queries
from ficha.engine.views import JobSearch
from ficha.job_search import JOB_SEARCH_LENGTH, MOST_VALUES, MOST_WORDS
from ficha.operations.leases import LeaseName
from ficha.store.base import GetWaiting, Query
from ficha.validation import Limits
from tests.support.new_jobs import new_job
from tests.support.shop import World, claim_one
from tests.support.waiting import until

FAST = Limits(jobs_searched=4, jobs_counted=3, dead_grouped=3)


async def submitted(app: Ficha, tool: str = "upscale", account: str = "ana", **options: Any) -> str:
    payload = {"upscale": {"image": "x"}, "embed": {"text": "x"}}.get(tool, {})
    return (await app.submit(tool, payload, account=account, **options)).job_id


async def failed(app: Ficha, error: str, tool: str = "upscale", **options: Any) -> str:
    job_id = await submitted(app, tool, **options)
    await app.fail(await claim_one(app, app.tools[tool].pool), error)
    return job_id


def ids(found: JobSearch) -> list[str]:
    return [job.id for job in found.items]


async def test_jobs_are_searched_by_one_line_of_text(world: World, app: Ficha) -> None:
    await app.open_account("bob", plan="open", credits=100)
    broken = await failed(app, "Timed out after 5 s", session="s1", correlation_id="c1")
    gone = await failed(app, "no such model")
    bobs = await submitted(app, account="bob", session="s1")
    video = await submitted(app, "video")
    held = (await claim_one(app)).job_id
    asked = {
        "": [video, bobs, gone, broken],
        "state:failed": [gone, broken],
        "state:failed,queued": sorted({video, bobs, gone, broken} - {held}, reverse=True),
        "state:starting": [held],
        "account:bob": [bobs],
        "tool:video,upscale account:ana": [video, gone, broken],
        'error:"timed out"': [broken],
        "TIMED 5": [broken],
        "session:s1": [bobs, broken],
        "correlation:c1 state:failed": [broken],
        "plan:open pool:gpu": [video, bobs, gone, broken],
        "dead:yes": [gone, broken],
        "dead:no state:failed": [],
        "since:1h": [video, bobs, gone, broken],
        "until:1h": [],
        gone: [gone],
        f"{gone} {video}": [video, gone],
        f"{gone} account:bob": [],
        "stuck:yes": [],
    }
    for text, expected in asked.items():
        found = await app.search_jobs(text)
        assert ids(found) == expected, text
        assert (found.next, found.is_whole, found.back_to) == (None, True, None)
        counted = await app.count_jobs(text)
        assert (counted.count, counted.is_exact) == (len(expected), True), text
    assert (await app.count_jobs("tool:video")).credits == 20
    with pytest.raises(AttributeError, match="left out"):
        _ = (await app.search_jobs("")).items[0].payload
    world.clock.advance(3_600)
    assert ids(await app.search_jobs("stuck:yes")) == [held]
    assert held not in ids(await app.search_jobs("stuck:no"))


async def test_the_longest_search_is_answered_and_a_longer_one_refused(app: Ficha) -> None:
    job = await failed(app, "w0 w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19")
    words = " ".join(f"w{n}" for n in range(MOST_WORDS))
    assert [found.id for found in (await app.search_jobs(words)).items] == [job]
    names = ",".join(f"n{n}" for n in range(MOST_VALUES - 1))
    limit = f"tool:upscale,{names} account:ana,{names} plan:open,{names} pool:gpu,{names} {words} since:1h"
    assert [found.id for found in (await app.search_jobs(limit)).items] == [job]
    assert (await app.count_jobs(limit)).count == 1
    ids = " ".join([job, *(str(uuid4()) for _ in range(JOB_SEARCH_LENGTH // 37 - 1))])
    assert [found.id for found in (await app.search_jobs(ids)).items] == [job]
    for ask in (app.search_jobs, app.count_jobs, lambda text: app.begin_bulk_act("cancel", text, reason="x")):
        with pytest.raises(InvalidArgument, match=f"at most {MOST_WORDS} parts of errors"):
            await ask(" ".join(f"{n:x}" for n in range(500)))


async def test_the_longest_lists_of_a_request_are_answered(app: Ficha) -> None:
    await app.submit("upscale", {"image": "x"}, account="ana")
    pools = ["gpu"] * 1_000
    [lease] = await app.claim(pools, worker="w", limit=1_000, starts=True)
    assert len((await app.jobs(statuses=["running", "queued"] * 5_000)).items) == 1
    beats = await app.heartbeat([lease, *(LeaseName(str(uuid4()), 1) for _ in range(999))])
    assert len(beats) == 1_000


async def test_what_is_wrong_with_a_search_is_told(app: Ficha) -> None:
    with pytest.raises(InvalidArgument, match='"state:faild" at 14') as caught:
        await app.search_jobs("tool:upscale state:faild")
    assert caught.value.details == {"position": 14}
    with pytest.raises(InvalidArgument, match="limit must be"):
        await app.search_jobs("", limit=0)
    with pytest.raises(NotFound, match="an id is a UUID"):
        await app.search_jobs("", after="x")
    with pytest.raises(InvalidArgument):
        await app.count_jobs("dead:perhaps")


async def test_a_search_looks_at_so_many_jobs_and_says_where_to_go_on(world: World) -> None:
    app = await world.open(limits=FAST)
    await app.open_account("ana", plan="open", credits=1_000)
    jobs = [await submitted(app) for _ in range(9)]
    none = await app.search_jobs("tool:video")
    assert (none.items, none.looked_at, none.is_whole, none.next) == ([], 4, False, jobs[5])
    assert none.back_to is not None
    assert abs(none.back_to - datetime.now(UTC)) < timedelta(minutes=10)
    later = await app.search_jobs("tool:video", after=none.next)
    assert (later.looked_at, later.is_whole, later.next) == (4, False, jobs[1])
    last = await app.search_jobs("tool:video", after=later.next)
    assert (last.looked_at, last.is_whole, last.next) == (1, True, None)
    first = await app.search_jobs("", limit=2)
    assert (ids(first), first.looked_at, first.is_whole, first.next) == ([jobs[8], jobs[7]], 2, True, jobs[7])
    counted = await app.count_jobs("")
    assert (counted.count, counted.is_exact, counted.credits) == (3, False, 15)
    unseen = await app.count_jobs("tool:video")
    assert (unseen.count, unseen.is_exact) == (0, False)


async def test_slices_of_a_search_follow_each_other(world: World, app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [await submitted(app) for _ in range(7)]
    monkeypatch.setattr(operator_queries, "SLICE", 2)
    monkeypatch.setattr(operator_queries, "SEARCH_S", float("inf"))
    found = await app.search_jobs("tool:upscale", limit=5)
    assert (ids(found), found.next) == (jobs[:1:-1], jobs[2])
    whole = await app.search_jobs("tool:upscale")
    assert (ids(whole), whole.looked_at, whole.is_whole) == (jobs[::-1], 7, True)
    assert (await app.count_jobs("tool:upscale")).count == 7
    monkeypatch.setattr(operator_queries, "SEARCH_S", 0.0)
    cut = await app.search_jobs("tool:upscale", limit=5)
    assert (ids(cut), cut.is_whole, cut.next) == (jobs[:4:-1], False, jobs[5])


async def test_a_search_does_not_wait_for_the_first_look_at_a_long_queue(
    app: Ficha, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, read = asyncio.Event(), app.engine.store.read

    async def slow(query: Query[Any]) -> Any:
        if isinstance(query, GetWaiting):
            await looked.wait()
        return await read(query)

    monkeypatch.setattr(app.engine.store, "read", slow)
    monkeypatch.setattr(queries, "FIRST_LOOK_S", 0.001)
    await app.engine.call(Submit("ana", (new_job("018f0000-0000-7000-8000-000000000001", "upscale", "gpu", "{}", 1),)))
    [job] = (await app.search_jobs("")).items
    assert (job.position, job.waiting_for) == (None, "place")
    looked.set()

    async def position() -> int | None:
        return (await app.search_jobs("")).items[0].position

    await until(position)
    assert await position() == 1


async def test_a_page_of_a_search_has_so_many_bytes(world: World) -> None:
    app = await world.open(limits=Limits(page_bytes=2_500))
    await app.open_account("ana", plan="open", credits=1_000)
    jobs = [await submitted(app) for _ in range(5)]
    found = await app.search_jobs("")
    assert 1 <= len(found.items) < 5
    rest = await app.search_jobs("", after=found.next, limit=1)
    assert ids(found) + ids(rest) == jobs[::-1][: len(found.items) + 1]


async def test_the_page_of_a_job_tells_its_whole_life(world: World, app: Ficha) -> None:
    job_id = await submitted(app, "stubborn", correlation_id="c1")
    lease = await claim_one(app, "cpu")
    await app.start(lease)
    world.clock.advance(2)
    await app.save_step(lease, "load", {"bytes": 1, "token": "abc"})
    world.clock.advance(1)
    await app.fail(lease, "busy")
    world.clock.advance(60)
    await app.sweep()
    again = await claim_one(app, "cpu", "w2")
    world.clock.advance(3)
    await app.finish(again, {"url": "x", "api_key": "k", "n": 1})
    page = await app.job_page(job_id)
    assert page.job.payload == {}
    assert page.job.result == {"url": "x", "api_key": "[hidden]", "n": 1}
    assert [event.kind for event in page.events] == [
        *("submitted", "claimed", "started", "step", "retried", "claimed", "started", "completed")
    ]
    assert page.more_events is False
    [step] = page.steps
    assert (step.name, step.took_s) == ("load", 2.0)
    assert msgspec.json.decode(step.result) == {"bytes": 1, "token": "[hidden]"}
    runs = [(one.number, one.worker, one.how, one.error) for one in page.attempts]
    assert runs == [(1, "w1", "retried", "busy"), (2, "w2", "completed", None)]
    assert (page.attempts[1].ended_at or page.attempts[1].began_at) - page.attempts[1].began_at == timedelta(seconds=3)
    assert [(entry.kind, entry.amount) for entry in page.entries] == [("charge", -3)]
    assert [(run.job_id, run.status) for run in page.recent_runs] == [(job_id, "completed")]
    assert (page.traceback, page.trace_url, page.acts, page.live_workers) == (None, None, ("refund",), 0)
    with pytest.raises(NotFound):
        await app.job_page("018f0000-0000-7000-8000-000000000001")


async def test_the_acts_of_a_page_are_those_that_the_rules_allow(world: World, app: Ficha) -> None:
    async def acts(job_id: str) -> tuple[str, ...]:
        return (await app.job_page(job_id)).acts

    waiting = await submitted(app)
    assert await acts(waiting) == ("cancel",)
    lease = await claim_one(app)
    assert await acts(waiting) == ("cancel",)
    world.clock.advance(3_600)
    assert await acts(waiting) == ("cancel", "recover")
    await app.finish(lease, {})
    assert await acts(waiting) == ("refund",)
    await app.refund(waiting, reason="the picture was blurred")
    assert await acts(waiting) == ()
    dead = await failed(app, "no")
    assert await acts(dead) == ("requeue", "discard")
    before = await app.account("ana")
    await app.adjust("ana", 2 - before.balance, reason="too poor to run it again")
    assert await acts(dead) == ("discard",)
    assert (await app.account("ana")).balance == 2
    await app.discard(dead)
    assert await acts(dead) == ()
    assert await acts(await submitted(app, "embed")) == ("cancel",)


async def test_a_page_counts_the_workers_of_the_jobs_pool_that_are_alive(world: World, app: Ficha) -> None:
    async def live() -> int:
        return (await app.job_page(job_id)).live_workers

    job_id = await submitted(app)
    for name, pool in (("w1", "gpu"), ("w2", "gpu"), ("w3", "cpu")):
        await app.register_worker(RegisterWorker(name, "host", 7, (pool,), 1, "1.0", 10_000))
    assert await live() == 2
    await app.register_worker(RegisterWorker("w2", "host", 7, ("gpu",), 1, "1.0", 10_000, stops=True))
    assert await live() == 1
    world.clock.advance(31)
    assert await live() == 0


async def test_a_page_has_the_traceback_of_the_last_run_that_failed_without_secrets(world: World) -> None:
    def prepare(app: Ficha) -> None:
        @app.tool(pool="gpu", attempts=1)
        async def broken(job: JobContext) -> None:
            raise ValueError("no such model; password=hunter2hunter2")

    app = await world.open(prepare)
    await app.open_account("ana", plan="open", credits=10)
    job_id = await submitted(app, "broken")
    await app.run_worker(["gpu"], burst=True)
    page = await app.job_page(job_id)
    assert page.traceback is not None
    assert "in broken" in page.traceback
    assert page.traceback.rstrip().endswith("ValueError: no such model; password=[hidden]")
    assert [(one.how, one.error) for one in page.attempts] == [("failed", "no such model; password=[hidden]")]
    assert "hunter2" not in str(msgspec.json.encode(page))


async def test_a_long_history_is_cut_and_said_to_be(world: World, app: Ficha, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_queries, "EVENTS_SHOWN", 3)
    await submitted(app)
    lease = await claim_one(app)
    for name in ("one", "two", "three"):
        await app.save_step(lease, name, "x" * 40)
    page = await app.job_page(lease.job_id)
    assert (len(page.events), page.more_events, len(page.steps)) == (3, True, 3)
    small = await world.open(limits=Limits(page_bytes=100))
    steps = (await small.job_page(lease.job_id)).steps
    assert [step.result is msgspec.UNSET for step in steps] == [False, False, True]


async def test_dead_letters_are_grouped_by_error_whatever_numbers_it_has(world: World, app: Ficha) -> None:
    first = await failed(app, "job 17 timed out after 5.5 s at 0x7ffe")
    world.clock.advance(10)
    last = await failed(app, "job 21 timed out after 6 s at 0x80ff")
    await failed(app, "no model 018f0000-0000-7000-8000-000000000001")
    await failed(app, "no model 018f0000-0000-7000-8000-00000000000f", "embed")
    found = await app.dead_groups()
    told = [(group.error, group.tool, group.count, group.credits) for group in found.items]
    assert told == [
        ("job … timed out after … s at …", "upscale", 2, 10),
        ("no model …", "embed", 1, 2),
        ("no model …", "upscale", 1, 5),
    ]
    assert found.is_whole
    assert found.items[0].job_id == last
    assert found.items[0].last_at - found.items[0].first_at == timedelta(seconds=10)
    assert found.items[0].first_at == (await app.job(first)).finished_at
    few = await world.open(limits=FAST)
    cut = await few.dead_groups()
    assert (sum(group.count for group in cut.items), cut.is_whole) == (3, False)


async def test_batches_are_listed_page_by_page(world: World, app: Ficha) -> None:
    await app.open_account("bob", plan="open", credits=100)
    made = []
    for account, size in (("ana", 2), ("bob", 3), ("ana", 4)):
        receipt = await app.submit_batch([("upscale", {"image": "x"})] * size, account=account)
        made.append(receipt.batch_id)
    page = await app.batches()
    assert [(batch.id, batch.total, batch.progress) for batch in page.items] == [
        (made[2], 4, 0),
        (made[1], 3, 0),
        (made[0], 2, 0),
    ]
    assert page.next is None
    assert [batch.id for batch in (await app.batches(account="ana", limit=1)).items] == [made[2]]
    first = await app.batches(limit=2)
    rest = await app.batches(after=first.next)
    assert [batch.id for batch in first.items + rest.items] == made[::-1]
    few = await world.open(limits=FAST)
    part = await few.batches()
    assert ([batch.id for batch in part.items], part.next) == ([made[2]], made[2])


async def test_accounts_and_audit_lines_are_found(app: Ficha) -> None:
    boss = app.acting("boss")
    for name in ("bo", "bob", "bobby", "cleo"):
        await boss.open_account(name, plan="open")
    await app.acting("intern").grant("bob", 5)
    assert [account.id for account in (await app.accounts(search="bob")).items] == ["bob", "bobby"]
    assert [account.id for account in (await app.accounts(search="bob", after="bob")).items] == ["bobby"]
    with pytest.raises(InvalidArgument):
        await app.accounts(search="")
    lines = (await app.audit(target="account bob")).items
    assert [(line.actor, line.act) for line in lines] == [("intern", "grant"), ("boss", "open_account")]
    assert [line.actor for line in (await app.audit(target="account bob", actor="boss")).items] == ["boss"]
    page = await app.audit(actor="boss", limit=3)
    rest = await app.audit(actor="boss", limit=3, after=page.next)
    assert [line.target for line in page.items + rest.items] == [
        *("account cleo", "account bobby", "account bob", "account bo")
    ]


async def test_the_words_of_a_search_are_those_of_the_application(app: Ficha) -> None:
    words = await app.search_words()
    assert words.tools == sorted(app.tools)
    assert {"gpu", "cpu"} <= set(words.pools)
    assert "open" in words.plans
    assert words.states == ["queued", "starting", "running", "completed", "failed", "cancelled"]
    assert words.providers == []
