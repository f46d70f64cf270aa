"""A disk that fails or is full, a reader who stays, and a clock that is set, under a load of several processes."""

from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos import sqlite_faults as broken
from tests.chaos.actors import Habits
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


async def test_a_full_disk_stops_the_work_until_there_is_space_and_loses_nothing(url: str, tmp_path: Path) -> None:
    load = Load(url, tmp_path, habits=Habits(disk=True))
    struck, verdict = await under(broken.fill_the_disk, 0.9, load)
    assert verdict.wrong == []
    assert struck >= 5


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
