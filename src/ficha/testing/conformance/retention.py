"""What is removed by its age, and with an erased account: nothing of it is left, and nothing else is removed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core import commands as c
from ...core.outcomes import Pruned, RowsErased
from ...core.policy import Retention
from ...core.records import KeptJob, RetentionCursor
from ...store.base import GetHistory, GetJobs, GetRetention, ListFuller, ListOldJobs, ListRowsLeft, RowsLeft
from ..driver import Driver
from .scenes import finish, lease, new_job, one_in_each_place, open_house, submit

DAY_S = 86_400


class RetentionConformance:
    """Jobs are removed, and the rows that they leave behind are found."""

    async def test_a_job_leaves_with_all_that_is_its_own_and_the_ledger_stays(self, driver: Driver) -> None:
        driver.policy = replace(driver.policy, retention=Retention(jobs=3, results=2, payloads=1))
        await open_house(driver)
        gone, kept = await _lived(driver, "c1"), await _lived(driver, "c2")
        driver.clock.advance(DAY_S)
        expected = ["payload", "result", "job"]
        for what in expected:
            pruned = await driver.one(c.PruneJobs("ana", (c.OldJob(gone, content=("upscale", "c1")),)), Pruned)
            assert pruned.removals == {gone: what}
            await driver.check()
            driver.clock.advance(DAY_S)
        assert await driver.read(GetJobs((gone,))) == []
        assert await driver.read(GetHistory(gone)) == []
        [row] = await driver.read(GetJobs((kept,)))
        assert (row.payload, row.result) == ('{"prompt": "cat"}', '"cat"')
        history = await driver.read(GetHistory(kept))
        assert len(history) == row.job.events

    async def test_jobs_that_end_and_leave_in_one_commit_group_leave_nothing(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, payload='{"prompt": "cat"}')
        job_id, epoch = held.job.id, held.epoch
        await driver.run(c.SaveStep(job_id, epoch, "first", '"cat"'), c.Note(job_id, epoch, "cat"))
        await driver.run(
            c.SaveStep(job_id, epoch, "second", '"cat"'),
            c.Note(job_id, epoch, "cat"),
            c.SaveCheckpoint(job_id, epoch, "HALF", 50, '"cat"'),
            c.Finish(job_id, c.Completed('"cat"'), epoch),
            c.RemoveWork("ana", job_id),
            c.CloseAccount("ana"),
            c.PruneJobs("ana", (c.OldJob(job_id),)),
        )
        await driver.check()
        assert await driver.read(GetJobs((job_id,))) == []

    async def test_old_jobs_are_listed_by_id_from_the_oldest_on(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        ids = sorted(driver.expected.jobs)
        found = await driver.read(ListOldJobs())
        assert [job.id for job in found] == ids
        assert {job.id for job in found if job.finished_at is None} == {
            job.id for job in driver.expected.jobs.values() if job.place is not None
        }
        part = await driver.read(ListOldJobs(ids[0], ids[-1], limit=2))
        assert [job.id for job in part] == ids[1:3]
        some = await driver.read(ListOldJobs(ids=(ids[2], ids[0], driver.new_id())))
        assert [job.id for job in some] == [ids[0], ids[2]]
        theirs = await driver.read(ListOldJobs(account_id="bob"))
        assert [job.id for job in theirs] == [key for key in ids if driver.expected.jobs[key].account_id == "bob"]

    async def test_how_far_it_came_and_what_to_look_at_again_is_remembered(self, driver: Driver) -> None:
        driver.policy = replace(driver.policy, retention=Retention(jobs=1))
        await open_house(driver)
        waiting = await submit(driver)
        assert (await driver.read(GetRetention())).cursor is None
        await driver.run(c.MoveRetention("rules", 0, {"1": waiting}), c.PruneJobs("ana", (c.OldJob(waiting),)))
        found = await driver.read(GetRetention())
        assert (found.now, found.kept) == (driver.clock(), [])
        assert found.cursor == RetentionCursor("jobs", "rules", 1, {"1": waiting})
        driver.clock.advance(DAY_S)
        assert (await driver.read(GetRetention())).kept == [waiting]
        assert driver.expected.keyed["KeptJob", waiting] == KeptJob(waiting, driver.clock())
        await driver.check()

    async def test_a_batch_leaves_once_no_other_job_is_in_it(self, driver: Driver) -> None:
        await open_house(driver)
        batch_id, ids = driver.new_id(), [driver.new_id() for _ in range(3)]
        await driver.run(c.Submit("ana", tuple(new_job(job_id) for job_id in ids), batch_id=batch_id))
        await driver.run(*(c.CancelJob(job_id) for job_id in ids), c.CloseAccount("ana"))
        assert await driver.read(ListFuller((batch_id,), tuple(ids[:2]))) == [batch_id]
        assert await driver.read(ListFuller((batch_id,), tuple(ids))) == []
        old = tuple(map(c.OldJob, ids))
        late = await driver.one(c.PruneJobs("ana", old, (batch_id,), submitted=2), Pruned)
        assert (late.removals, late.changed) == ({}, False)
        assert (await driver.one(c.PruneJobs("ana", old, (batch_id,), submitted=3), Pruned)).batches == 1
        assert driver.expected.batches == {}
        await driver.check()

    async def test_what_an_account_has_left_is_found_and_removed(self, driver: Driver) -> None:
        await open_house(driver)
        key_id, held = driver.new_id(), driver.new_id()
        await driver.run(
            c.Credit("ana", 5, "grant", "a gift", "k1"),
            c.Credit("bob", 5, "grant", "a gift", "k1"),
            c.Reserve(held, "ana"),
            c.ActingAs("boss", c.CreateApiKey(key_id, "laptop", "hint", "digest", "user", "ana")),
            c.ActingAs("boss", c.Credit("bob", 1, "grant", "a gift")),
            c.ActingAs("boss", c.Credit("ana", 1, "grant")),
        )
        left = await driver.read(ListRowsLeft("ana"))
        entries = [entry.number for entry in driver.expected.entries if entry.account_id == "ana" and entry.reason]
        assert left == RowsLeft([key_id], [("grant", "k1")], [held], [], entries, left.audit)
        assert len(left.audit) == 1
        await driver.run(c.CloseAccount("ana", (key_id,)))
        rows = c.EraseRows("ana", (("grant", "k1"),), (held,), entries=tuple(entries), audit=tuple(left.audit))
        erased = await driver.one(rows, RowsErased)
        assert erased.rows == 2 + len(entries) + 1
        assert await driver.read(ListRowsLeft("ana")) == RowsLeft([], [], [], [], [], [])
        assert {(line.act, line.words is None) for line in driver.expected.audit} == {
            *(("create_api_key", True), ("grant", False), ("grant", True), ("erase_words", True))
        }
        assert (await driver.read(ListRowsLeft("bob"))).keys == [("grant", "k1")]
        await driver.check()


async def _lived(driver: Driver, content_hash: str, **changes: Any) -> str:
    """A completed job of ana's that has left a row everywhere."""
    held = await lease(driver, payload='{"prompt": "cat"}', content_hash=content_hash, **changes)
    job_id, epoch = held.job.id, held.epoch
    await driver.run(
        c.SaveStep(job_id, epoch, "paint", '"cat"'),
        c.SaveCheckpoint(job_id, epoch, "HALF", 50, '"cat"'),
        c.Note(job_id, epoch, "cat"),
    )
    await finish(driver, held, c.Completed('"cat"'))
    await driver.run(c.Finish(job_id, c.Completed('"late"'), epoch))
    return job_id
