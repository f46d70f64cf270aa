"""The library: an account's completed work, and what is left of a job whose owner removed it."""

from __future__ import annotations

from typing import Any

from ...core import commands as c
from ...core.outcomes import WorkRemoved
from ...store.base import GetHistory, GetJobs, LibraryPart, ListLibrary, ListSteps
from ..driver import Driver
from .scenes import finish, lease, one_in_each_place, open_house

HOUR_S = 3_600


class LibraryConformance:
    """Completed work is found, and removed."""

    async def test_a_library_has_the_completed_work_of_its_account_newest_first(self, driver: Driver) -> None:
        await one_in_each_place(driver)
        await driver.run(c.DeclarePool("tpu", None))
        mine = [await _completed(driver, pool="tpu") for _ in range(5)]
        await _completed(driver, "eva", pool="tpu")
        gone = mine.pop(2)
        await driver.run(c.RemoveWork("ana", gone))
        found = await driver.read(ListLibrary("ana"))
        completed = [job for job in driver.expected.jobs.values() if job.status == "completed"]
        theirs = {job.id for job in completed if job.account_id == "ana"}
        assert [job.id for job in found.jobs] == sorted(theirs - {gone}, reverse=True)
        assert found.jobs[0] == driver.expected.jobs[mine[-1]]
        assert found.stopped is None
        assert (await driver.read(ListLibrary("nobody"))).jobs == []

    async def test_a_library_is_searched_by_tool_date_and_words(self, driver: Driver) -> None:
        await open_house(driver)
        first = await _completed(driver, tool="train", payload='{"prompt": "A Grey cat"}')
        driver.clock.advance(HOUR_S)
        begun_at = driver.clock()
        second = await _completed(driver, payload='{"prompt": "a dog, 100% _good_"}')
        driver.clock.advance(HOUR_S)
        third = await _completed(driver, tool="train", payload='{"prompt": "grey \\"dog\\" caf\u00e9"}')
        asked: list[tuple[dict[str, Any], list[str]]] = [
            ({}, [third, second, first]),
            ({"tool": "train"}, [third, first]),
            ({"tool": "paint"}, []),
            ({"since_at": begun_at}, [third, second]),
            ({"until_at": begun_at}, [first]),
            ({"since_at": begun_at, "until_at": begun_at + 1}, [second]),
            ({"search": "GREY"}, [third, first]),
            ({"search": "grey", "tool": "upscale"}, []),
            ({"search": "0% _"}, [second]),
            ({"search": "_cat"}, []),
            ({"search": '\\"dog\\"'}, [third]),
            ({"search": "caf\u00e9"}, [third]),
        ]
        for terms, expected in asked:
            found = await driver.read(ListLibrary("ana", **terms))
            assert [job.id for job in found.jobs] == expected, terms

    async def test_pages_of_a_library_follow_each_other_and_each_looks_at_so_many_jobs(self, driver: Driver) -> None:
        await open_house(driver)
        mine = [await _completed(driver, tool="train" if number % 4 == 0 else "upscale") for number in range(9)]
        newest = mine[::-1]
        page = await driver.read(ListLibrary("ana", limit=4))
        assert [job.id for job in page.jobs] == newest[:4]
        assert page.stopped == (newest[3], driver.expected.jobs[newest[3]].created_at)
        rest = await driver.read(ListLibrary("ana", before=newest[3], limit=6))
        assert ([job.id for job in rest.jobs], rest.stopped) == (newest[4:], None)
        # The oldest of the four that are examined is not the tool's.
        some = await driver.read(ListLibrary("ana", tool="train", searched=4))
        assert [job.id for job in some.jobs] == [mine[8]]
        assert some.stopped is not None
        assert some.stopped[0] == mine[5]
        last = await driver.read(ListLibrary("ana", tool="train", before=mine[5], searched=6))
        assert [job.id for job in last.jobs] == [mine[4], mine[0]]
        assert await driver.read(ListLibrary("ana", before=mine[0])) == LibraryPart([], None)

    async def test_removed_work_leaves_the_job_and_its_ledger_alone(self, driver: Driver) -> None:
        await open_house(driver)
        held = await lease(driver, payload='{"prompt": "cat"}', content_hash="c1")
        job_id = held.job.id
        await driver.run(
            c.SaveStep(job_id, held.epoch, "paint", '"cat"'),
            c.SaveCheckpoint(job_id, held.epoch, "HALF", 50, '"cat"'),
            c.Report(job_id, held.epoch, 60, '"cat"'),
            c.Note(job_id, held.epoch, "cat"),
        )
        kept = await _completed(driver, payload='{"prompt": "cat"}')
        await finish(driver, held, c.Completed('"cat"'))
        await driver.run(c.Finish(job_id, c.Completed('"cat"'), held.epoch))
        assert await driver.one(c.RemoveWork("ana", job_id), WorkRemoved) == WorkRemoved(job_id, True)
        await driver.check()
        [row] = await driver.read(GetJobs((job_id,)))
        assert (row.payload, row.result, row.job.status) == ("null", "null", "completed")
        assert (row.job.charged, row.job.removed_at) == (5, driver.clock())
        assert await driver.read(ListSteps(job_id)) == []
        told = await driver.read(GetHistory(job_id))
        assert "cat" not in str(told)
        assert [event.kind for event in told][-2:] == ["late", "removed"]
        [other] = await driver.read(GetJobs((kept,)))
        assert (other.payload, other.result) == ('{"prompt": "cat"}', '"done"')
        assert await driver.one(c.RemoveWork("ana", job_id), WorkRemoved) == WorkRemoved(job_id, False)

    async def test_work_that_ends_and_is_removed_in_one_commit_group_leaves_no_text(self, driver: Driver) -> None:
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
        )
        await driver.check()
        [row] = await driver.read(GetJobs((job_id,)))
        assert "cat" not in str(row)
        assert await driver.read(ListSteps(job_id)) == []
        told = await driver.read(GetHistory(job_id))
        assert "cat" not in str(told)


async def _completed(driver: Driver, account_id: str = "ana", **changes: Any) -> str:
    held = await lease(driver, account_id, **changes)
    await finish(driver, held, c.Completed('"done"'))
    return held.job.id
