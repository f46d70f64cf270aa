"""A disk that fails or is full, a reader who stays, and a clock that is set, under a load of several processes."""

from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos import sqlite_faults as broken
from tests.chaos.actors import Habits
from tests.chaos.space import small_disk
from tests.chaos.supervisor import Load
from tests.chaos.trial import under


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ficha.db'}"


@pytest.mark.req("A6", "C1", "D1")
async def test_writes_and_flushes_that_fail_lose_nothing_acknowledged(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path, habits=Habits(disk=True))
    struck, verdict = await under(broken.fail_operations, 1.5, load)
    assert verdict.wrong == []
    assert struck >= 20


@pytest.mark.long
async def test_a_full_disk_stops_the_work_until_there_is_space_and_loses_nothing(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path, habits=Habits(disk=True))
    struck, verdict = await under(broken.fill_the_disk, 0.9, load)
    assert verdict.wrong == []
    assert struck >= 5


@pytest.mark.long
async def test_a_disk_that_is_really_full_stops_the_work_until_there_is_space_and_loses_nothing(tmp_path: Path) -> None:
    """On a small file system of its own; where none can be mounted, files that may not grow."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, mib=24) as disk:
        load = Load(f"sqlite:///{folder / 'ficha.db'}", tmp_path)
        space = broken.files_as_they_are if disk is None else lambda load: disk
        _, verdict = await under(broken.run_out_of(space), 1.5, load)
        assert verdict.wrong == []


async def test_files_that_may_not_grow_stop_the_work_until_they_may_and_lose_nothing(url: str, tmp_path: Path) -> None:
    _, verdict = await under(broken.run_out_of(broken.files_as_they_are), 0.0, Load(url, tmp_path))
    assert verdict.wrong == []


async def test_a_reader_who_stays_stops_nobody_and_the_journal_is_emptied_afterwards(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path)
    _, verdict = await under(broken.hold_a_reader, 0.8, load)
    assert verdict.wrong == []
    assert broken.journal_bytes(load) == 0


@pytest.mark.req("B4", "B5")
async def test_a_clock_set_ahead_by_an_hour_loses_nothing_though_every_lease_is_over(url: str, tmp_path: Path) -> None:
    """Processes on one SQLite file are on one machine and have one clock; it can be wrong only for all of them."""
    _, verdict = await under(faults.move_the_clock, 0.7, Load(url, tmp_path))
    assert verdict.wrong == []
