"""The queries of an operator's pages: batches, audit lines, accounts by prefix, dead letters by error, a job's own."""

from __future__ import annotations

from ...core import commands as c
from ...core.outcomes import Submitted
from ...core.records import Pool
from ...core.runs import TELL_OF_RUNS
from ...store.base import (
    BatchCounts,
    DeadSum,
    GetBatch,
    GetHistory,
    GetQueueDepth,
    ListAccounts,
    ListAudit,
    ListBatches,
    ListJobEntries,
    ListRunEvents,
    QueueDepth,
    SumDeadLetters,
)
from ..comparing import comparable
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, open_house


class OperatorConformance:
    """What an operator's pages read."""

    async def test_batches_are_listed_newest_first_with_their_jobs_by_status(self, driver: Driver) -> None:
        await open_house(driver)
        sizes = {driver.new_id(): size for size in (2, 4, 3)}
        for batch_id, size in sizes.items():
            jobs = tuple(new_job(driver.new_id()) for _ in range(size))
            await driver.one(c.Submit("ana" if size > 2 else "eva", jobs, batch_id=batch_id), Submitted)
            await driver.run(c.CancelJob(jobs[0].id))
        await driver.run(c.Claim("w1", ("gpu",), 2))
        first, second, third = sizes
        found = (await driver.read(ListBatches())).batches
        assert [one.batch.id for one in found] == [third, second, first]
        assert comparable(found) == comparable([await driver.read(GetBatch(key)) for key in (third, second, first)])
        assert sum(one.by_status.get("starting", 0) for one in found) == 2
        asked = {
            ListBatches(account_id="ana"): ([third, second], False),
            ListBatches(account_id="nobody"): ([], False),
            ListBatches(before=third): ([second, first], False),
            ListBatches(limit=1): ([third], True),
            ListBatches("ana", third, 1): ([second], True),
            ListBatches(counted=6): ([third], True),
            ListBatches(counted=7): ([third, second], True),
            ListBatches(counted=1): ([third], True),
            ListBatches(counted=9): ([third, second, first], False),
        }
        for query, expected in asked.items():
            part = await driver.read(query)
            assert ([one.batch.id for one in part.batches], part.goes_on) == expected, query

    async def test_the_depth_of_a_pools_queue_is_counted_up_to_a_limit(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        assert await driver.read(GetQueueDepth("gpu", 100)) == QueueDepth(Pool("gpu", None), 0, 0, 3)
        assert await driver.read(GetQueueDepth("gpu", 3)) == QueueDepth(Pool("gpu", None), 0, 0, 3)
        assert await driver.read(GetQueueDepth("gpu", 2)) == QueueDepth(Pool("gpu", None), 0, 0, 2)
        # Two are with workers, and one is with a provider.
        assert await driver.read(GetQueueDepth("tpu", 100)) == QueueDepth(Pool("tpu", 3), 3, 2, 0)
        assert await driver.read(GetQueueDepth("none", 100)) is None

    async def test_a_batch_that_others_joined_counts_them(self, driver: Driver) -> None:
        await open_house(driver)
        batch_id = driver.new_id()
        jobs = (new_job(driver.new_id()), new_job(driver.new_id()))
        await driver.one(c.Submit("ana", jobs, batch_id=batch_id), Submitted)
        await driver.one(c.Submit("ana", (new_job(driver.new_id()),), batch_id=batch_id, joins=True), Submitted)
        [found] = (await driver.read(ListBatches())).batches
        assert found == BatchCounts(found.batch, {"queued": 3})

    async def test_audit_lines_are_found_by_target_and_actor(self, driver: Driver) -> None:
        for actor in ("boss", "intern", "boss"):
            for account in ("ana", "bob"):
                opened = c.OpenAccount(account, "pro", 1, exist_ok=True)
                await driver.run(c.ActingAs(actor, opened), c.ActingAs(actor, c.Credit(account, 5, "grant")))
        everything = await driver.read(ListAudit(limit=100))
        assert len(everything) == 12
        for target in (None, "account ana", "account", "nobody"):
            for named in (None, "boss", "intern", "BOSS"):
                expected = [
                    one for one in everything if target in (None, one.line.target) and named in (None, one.line.actor)
                ]
                assert await driver.read(ListAudit(None, 100, target, named)) == expected
                if len(expected) > 1:
                    asked = ListAudit(expected[0].number, 1, target, named)
                    assert await driver.read(asked) == expected[1:2]

    async def test_accounts_are_found_by_the_beginning_of_their_id(self, driver: Driver) -> None:
        names = ["a", "ab", "ab/c", "abc", "abd", "ac", "b", "ab\u00e9", "ab\U0001f600", "Ab"]
        await driver.run(*(c.OpenAccount(name, "pro", 0) for name in names))
        for prefix in ("a", "ab", "abc", "ab\u00e9", "z", "A"):
            expected = sorted(name for name in names if name.startswith(prefix))
            found = await driver.read(ListAccounts(prefix=prefix))
            assert [account.id for account in found] == expected
        found = await driver.read(ListAccounts("ab", 2, "ab"))
        assert [account.id for account in found] == ["ab/c", "abc"]

    async def test_dead_letters_are_summed_up_by_tool_and_error(self, driver: Driver) -> None:
        await open_house(driver)
        ids, times = [], []
        for tool, error, cost in (("a", "no", 1), ("b", "no", 2), ("a", "no", 4), ("a", "x" * 20, 8), ("a", "no", 16)):
            held = await lease(driver, tool=tool, cost=cost)
            driver.clock.advance(1)
            times.append(driver.clock())
            await finish(driver, held, c.Failed(error))
            ids.append(held.job.id)
        final = await lease(driver)
        await finish(driver, final, c.Failed("no", final=True))
        found = await driver.read(SumDeadLetters(error_length=10))
        assert sorted(found, key=lambda one: (one.tool, one.error)) == [
            DeadSum("a", "no", 3, 21, times[0], times[4], ids[4]),
            DeadSum("a", "x" * 10, 1, 8, times[3], times[3], ids[3]),
            DeadSum("b", "no", 1, 2, times[1], times[1], ids[1]),
        ]
        newest = await driver.read(SumDeadLetters(searched=2))
        assert sorted(one.newest for one in newest) == ids[3:]

    async def test_the_events_and_entries_of_one_job_are_found(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        for job_id in driver.expected.jobs:
            history = await driver.read(GetHistory(job_id, limit=1_000))
            kept = await driver.read(ListRunEvents(job_id))
            assert [event for event in history if event in kept] == kept
            assert {event.kind for event in kept} <= set(TELL_OF_RUNS)
            entries = [entry for entry in driver.expected.entries if entry.job_id == job_id]
            assert await driver.read(ListJobEntries(job_id)) == entries
        assert await driver.read(ListRunEvents(driver.new_id())) == []
        await driver.run(c.DeclarePool("npu", None))
        held = await lease(driver, pool="npu")
        await driver.run(
            c.SaveStep(held.job.id, held.epoch, "one", "1"),
            c.Report(held.job.id, held.epoch, 5, None),
            c.SaveStep(held.job.id, held.epoch, "two", "2"),
        )
        found = await driver.read(ListRunEvents(held.job.id))
        assert [event.kind for event in found] == ["step", "step"]
        assert [event.kind for event in await driver.read(ListRunEvents(held.job.id, 1))] == ["step"]
