"""Every record reads back as it was written, in whichever table it is."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import Claimed, Finished, PoolChanged, Submitted
from ...core.policy import MAX_AMOUNT, MAX_BALANCE, PRIORITY_MAX, PRIORITY_MIN, HookTerms
from ...core.records import (
    Account,
    AnyKeyed,
    Awaiting,
    Batch,
    BulkAct,
    BulkFailure,
    DeclaredHook,
    Delivery,
    Endpoint,
    Entry,
    FigureCursor,
    Figures,
    File,
    FileUsage,
    Histogram,
    JobCounts,
    Key,
    Leader,
    Leased,
    Measures,
    PageSession,
    PageSessions,
    Parked,
    Pool,
    ProviderState,
    QueueCount,
    Ready,
    Reservation,
    Rollup,
    Schedule,
    Status,
    WebhookEndpoints,
)
from ...core.snapshot import Changes
from ...store.base import GetAccount, GetJobs, GetWaiting, ListHooks
from ..driver import Driver
from .scenes import SPEC_TEXTS, finish, lease, new_job, one_in_each_place, open_house, submit


class RecordConformance:
    """Records, with jobs in every place."""

    async def test_a_job_reads_back_the_same_in_every_place(self, driver: Driver) -> None:
        places = await one_in_each_place(driver)
        await driver.check()
        jobs = {job_id: row.job for job_id, row in (await driver.rows()).items()}
        assert {type(job.place) for job in jobs.values()} == {Ready, Parked, Leased, Awaiting, type(None)}
        assert {job.status for job in jobs.values()} == {
            "queued",
            "starting",
            "running",
            "completed",
            "failed",
            "cancelled",
        }
        assert isinstance(jobs[places.ageing].place, Ready)
        assert jobs[places.ageing].place != Ready(jobs[places.ageing].priority)

    async def test_a_job_that_moves_often_reads_back_the_same_after_each_move(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, max_attempts=5)
        job_id = held.job.id
        for epoch in (1, 2, 3):
            await driver.run(c.Heartbeat(job_id, epoch, starts=True))
            await driver.check()
            await driver.run(c.SaveCheckpoint(job_id, epoch, f"C{epoch}", epoch * 10, json.dumps({"at": epoch})))
            await driver.check()
            await driver.run(c.Finish(job_id, c.Failed("again"), epoch))
            await driver.check()
            driver.clock.advance(60)
            await driver.run(c.Recover(job_id))
            await driver.check()
            await driver.run(c.Claim("w2", ("cpu",)))
            await driver.check()
        await driver.run(c.Finish(job_id, c.AcceptedByProvider("ref"), 4))
        await driver.check()
        await driver.run(c.Finish(job_id, c.Completed('"done"')))
        await driver.check()
        assert driver.expected.jobs[job_id].attempts == 3

    async def test_a_refund_after_the_end_reads_back(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver)
        await finish(driver, held, c.Completed('"done"'))
        outcomes = await driver.run(c.RefundJob(held.job.id, "it's black"), c.RefundJob(held.job.id, "again"))
        assert [isinstance(outcome, Finished) and outcome.changed for outcome in outcomes] == [True, False]
        await driver.check()
        again = await driver.one(c.RefundJob(held.job.id, "again"), Finished)
        assert (again.changed, again.refunded) == (False, 5)

    async def test_a_job_that_moves_several_times_in_one_group_reads_back_where_it_ended(self, driver: Driver) -> None:
        await open_house(driver)
        first, second, third = (new_job(driver.new_id(), pool="cpu", max_attempts=2) for _ in range(3))
        await driver.run(
            c.Submit("ana", (first,)),
            c.Claim("w1", ("cpu",)),
            c.Heartbeat(first.id, 1, starts=True),
            c.SaveCheckpoint(first.id, 1, "HALF", 50, '{"page": 1}'),
            c.SaveStep(first.id, 1, "download", "[1]"),
            c.Finish(first.id, c.Completed('{"born": "and ended"}'), 1),
            c.Submit("bob", (second,)),
            c.Submit("bob", (third,)),
            c.Claim("w1", ("cpu",), limit=2),
            c.SaveCheckpoint(second.id, 1, "BEFORE", 1, "{}"),
            c.Finish(second.id, c.RetryLater(60_000), 1),
        )
        await driver.check()
        rows = await driver.rows()
        assert rows[first.id].job.status == "completed"
        assert isinstance(rows[second.id].job.place, Parked)
        assert isinstance(rows[third.id].job.place, Ready)
        await driver.run(
            c.CancelJob(second.id),
            c.Claim("w2", ("cpu",)),
            c.Finish(third.id, c.AcceptedByProvider("ref"), 1),
            c.Finish(third.id, c.Failed("no"), 1),
        )
        await driver.check()

    async def test_every_optional_field_of_a_job_reads_back_whether_it_is_set_or_not(self, driver: Driver) -> None:
        await open_house(driver)
        await submit(driver)
        texts = {name: name for name in SPEC_TEXTS if name != "pool"}
        full = new_job(driver.new_id(), units=7, priority=-3, max_wait_ms=1, part_of=driver.new_id(), **texts)
        await driver.one(
            c.Submit(
                "ana",
                (full,),
                fingerprint="print",
                key="key",
                batch_id=driver.new_id(),
                delay_ms=5,
                submitted_by=driver.new_id(),
            ),
            Submitted,
        )
        await driver.check()
        job = (await driver.rows())[full.id].job
        unset = {name for part in (job, job.spec) for name in part.__struct_fields__ if getattr(part, name) is None}
        assert unset == {
            *(
                "checkpoint",
                "dead_at",
                "delivered",
                "error",
                "finished_at",
                "first_run_at",
                "first_worker",
                "requeue_of",
            ),
            *("payload_removed_at", "provider_cost", "removed_at", "started_at"),
            "user_error",
        }
        await driver.run(c.CancelJob(full.id))
        await driver.check()

    async def test_the_largest_numbers_read_back_exactly(self, driver: Driver) -> None:
        await open_house(driver)
        big = 2**53 - 1
        numbers = {
            name: big - place
            for place, name in enumerate(Account.__struct_fields__)
            if name not in ("id", "plan", "latest_job")
        }
        await driver.write(
            Changes(
                accounts=[Account("big", "pro", **{**numbers, "balance": MAX_BALANCE}, latest_job=driver.new_id())],
                entries=[
                    Entry("big", 1, "grant", MAX_AMOUNT, MAX_BALANCE, big),
                    Entry("big", big, "adjust", -MAX_AMOUNT, MAX_BALANCE - MAX_AMOUNT, big, reason="why"),
                ],
                pools=[Pool("big", 1_000_000, 1_000_000)],
                keyed=[Leader("big", "owner", big)],
                batches=[Batch(driver.new_id(), "big", big, big)],
                keys=[Key("big", "grant", "big", "print", big, big, None, None, big, big, big)],
                reservations=[Reservation(driver.new_id(), "big", "active", big, big, driver.new_id())],
            )
        )
        # A refund is never refused, so a balance may exceed the largest that a grant can reach.
        await driver.write(Changes(accounts=[Account("more", "pro", 0, MAX_BALANCE + MAX_AMOUNT)]))
        years_ms = 20 * 365 * 86_400_000
        await driver.run(c.Credit("ana", MAX_AMOUNT, "grant"))
        held = await lease(
            driver,
            cost=MAX_AMOUNT,
            units=big,
            timeout_ms=years_ms,
            max_wait_ms=years_ms,
            max_attempts=big,
            backoff_ms=big,
            backoff_max_ms=years_ms,
        )
        await driver.check()
        await driver.run(c.SaveCheckpoint(held.job.id, 1, "FAR", big))
        await finish(driver, held, c.Completed("1", delivered=1))
        await driver.check()
        assert (await driver.read(GetAccount("big"))) == driver.expected.accounts["big"]

    async def test_accounts_read_back_field_by_field(self, driver: Driver) -> None:
        names = [name for name in Account.__struct_fields__ if name not in ("id", "plan", "latest_job")]
        values: dict[str, Any] = {name: 1_767_225_600_000_000 + number for number, name in enumerate(names)}
        await driver.write(
            Changes(
                accounts=[
                    Account("each", "pro", **values, latest_job=driver.new_id()),
                    Account("none", "pro", driver.clock()),
                ]
            )
        )
        await driver.check()
        turned = dict(zip(names, reversed(values.values()), strict=True))
        await driver.write(Changes(accounts=[Account("each", "free", **turned)]))
        await driver.check()

    async def test_instants_are_exact_to_the_microsecond(self, driver: Driver) -> None:
        await open_house(driver)
        # The last is the year 2254: seconds with six decimals no longer fit into a float long before it.
        for now in (1_767_225_599_999_999, 1_767_225_600_000_000, 1_767_225_600_000_001, 8_991_234_567_890_123):
            driver.clock.now = now
            held = await lease(driver, max_attempts=2, max_wait_ms=1)
            driver.clock.advance(0.000_001)
            await driver.run(
                c.Heartbeat(held.job.id, 1),
                c.SaveCheckpoint(held.job.id, 1, "HALF"),
                c.SaveStep(held.job.id, 1, "a", "1"),
            )
            await driver.check()
            driver.clock.advance(0.000_001)
            await finish(driver, held, c.Failed("again"))
            await driver.check()
            await submit(driver, "eva", max_wait_ms=1)
            await driver.run(c.Elect("sweeper", "a", 1), c.Reserve(driver.new_id(), "ana"), c.CancelJob(held.job.id))
            await driver.check()

    async def test_ranks_order_from_the_lowest_priority_to_the_highest(self, driver: Driver) -> None:
        await open_house(driver)
        await driver.run(c.OpenAccount("first", "first", 10), c.OpenAccount("last", "last", 10))
        ids = [
            await submit(driver, account, priority=priority)
            for account, priority in (("last", 9_999), ("ana", 0), ("ana", -10), ("ana", -11), ("first", -9_999))
        ]
        await driver.check()
        rows = await driver.rows()
        assert [rows[job_id].job.priority for job_id in ids] == [PRIORITY_MAX, 10, 0, -1, PRIORITY_MIN]
        waiting = (await driver.read(GetWaiting())).ready.jobs()["gpu"]
        assert [job_id for _, job_id in waiting] == ids[::-1]
        assert waiting[0][0] < 0 < waiting[-1][0]
        claimed = await driver.one(c.Claim("w1", ("gpu",), limit=9), Claimed)
        assert [held.job.id for held in claimed.leases] == ids[::-1]

    async def test_keys_read_back_whole_and_are_replaced_once_expired(self, driver: Driver) -> None:
        await open_house(driver)
        jobs = [new_job(driver.new_id()) for _ in range(3)]
        await driver.run(
            c.Submit("ana", (jobs[0],), "one", key="same", key_ttl_ms=1_000),
            c.Submit("bob", (jobs[1], jobs[2]), "many", key="same", batch_id=driver.new_id()),
            c.Credit("ana", 5, "grant", key="same"),
            c.Credit("ana", -5, "adjust", key="-._~"),
        )
        await driver.check()
        driver.clock.advance(1)
        again = new_job(driver.new_id())
        outcome = await driver.one(c.Submit("ana", (again,), "two", key="same"), Submitted)
        assert not outcome.idempotent_hit
        await driver.check()

    async def test_reservations_pools_and_leaders_read_back_after_every_change(self, driver: Driver) -> None:
        await open_house(driver)
        first, second, third, fourth = (driver.new_id() for _ in range(4))
        await driver.run(*(c.Reserve(held, "ana", ttl_ms=1_000) for held in (first, second, third, fourth)))
        await driver.check()
        job = new_job(driver.new_id())
        await driver.run(
            c.EndReservation(first, "consumed"),
            c.EndReservation(second, "released"),
            c.Submit("ana", (job,), reservation_id=third),
        )
        driver.clock.advance(1)
        await driver.run(c.ExpireReservation(fourth))
        await driver.check()
        states = {held.id: held.state for held in driver.expected.reservations.values()}
        assert states == {first: "consumed", second: "released", third: "consumed", fourth: "expired"}
        for command in (
            c.PausePool("cpu"),
            c.ResizePool("cpu", 0),
            c.ResizePool("gpu", 7),
            c.DeclarePool("cpu", None),
            c.PausePool("cpu", paused=False),
            c.ResizePool("cpu", None),
        ):
            changed = await driver.one(command, PoolChanged)
            assert driver.expected.pools[changed.pool.name] == changed.pool
            await driver.check()
        await driver.run(c.Elect("sweeper", "a", 1_000), c.Elect("sweeper", "b", 1_000))
        await driver.check()
        driver.clock.advance(1)
        await driver.run(c.Elect("sweeper", "b", 1_000))
        await driver.check()
        assert driver.expected.of(Leader)["sweeper"].owner == "b"

    async def test_hooks_read_back_after_every_change_and_those_that_are_due_are_found(self, driver: Driver) -> None:
        await open_house(driver)
        ends: frozenset[Status] = frozenset({"cancelled"})
        driver.policy = replace(driver.policy, hooks=(HookTerms("told", ends), HookTerms('it\'s "paid"', ends)))
        first, second = [await submit(driver) for _ in range(2)]
        await driver.run(c.CancelJob(first))
        driver.clock.advance(1)
        await driver.run(c.CancelJob(second))
        await driver.check()

        async def listed(**asked: Any) -> list[tuple[str, str]]:
            return [(hook.name, hook.job_id) for hook in await driver.read(ListHooks(**asked))]

        names = ('it\'s "paid"', "told")
        everything = [(name, job_id) for job_id in (first, second) for name in names]
        assert await listed() == await listed(is_due=True) == await listed(names=names) == everything
        assert await listed(names=("told",), is_due=True) == [("told", first), ("told", second)]
        assert (await listed(limit=3), await listed(names=("none",))) == (everything[:3], [])
        await driver.run(c.HoldHook("told", first, 60_000), c.HoldHook("told", second, 60_000))
        await driver.run(c.EndHook("told", first, 1, 'it\'s "broken"'), c.EndHook(names[0], second, 0))
        await driver.check()
        assert await listed(is_due=True) == [(names[0], first)]
        driver.clock.advance(1)
        assert await listed(is_due=True) == [(names[0], first), ("told", first)]
        # Held and ended in one commit group.
        await driver.run(c.HoldHook("told", first, 60_000), c.EndHook("told", first, 2))
        await driver.check()
        assert await listed() == [(names[0], first), ("told", second)]

    async def test_of_equal_contents_one_is_computed_and_answers_the_others(self, driver: Driver) -> None:
        await open_house(driver)
        # In the order of their plans' priorities.
        accounts = ("ana", "eva", "bob")
        first, second, third = [await submit(driver, name, pool="cpu", content_hash="same") for name in accounts]
        claimed = await driver.one(c.Claim("w1", ("cpu",), limit=2), Claimed)
        assert ([lease.job.id for lease in claimed.leases], claimed.behind) == ([first], (second,))
        await driver.check()
        # It ends without a result, and another one begins, in one commit group.
        _, taken = await driver.run(c.Finish(first, c.Failed("no"), 1), c.Claim("w1", ("cpu",), limit=1))
        assert isinstance(taken, Claimed)
        assert [lease.job.id for lease in taken.leases] == [third]
        await driver.check()
        await driver.run(c.Recover(second))
        await driver.check()
        await driver.run(c.Finish(third, c.Completed('"three"'), 1))
        await driver.check()
        await driver.run(c.Recover(second))
        served = await submit(driver, "bob", content_hash="same")
        other_tool = await submit(driver, "bob", content_hash="same", tool="train")
        await driver.check()
        rows = await driver.rows()
        assert (rows[second].result, rows[second].job.refunded) == ('"three"', rows[second].job.charged)
        assert (rows[served].result, rows[served].job.status) == ('"three"', "completed")
        assert rows[other_tool].job.status == "queued"

    async def test_equal_contents_that_are_claimed_at_once_are_computed_once(self, driver: Driver) -> None:
        await open_house(driver)
        for account in ("ana", "bob", "eva", "ana"):
            await submit(driver, account, pool="cpu", content_hash="same")
        outcomes = await driver.race(*([c.Claim(f"w{n}", ("cpu",))] for n in range(4)))
        leases = [lease for (claimed,) in outcomes if isinstance(claimed, Claimed) for lease in claimed.leases]
        assert len(leases) == 1
        await driver.check()

    async def test_a_content_that_nobody_computes_any_more_is_free(self, driver: Driver) -> None:
        await open_house(driver)
        for ending in (c.Failed("no"), c.CancelledByHandler("no"), c.Completed("1", 1, 2), c.RetryLater(1)):
            held = await lease(driver, content_hash="same")
            await driver.check()
            await finish(driver, held, ending)
            assert driver.expected.contents == {}
            await driver.check()

    async def test_names_that_are_no_identifiers_are_simply_not_found(self, driver: Driver) -> None:
        await open_house(driver)
        for odd in ("", "42", "no such job", "'", "0" * 36, driver.new_id().upper() + "a"):
            outcomes = await driver.run(
                c.CancelJob(odd),
                c.Heartbeat(odd, 1),
                c.SaveStep(odd, 1, "a", "1"),
                c.EndReservation(odd, "released"),
                c.Discard(odd),
            )
            assert {getattr(outcome, "code", None) for outcome in outcomes} == {"NOT_FOUND"}, odd
            assert await driver.read(GetJobs((odd,))) == []
        await driver.check()

    async def test_keyed_records_of_every_kind_read_back_after_every_change(self, driver: Driver) -> None:
        """Every kind is written, changed and removed by its key, and read with the account that it belongs to."""
        await driver.run(c.OpenAccount("ana", "pro"), c.OpenAccount("bob", "pro"))
        now, ids = driver.clock(), [driver.new_id() for _ in range(4)]
        address = Endpoint(ids[0], "https://a.test/é", ("job.failed",), (("whsec_1", None), ("whsec_2", now)), now)
        sent = Delivery(ids[1], "ana", ids[0], "job.failed", "bob", None, '{"a": 1e16}', now, now)
        failures = (BulkFailure(ids[0], "INTERNAL", "it's"),)
        upload = File(ids[2], "ana", 'it\'s "mine".png', "uploading", "input", now)
        made: list[AnyKeyed] = [
            Leader("duty", "a", now),
            ProviderState("rh"),
            WebhookEndpoints(""),
            WebhookEndpoints("ana", (address,)),
            sent,
            upload,
            FileUsage("bob"),
            PageSessions("ana", now, (PageSession("s1", now),)),
            FigureCursor("figures"),
            Rollup("minute 1", now, Figures()),
            BulkAct(ids[0], "refund", "é", "r", "boss", 1, 2, now, now, ids[1]),
            Schedule("é", "0 9 * * *", "UTC", "draw", None, now),
            DeclaredHook("é", (), None, now),
        ]
        await driver.write(Changes(keyed=made))
        await driver.check()
        changed: list[AnyKeyed] = [
            Leader("duty", "b", now + 1),
            ProviderState("rh", now, ((ids[3], now), ("x", now + 1)), 3),
            WebhookEndpoints("", (replace(address, disabled_at=now, disabled_reason="410"), address)),
            WebhookEndpoints("ana"),
            replace(sent, state="failed", attempts=2, answered=500, error="no", ended_at=now, job_id=ids[3]),
            replace(
                upload,
                state="stored",
                media_type="image/png",
                size=2**40,
                digest="d",
                expires_at=now,
                job_id=ids[3],
                uses=2,
                reservation_id=ids[0],
            ),
            FileUsage("bob", 7, 2**40),
            PageSessions("ana", now - 1, (PageSession("é", now - 1, is_left=True), PageSession("s1", now))),
            FigureCursor("figures", 2**40, 2**41, now, (3, 2**40), (QueueCount("pro", "é", "gpu", 1, -1),), now),
            Rollup(
                "minute 1",
                now + 1,
                Figures(
                    (JobCounts("pro", 'a "tool"', "gpu", -1, 2, 3, 4, 5, 6, 7),),
                    *({3: 2**40}, {511: 1}, {"it's … \\": 3}),
                    *(-1, 2, 3, -4, 2**50),
                    Measures(
                        {"é": Histogram(2**50, {0: 1, 50: 2**40})},
                        {'a "tool"': Histogram(1, {50: 1})},
                        {"fal": {"failed": 2}},
                        {"fal": Histogram(7, {})},
                        Histogram(3, {10: 1}),
                        9,
                    ),
                ),
            ),
            BulkAct(
                ids[0], "refund", "", "", "", 0, 2**60, now, now + 1, ids[2], ids[3], "done", 7, 1, 2, now, failures
            ),
            Schedule("é", "", "", "", "ana", now + 1, True, 1, 2, 3, now, now - 1, ids[0], "X", "it's"),
            DeclaredHook("é", ("completed", "failed"), ("it's", 'a "tool"'), now + 1, now),
        ]
        await driver.write(Changes(keyed=changed))
        await driver.check()
        await driver.write(Changes(removed_keyed=[record.name_in_state for record in changed]))
        await driver.check()
        assert driver.expected.keyed == {}
