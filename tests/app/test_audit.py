"""Acting in a name: the same operations, each of which leaves a line in the transaction of what it tells of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ficha import AuditView, Ficha, InsufficientCredits, SubmitRequest
from ficha.store.base import StoreError
from tests.support.shop import World, balance, claim_one, state

pytestmark = pytest.mark.long_on("postgresql")


async def acts(app: Ficha) -> list[tuple[str, str, str]]:
    """Oldest first."""
    return [(line.actor, line.act, line.target) for line in reversed((await app.audit(limit=1_000)).items)]


async def last(app: Ficha) -> AuditView:
    return (await app.audit(limit=1)).items[0]


async def test_every_change_in_a_name_is_in_the_log_and_nothing_else(world: World, app: Ficha) -> None:
    boss = app.acting("boss")
    assert (await app.audit()).items == []
    await app.grant("ana", 1)
    await boss.open_account("bob", plan="pro", credits=50)
    await boss.grant("bob", 5, reason="promo", key="pay-1")
    await boss.adjust("bob", -5, reason="mistake")
    await boss.change_plan("bob", "open")
    job = await boss.submit("upscale", {"image": "x"}, account="bob", idempotency_key="k1")
    batch = await boss.submit_batch([("upscale", {"image": "y"})], account="bob")
    await boss.cancel(job.job_id, reason="enough")
    await boss.cancel_batch(batch.batch_id)
    hold = await boss.reserve("bob")
    await boss.release(hold.id)
    await boss.pause_pool("gpu")
    await boss.resume_pool("gpu")
    await boss.resize_pool("gpu", 7)
    made = await boss.create_api_key("ci", scope="admin")
    await boss.revoke_api_key(made.key.id)
    for look in (boss.job(job.job_id), boss.jobs(), boss.account("bob"), boss.pools(), boss.audit(), boss.verify()):
        await look
    assert await acts(app) == [
        ("boss", "open_account", "account bob"),
        ("boss", "grant", "account bob"),
        ("boss", "adjust", "account bob"),
        ("boss", "change_plan", "account bob"),
        ("boss", "submit", "account bob"),
        ("boss", "submit", "account bob"),
        ("boss", "cancel", f"job {job.job_id}"),
        ("boss", "cancel", f"job {batch.job_id}"),
        ("boss", "reserve", f"reservation {hold.id}"),
        ("boss", "release", f"reservation {hold.id}"),
        ("boss", "pause_pool", "pool gpu"),
        ("boss", "resume_pool", "pool gpu"),
        ("boss", "resize_pool", "pool gpu"),
        ("boss", "create_api_key", f"API key {made.key.id}"),
        ("boss", "revoke_api_key", f"API key {made.key.id}"),
    ]
    assert await app.verify() == []


async def test_a_line_tells_what_was_done_when_and_what_came_of_it(world: World, app: Ficha) -> None:
    world.clock.advance(1)
    await app.acting("admin 7").grant("ana", 5, reason="promo", key="pay-1")
    line = await last(app)
    assert (line.actor, line.act, line.target) == ("admin 7", "grant", "account ana")
    assert line.details == {"amount": 5, "reason": "promo", "key": "pay-1", "balance": 1_005}
    assert (line.at - (await app.account("ana")).opened_at).total_seconds() == 1
    world.clock.advance(1)
    await app.acting("admin 8").grant("ana", 5, reason="promo", key="pay-1")
    again = await last(app)
    assert (again.actor, again.number) == ("admin 8", line.number + 1)
    assert again.details == {**line.details, "changed": False}
    assert await balance(app) == 1_005


async def test_a_name_decides_nothing(world: World, app: Ficha) -> None:
    """Limits, balances and leases bind whoever acts."""
    boss = app.acting("boss")
    await app.open_account("bob", plan="free", credits=6)
    receipt = await boss.submit("upscale", {"image": "x"}, account="bob")
    assert (receipt.status, receipt.new_balance, receipt.rate.left) == ("queued", 1, 9)
    with pytest.raises(InsufficientCredits):
        await boss.submit("upscale", {"image": "x"}, account="bob")
    assert [act for _, act, _ in await acts(app)] == ["submit"]
    lease = await claim_one(boss)
    assert (await boss.finish(lease, {"image": "y"})).status == "completed"
    assert [act for _, act, _ in await acts(app)] == ["submit", "finish"]


async def test_an_act_that_is_rolled_back_leaves_no_line_and_no_change(world: World, app: Ficha) -> None:
    """The line and what it tells of are one transaction: a database that fails between the two keeps neither."""
    store: Any = app.engine.store
    apply_failed = asyncio.Event()
    transact = store.transact

    async def fails_after_deciding(committer: str, number: int, needs: Any, decide: Any, hints: Any) -> Any:
        def broken(snapshot: Any) -> Any:
            changes, _ = decide(snapshot)
            assert changes.audit
            apply_failed.set()
            raise StoreError("the disk is on fire")

        return await transact(committer, number, needs, broken, hints)

    before = await state(app)
    store.transact = fails_after_deciding
    try:
        with pytest.raises(StoreError):
            await app.acting("boss").grant("ana", 5)
    finally:
        store.transact = transact
    assert apply_failed.is_set()
    assert await state(app) == before
    assert (await app.audit()).items == []


async def test_many_who_act_at_once_each_leave_their_lines(world: World) -> None:
    apps = [await world.open(), await world.open()]
    names = [f"account {number}" for number in range(6)]
    for name in names:
        await apps[0].open_account(name, plan="open", credits=100)
    await asyncio.gather(
        *(apps[n % 2].acting(f"admin {n}").grant(name, 1) for n, name in enumerate(names * 10)),
        *(apps[n % 2].acting(f"admin {n}").submit("embed", {"text": f"{n}"}, account=names[n % 6]) for n in range(20)),
        *(apps[0].submit("embed", {"text": f"own {n}"}, account=names[n % 6]) for n in range(20)),
    )
    found = await acts(apps[0])
    assert sorted(found) == sorted(
        [(f"admin {n}", "grant", f"account {name}") for n, name in enumerate(names * 10)]
        + [(f"admin {n}", "submit", f"account {names[n % 6]}") for n in range(20)]
    )
    for name in names:
        entries = (await apps[0].ledger(name, limit=100)).items
        assert sum(entry.kind == "grant" for entry in entries) == 11
    assert await apps[0].verify() == []


async def test_many_submits_in_a_name_are_told_one_by_one(app: Ficha) -> None:
    requests = [SubmitRequest(tool="upscale", payload={"image": f"{n}"}, account="ana") for n in range(5)]
    refused = SubmitRequest(tool="upscale", payload={"image": "x"}, account="nobody")
    results = await app.acting("boss").submit_many([*requests, refused])
    jobs = [line.details["job_id"] for line in reversed((await app.audit()).items)]
    assert sorted(jobs) == sorted(receipt.job_id for receipt in results[:5])


async def test_what_a_sweep_does_because_somebody_asked_is_in_their_name(world: World, app: Ficha) -> None:
    receipt = await app.submit("stubborn", {}, account="ana", idempotency_key="k1", key_ttl_hours=0.001)
    (lease,) = await app.claim("cpu", worker="w1")
    hold = await app.reserve("ana", ttl_s=1)
    world.clock.advance(60)
    report = await app.acting("boss").sweep()
    assert (report.jobs, report.reservations, report.keys) == ({"requeued": 1}, 1, 1)
    assert await acts(app) == [("boss", "recover", f"job {lease.job_id}")]
    assert (await last(app)).details == {"act": "requeued", "refunded": 0}
    assert await app.claim("cpu", worker="w1") != []
    world.clock.advance(60)
    assert (await app.sweep()).jobs == {"requeued": 1}
    assert len(await acts(app)) == 1
    assert (receipt.job_id, hold.state) == (lease.job_id, "active")


async def test_the_log_is_read_in_pages_newest_first(app: Ficha) -> None:
    boss = app.acting("boss")
    for amount in range(1, 6):
        await boss.grant("ana", amount)
    first = await app.audit(limit=2)
    second = await app.audit(after=first.next, limit=2)
    third = await app.audit(after=second.next, limit=2)
    amounts = [line.details["amount"] for page in (first, second, third) for line in page.items]
    assert amounts == [5, 4, 3, 2, 1]
    assert third.next is None
    assert (await app.audit(after=first.items[0].number)).items[0] == first.items[1]


async def test_a_refusal_is_told_as_without_a_name(app: Ficha) -> None:
    for operations in (app, app.acting("boss")):
        with pytest.raises(InsufficientCredits, match="has 1000 credits and needs 1005") as refused:
            await operations.adjust("ana", -1_005, reason="x")
        assert refused.value.details == {"have": 1_000, "need": 1_005}
