"""For whoever operates the shop: recovery, dead letters, pools, lists page by page, and figures."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from ficha import Ficha, InsufficientCredits, InvalidArgument, InvalidState, NotFound
from tests.support.shop import World, balance, claim_one, history, state

# Recovery


async def test_stuck_jobs_are_listed_and_recovered_one_or_all(world: World) -> None:
    app = await world.open(lease_s=3_600, stuck_s=600)
    await app.open_account("ana", plan="open", credits=100)
    old = [(await app.submit("stubborn", account="ana")).job_id for _ in range(3)]
    silent = await app.claim("cpu", limit=3, worker="w2")
    world.clock.advance(599.999)
    job = (await app.submit("embed", {"text": "x"}, account="ana")).job_id
    (lease,) = await app.claim("cpu", limit=4, worker="w1")
    assert (await app.stuck()).items == []
    world.clock.advance(0.002)
    assert [job.id for job in (await app.stuck()).items] == old[::-1]
    assert {job.locked_by for job in (await app.stuck()).items} == {"w2"}
    assert (await app.stats()).stuck == 3
    for alive in silent[1:]:
        await app.heartbeat(alive)
    assert [job.id for job in (await app.stuck()).items] == old[:1]
    assert (await app.recover(job)).act == "nothing"
    assert (await app.recover(old[0])).act == "requeued", "nobody worked on it, so it did not time out"
    assert (await app.stuck()).items == []
    assert await app.heartbeat(lease) == [lease.expires_at + timedelta(seconds=0.002)]
    with pytest.raises(NotFound):
        await app.recover("00000000-0000-7000-8000-000000000000")


async def test_the_figures_show_what_is_active_where_it_stands_and_how_long_runs_take(world: World, app: Ficha) -> None:
    empty = await app.stats()
    assert (empty.by_status, empty.by_checkpoint, empty.stuck, empty.dead) == ({}, {}, 0, 0)
    assert empty.avg_run_s is None
    for number in range(6):
        await app.submit("embed", {"text": str(number)}, account="ana")
    leases = await app.claim("cpu", limit=5, worker="w1")
    await app.start(leases[0])
    await app.checkpoint(leases[0], "HALF", progress=50)
    await app.checkpoint(leases[1], "HALF", progress=50)
    world.clock.advance(4)
    await app.finish(leases[2], 1)
    world.clock.advance(2)
    await app.finish(leases[3], 1)
    await app.fail(leases[4], "no")
    figures = await app.stats()
    assert figures.by_status == {"queued": 1, "starting": 1, "running": 1}
    assert figures.by_checkpoint == {"HALF": 2}
    assert (figures.dead, figures.avg_run_s) == (1, 5.0)


# Dead letters


@pytest.mark.req("B6")
async def test_a_dead_letter_can_be_looked_at_run_again_and_discarded(app: Ficha) -> None:
    jobs = []
    for number in range(3):
        jobs.append((await app.submit("embed", {"text": str(number)}, account="ana")).job_id)
        await app.fail(await claim_one(app, "cpu"), f"error {number}")
    page = await app.dead_letters(account="ana")
    assert [(job.id, job.error, job.is_dead_letter) for job in page.items] == [
        (jobs[2], "error 2", True),
        (jobs[1], "error 1", True),
        (jobs[0], "error 0", True),
    ]
    assert (await app.dead_letters(account="nobody")).items == []
    assert await balance(app) == 1_000

    again = await app.requeue(jobs[0])
    job = await app.job(again)
    assert (job.status, job.requeue_of, job.payload, job.charged, job.attempts) == (
        "queued",
        jobs[0],
        {"text": "0"},
        2,
        0,
    )
    assert (await app.job(jobs[0])).status == "failed"
    assert await history(app, jobs[0]) == ["submitted", "claimed", "failed", "requeued"]
    with pytest.raises(InvalidState, match="not in the dead-letter list"):
        await app.requeue(jobs[0])

    assert (await app.discard(jobs[1])).changed
    assert not (await app.discard(jobs[1])).changed
    assert [job.id for job in (await app.dead_letters()).items] == [jobs[2]]
    await app.finish(await claim_one(app, "cpu"), 1)
    assert await balance(app) == 998
    assert await app.verify() == []


async def test_a_dead_letter_is_not_run_again_on_credit(app: Ficha) -> None:
    receipt = await app.submit("embed", {"text": "x"}, account="ana")
    await app.fail(await claim_one(app, "cpu"), "no")
    await app.adjust("ana", -999, reason="spent elsewhere")
    before = await state(app)
    with pytest.raises(InsufficientCredits, match="has 1 credits and needs 2"):
        await app.requeue(receipt.job_id)
    assert await state(app) == before


# Pools


async def test_an_autoscaler_learns_of_all_pools_that_its_workers_serve(app: Ficha) -> None:
    for number in range(6):
        await app.submit("upscale", {"image": str(number)}, account="ana")
        await app.submit("embed", {"text": str(number)}, account="ana")
    both = await app.queue_depth("gpu", "cpu", "gpu", concurrency=5)
    assert (both.pool, both.ready, both.slots, both.paused) == ("gpu,cpu", 12, None, False)
    # Three of gpu, for which there are slots, and six of cpu: together they are less than apart.
    assert both.wanted_workers == 2
    assert (await app.queue_depth("gpu", concurrency=5)).wanted_workers == 1
    assert (await app.queue_depth("cpu", concurrency=5)).wanted_workers == 2
    every = await app.queue_depth(concurrency=5)
    assert {"gpu", "cpu"} <= set(every.pool.split(","))
    assert (every.ready, every.wanted_workers) == (12, 2)
    await app.pause_pool("gpu")
    both = await app.queue_depth("gpu", "cpu", concurrency=1)
    assert (both.paused, both.wanted_workers) == (False, 6)
    assert (await app.queue_depth("gpu")).paused


async def test_an_autoscaler_learns_how_many_workers_have_work(app: Ficha) -> None:
    async def depth(**asked: int) -> tuple[int, int, int, int]:
        found = await app.queue_depth("gpu", **asked)
        return found.ready, found.running, found.busy, found.wanted_workers

    assert await depth() == (0, 0, 0, 0)
    for number in range(6):
        await app.submit("upscale", {"image": str(number)}, account="ana")
    assert await depth() == (6, 0, 0, 1), "there are three slots"
    assert await depth(concurrency=2) == (6, 0, 0, 2)
    assert await depth(concurrency=1, count_up_to=2) == (2, 0, 0, 2)
    leases = await app.claim("gpu", limit=2, worker="w1")
    assert await depth(concurrency=1) == (4, 2, 2, 3)
    await app.accept(leases[0], "ref")
    assert await depth(concurrency=1) == (4, 1, 2, 2), "a provider has one of them"
    await app.pause_pool("gpu")
    assert await depth(concurrency=1) == (4, 1, 2, 1)
    found = await app.queue_depth("gpu")
    assert (found.pool, found.slots, found.paused) == ("gpu", 3, True)
    assert (await app.queue_depth("cpu")).slots is None
    with pytest.raises(NotFound, match="no pool 'none'"):
        await app.queue_depth("cpu", "none")
    for asked in ({"concurrency": 0}, {"concurrency": 10**6}, {"count_up_to": 0}, {"count_up_to": 100_001}):
        with pytest.raises(InvalidArgument, match=f"{next(iter(asked))} must be a whole number from 1"):
            await depth(**asked)
    await depth(count_up_to=100_000)


async def test_a_pool_can_be_paused_resumed_and_resized(app: Ficha) -> None:
    for number in range(6):
        await app.submit("upscale", {"image": str(number)}, account="ana")
    pools = {pool.name: pool for pool in await app.pools()}
    assert sorted(pools) == ["cpu", "default", "gpu"]
    assert (pools["gpu"].slots, pools["gpu"].busy, pools["gpu"].ready, pools["gpu"].paused) == (3, 0, 6, False)
    assert (pools["cpu"].slots, pools["default"].slots) == (None, None)
    assert await app.queue_length("gpu") == 6

    assert (await app.pause_pool("gpu")).paused
    assert await app.claim("gpu", limit=6, worker="w1") == []
    assert not (await app.resume_pool("gpu")).paused
    leases = await app.claim("gpu", limit=6, worker="w1")
    assert len(leases) == 3

    assert (await app.resize_pool("gpu", 1)).limit == 1
    await app.finish(leases[0], 1)
    assert await app.claim("gpu", limit=6, worker="w1") == []
    assert (await app.resize_pool("gpu", 0)).limit == 0
    assert (await app.resize_pool("gpu", 4)).limit == 4
    assert len(await app.claim("gpu", limit=6, worker="w1")) == 2
    pool = next(pool for pool in await app.pools() if pool.name == "gpu")
    assert (pool.slots, pool.busy, pool.ready) == (4, 4, 1)
    assert (await app.resize_pool("gpu", None)).limit == 3
    assert await app.queue_length("gpu") == 1
    assert await app.queue_length("cpu") == 0


async def test_the_length_of_a_queue_counts_parked_jobs(app: Ficha) -> None:
    await app.open_account("ben", plan="free", credits=100)
    for _ in range(3):
        await app.submit("upscale", {"image": "x"}, account="ben")
    await app.submit("upscale", {"image": "x"}, account="ana", delay_s=60)
    pool = next(pool for pool in await app.pools() if pool.name == "gpu")
    assert (pool.ready, pool.parked) == (1, 3)
    assert await app.queue_length("gpu") == 4
    assert await app.queue_length("cpu") == 0


async def test_an_operators_resize_stands_when_the_application_starts_again(world: World, app: Ficha) -> None:
    await app.resize_pool("gpu", 1)
    await app.pause_pool("cpu")
    again = await world.open()
    pools = {pool.name: pool for pool in await again.pools()}
    assert (pools["gpu"].slots, pools["cpu"].paused) == (1, True)


# Lists


async def walked(ask: Callable[..., Awaitable[Any]], limit: int, cursor: str = "after") -> tuple[list[Any], int]:
    """All items of a list, page by page, and how many pages there were."""
    items: list[Any] = []
    pages = 0
    after: dict[str, Any] = {}
    while True:
        page = await ask(limit=limit, **after)
        pages += 1
        assert len(page.items) <= limit
        items += page.items
        if page.next is None:
            return items, pages
        after = {cursor: page.next}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1_000])
async def test_every_list_is_walked_page_by_page_without_a_gap_or_a_repeat(app: Ficha, limit: int) -> None:
    for name in ("ben", "cleo", "dora", "éva", "zoe"):
        await app.open_account(name, plan="open", credits=10)
    jobs, holds, dead = [], [], []
    for number in range(6):
        jobs.append(await app.submit("embed", {"text": str(number)}, account="ana", idempotency_key=f"k{number}"))
        holds.append((await app.reserve("ana")).id)
        await app.fail(await claim_one(app, "cpu"), "no")
        dead.append(jobs[-1].job_id)
    ids = [receipt.job_id for receipt in jobs]

    found, pages = await walked(lambda **page: app.jobs(account="ana", **page), limit)
    assert [job.id for job in found] == ids[::-1]
    assert pages == 6 // limit + 1
    found, _ = await walked(lambda **page: app.dead_letters(**page), limit)
    assert [job.id for job in found] == dead[::-1]
    found, _ = await walked(lambda **page: app.reservations(account="ana", **page), limit)
    assert [hold.id for hold in found] == holds[::-1]
    found, _ = await walked(app.accounts, limit)
    assert [account.id for account in found] == ["ana", "ben", "cleo", "dora", "zoe", "éva"]
    found, _ = await walked(lambda **page: app.ledger("ana", **page), limit, cursor="before")
    assert [entry.number for entry in found] == list(range(13, 0, -1))
    assert sum(entry.amount for entry in found) == await balance(app)

    found, after = [], None
    while page := await app.idempotency_keys(account="ana", after=after, limit=limit):
        found += page
        after = (page[-1].account, page[-1].key, page[-1].scope)
    assert [(key.key, key.job_id) for key in found] == [(f"k{n}", ids[n]) for n in range(6)]
    found, last = [], 0
    while page := await app.events(account="ana", after=last, limit=limit):
        found += page
        last = page[-1].number
    assert [event.kind for event in found] == ["submitted", "claimed", "failed"] * 6
    assert [event.number for event in found] == sorted({event.number for event in found})


async def test_jobs_are_found_by_what_they_are(app: Ficha) -> None:
    await app.open_account("ben", plan="open", credits=100)
    batch = await app.submit("images", {"n": 8}, account="ana")
    up = await app.submit("upscale", {"image": "x"}, account="ben", session="tab-1")
    embed = await app.submit("embed", {"text": "x"}, account="ben", session="tab-2")
    await app.cancel(embed.job_id)

    async def found(**conditions: Any) -> set[str]:
        return {job.id for job in (await app.jobs(**conditions)).items}

    assert await found(account="ben") == {up.job_id, embed.job_id}
    assert await found(tool="upscale") == {up.job_id}
    assert await found(pool="cpu") == {embed.job_id}
    assert await found(session="tab-1") == {up.job_id}
    assert await found(statuses=["cancelled"]) == {embed.job_id}
    assert len(await found(statuses=["queued"])) == 3
    assert len(await found(statuses=["queued", "cancelled"])) == 4
    assert len(await found(batch=batch.batch_id)) == 2
    assert await found(batch=batch.batch_id, account="ben") == set()
    assert await found(account="ben", statuses=["queued"], tool="upscale", pool="gpu", session="tab-1") == {up.job_id}
    assert len(await found()) == 4


async def test_the_history_of_a_job_can_be_read_on_from_any_event(app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    lease = await claim_one(app)
    await app.start(lease)
    await app.checkpoint(lease, "HALF", progress=50)
    events = await app.events(job=receipt.job_id)
    assert [event.kind for event in events] == ["submitted", "claimed", "started", "checkpoint"]
    assert (events[1].data, events[3].data) == ({"worker": "w1", "epoch": 1}, {"name": "HALF", "progress": 50})
    await app.finish(lease, 1)
    assert [event.kind for event in await app.events(job=receipt.job_id, after=events[-1].number)] == ["completed"]
    assert all(event.job_id == receipt.job_id for event in await app.events(job=receipt.job_id))


async def test_the_same_key_in_two_scopes_is_listed_twice_whatever_the_page(app: Ficha) -> None:
    await app.grant("ana", 5, key="same")
    await app.submit("upscale", {"image": "x"}, account="ana", idempotency_key="same")
    grant, submit = await app.idempotency_keys(account="ana")
    assert (grant.key, grant.scope, grant.expires_at, grant.job_id) == ("same", "grant", None, None)
    assert (submit.key, submit.scope) == ("same", "submit")
    assert await app.idempotency_keys(limit=1) == [grant]
    assert await app.idempotency_keys(after=("ana", "same", "grant"), limit=1) == [submit]


@pytest.mark.req("A13")
async def test_a_job_shows_how_long_it_waited(world: World, app: Ficha) -> None:
    receipt = await app.submit("upscale", {"image": "x"}, account="ana")
    world.clock.advance(3)
    lease = await claim_one(app)
    world.clock.advance(60)
    await app.recover(receipt.job_id)
    job = await app.job(receipt.job_id)
    assert (job.status, job.waited_in_queue, job.recoveries) == ("queued", 3.0, 1)
    assert job.started_at - job.created_at == timedelta(seconds=3)
    assert lease.epoch == job.epoch
    never = await app.submit("upscale", {"image": "x"}, account="ana")
    world.clock.advance(7)
    await app.cancel(never.job_id)
    assert (await app.job(never.job_id)).waited_in_queue == 7.0


@pytest.mark.parametrize("limit", [0, -1, 1_001, 2.5, True, "10", None])
async def test_the_size_of_a_page_must_make_sense(app: Ficha, limit: Any) -> None:
    for ask in (
        app.accounts,
        app.jobs,
        app.dead_letters,
        app.stuck,
        app.reservations,
        app.idempotency_keys,
        app.events,
        lambda limit: app.ledger("ana", limit=limit),
    ):
        with pytest.raises(InvalidArgument, match="limit must be a whole number from 1 to 1000"):
            await ask(limit=limit)
