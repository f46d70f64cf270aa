"""Files: every query about them, and that a store keeps what the rules say of them."""

from __future__ import annotations

from typing import Any

from ...core import commands as c
from ...core.outcomes import FileChanged, Forgotten
from ...core.policy import HOUR
from ...core.records import File, FileUsage
from ...store.base import GetFiles, GetFileUsage, ListDueFiles, ListFiles, ListLinkedFiles
from ..comparing import comparable
from ..driver import Driver
from .scenes import lease, open_house, submit


async def upload(driver: Driver, account_id: str = "ana", *, size: int = 10, **changes: Any) -> File:
    """A stored file."""
    begun = c.BeginFile(driver.new_id(), account_id, "cat.png", size, size, **changes)
    file = (await driver.one(begun, FileChanged)).file
    stored = c.StoreFile(file.id, account_id, size, "image/png", f"digest of {file.id}", begun.run)
    return (await driver.one(stored, FileChanged)).file


class FileConformance:
    """Rows of files, and the queries about them."""

    async def test_files_are_found_by_id_account_role_job_and_reservation(self, driver: Driver) -> None:
        await open_house(driver)
        reservation_id = driver.new_id()
        await driver.run(c.Reserve(reservation_id, "ana"))
        one, two = await upload(driver), await upload(driver, reservation_id=reservation_id)
        theirs, gone = await upload(driver, "bob"), await upload(driver)
        job_id = await submit(driver, files=(one.id,))
        held = await lease(driver)
        made = await upload(driver, run=c.FileRun(held.job.id, held.epoch))
        await driver.one(c.RemoveFile(gone.id, "ana"), FileChanged)
        files = driver.expected.of(File)
        [one, two, theirs, made] = [files[file.id] for file in (one, two, theirs, made)]
        assert (one.uses, one.job_id, one.expires_at) == (1, job_id, None)
        found = await driver.read(GetFiles((one.id, gone.id, driver.new_id(), one.id)))
        assert comparable(sorted(found, key=lambda file: file.id)) == comparable([one, files[gone.id]])
        assert await driver.read(GetFiles(())) == []
        for query, expected in (
            (ListFiles("ana"), [made, two, one]),
            (ListFiles("ana", limit=2), [made, two]),
            (ListFiles("ana", before=made.id), [two, one]),
            (ListFiles("ana", role="result"), [made]),
            (ListFiles(), [made, theirs, two, one]),
            (ListFiles("nobody"), []),
            (ListLinkedFiles("job", (job_id, held.job.id)), [one, made]),
            (ListLinkedFiles("job", (job_id, held.job.id), limit=1), [one]),
            (ListLinkedFiles("reservation", (reservation_id, driver.new_id())), [two]),
            (ListLinkedFiles("job", ()), []),
        ):
            assert comparable(await driver.read(query)) == comparable(expected), query
        assert await driver.read(GetFileUsage("ana")) == FileUsage("ana", 3, 30)
        assert await driver.read(GetFileUsage("nobody")) == FileUsage("nobody")
        await driver.check()

    async def test_files_that_are_begun_side_by_side_are_all_counted(self, driver: Driver) -> None:
        await open_house(driver)
        groups = [[c.BeginFile(driver.new_id(), "ana", "cat.png", size, size)] for size in range(1, 9)]
        outcomes = await driver.race(*groups)
        assert [type(outcome) for [outcome] in outcomes] == [FileChanged] * 8
        assert await driver.read(GetFileUsage("ana")) == FileUsage("ana", 8, sum(range(1, 9)))

    async def test_a_file_is_due_when_its_time_is_over_until_its_row_is_gone(self, driver: Driver) -> None:
        await open_house(driver)
        first = await upload(driver)
        driver.clock.advance(60)
        second = await upload(driver)
        assert await driver.read(ListDueFiles()) == []
        driver.clock.advance(24 * HOUR / 1_000_000 - 60)
        assert comparable(await driver.read(ListDueFiles())) == comparable([first])
        driver.clock.advance(60)
        assert comparable(await driver.read(ListDueFiles())) == comparable([first, second])
        assert comparable(await driver.read(ListDueFiles(limit=1))) == comparable([first])
        for file in (first, second):
            assert await driver.one(c.ExpireFile(file.id, "ana"), Forgotten) == Forgotten(changed=True)
        assert [file.state for file in await driver.read(ListDueFiles())] == ["removed", "removed"]
        assert await driver.one(c.ForgetFile(first.id), Forgotten) == Forgotten(changed=True)
        assert [file.id for file in await driver.read(ListDueFiles())] == [second.id]
        assert await driver.read(GetFileUsage("ana")) == FileUsage("ana", 0, 0)
        await driver.check()
