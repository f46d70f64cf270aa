"""`ficha backup`: a copy of one moment, made beside writers, whole, private, and never over another file."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import apsw
import pytest

from ficha.doctor import examine
from ficha.store.base import StoreError
from ficha.store.sqlite import SqliteStore
from ficha.store.sqlite_backup import back_up
from tests.backup.busy_shop import SECRET, busy_shop, check_copy, new_clock
from tests.support.shop import shop


async def test_a_copy_under_load_is_whole_and_goes_on(tmp_path: Path) -> None:
    source, target = tmp_path / "ficha.db", tmp_path / "elsewhere" / "copy.db"
    target.parent.mkdir()
    async with busy_shop(f"sqlite:///{source}") as busy:
        await busy.goes_on()
        made = await asyncio.to_thread(back_up, str(source), str(target), step_pages=4)
        await busy.goes_on()
    assert made.size == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert os.listdir(target.parent) == ["copy.db"], "nothing else is left"
    clock = new_clock()
    await check_copy(f"sqlite:///{target}", SqliteStore(target, clock=clock), clock, busy.held)


async def test_commits_of_others_do_not_start_the_copy_again(tmp_path: Path) -> None:
    source = tmp_path / "ficha.db"
    app = shop(f"sqlite:///{source}")
    async with app:
        await app.open_account("ana", plan="open", credits=10)
    writer = apsw.Connection(str(source))
    steps: list[tuple[int, int]] = []

    def commit(copied: int, of: int) -> None:
        """A transaction of another connection between all steps."""
        writer.execute("UPDATE accounts SET balance = balance + 1; UPDATE pools SET paused = 1 - paused")
        steps.append((copied, of))

    back_up(str(source), str(tmp_path / "copy.db"), commit, step_pages=7)
    writer.close()
    pages = steps[0][1]
    assert len(steps) == -(-pages // 7) > 5
    assert [copied for copied, _ in steps] == [*range(7, pages, 7), pages]
    copy = apsw.Connection(str(tmp_path / "copy.db"))
    assert copy.execute("SELECT balance FROM accounts").fetchall() == [(10,)], "the moment at which it began"
    copy.close()


def test_nothing_is_overwritten_and_nothing_is_left_of_a_failure(tmp_path: Path) -> None:
    source, target = tmp_path / "ficha.db", tmp_path / "copy.db"
    asyncio.run(SqliteStore(source).migrate())
    target.write_text("mine")
    for path, words in (
        (target, "overwrites nothing"),
        (tmp_path / "none" / "copy.db", "make it first"),
    ):
        with pytest.raises(StoreError, match=words):
            back_up(str(source), str(path))
    assert target.read_text() == "mine"
    target.unlink()
    with pytest.raises(StoreError, match="there is no database"):
        back_up(str(tmp_path / "none.db"), str(target))

    def take_the_name(copied: int, of: int) -> None:
        target.write_text("theirs")

    with pytest.raises(StoreError, match="somebody else meanwhile"):
        back_up(str(source), str(target), take_the_name)
    assert target.read_text() == "theirs"
    target.unlink()

    def interrupt(copied: int, of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up(str(source), str(target), interrupt)
    (tmp_path / "copy.db.part").write_text("")
    with pytest.raises(StoreError, match="another back-up runs"):
        back_up(str(source), str(target))
    (tmp_path / "copy.db.part").unlink()
    assert [name for name in os.listdir(tmp_path) if name.startswith("copy")] == []


def test_a_damaged_database_gives_no_back_up(tmp_path: Path) -> None:
    source, target = tmp_path / "ficha.db", tmp_path / "copy.db"
    asyncio.run(SqliteStore(source).migrate())
    with open(source, "r+b") as file:
        file.seek(4096 * 5)
        file.write(b"\xff" * 4096)
    with pytest.raises(StoreError):
        back_up(str(source), str(target))
    assert not target.exists()


@pytest.mark.parametrize("first", ["database", "files"])
async def test_the_database_is_copied_before_the_files(tmp_path: Path, first: str) -> None:
    """The other way round, a file that is uploaded in between has a row and no bytes."""
    source, files = tmp_path / "ficha.db", tmp_path / "files"
    copy, copied = tmp_path / "copy.db", tmp_path / "copied"
    copied.mkdir()

    def copy_files() -> None:
        for path in files.rglob("*_*"):
            if path.is_file():
                place = copied / path.relative_to(files)
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(path.read_bytes())

    acts = [lambda: back_up(str(source), str(copy)), copy_files]
    async with shop(f"sqlite:///{source}", secret=SECRET, files=f"file:{files}") as app:
        await app.open_account("ana", plan="open", credits=10)
        await app.upload("ana", "a.txt", b"before\n")
        for act in acts if first == "database" else acts[::-1]:
            act()
            await app.upload("ana", "b.txt", b"in between\n")
    report = await examine(shop(f"sqlite:///{copy}", secret=SECRET, files=f"file:{copied}"))
    found = {finding.code for finding in report.findings if finding.group == "files"}
    assert found == ({"FILES_UNKNOWN"} if first == "database" else {"FILES_LOST"})
