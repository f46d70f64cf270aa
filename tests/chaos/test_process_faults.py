"""Processes that die, stop, and disagree about the time."""

from pathlib import Path

import pytest

from tests.chaos import faults
from tests.chaos.actors import Habits
from tests.chaos.records import lines
from tests.chaos.supervisor import Load
from tests.chaos.trial import under


@pytest.mark.long_on("postgresql")
@pytest.mark.req("A6", "B4", "B10", "C1", "D1")
async def test_processes_killed_at_random_lose_nothing_and_charge_nothing_twice(database: str, tmp_path: Path) -> None:
    struck, verdict = await under(faults.kill_at_random, 1.5, Load(database, tmp_path))
    assert verdict.wrong == []
    assert struck >= 5
    assert verdict.recovered > 0, "no process that held a job was killed"


@pytest.mark.long
@pytest.mark.req("B4", "B10")
async def test_after_all_processes_were_killed_at_once_work_goes_on_within_a_lease_and_a_sweep(
    database: str, tmp_path: Path
) -> None:
    struck, verdict = await under(faults.kill_everybody, 0.0, Load(database, tmp_path))
    assert verdict.wrong == []
    assert struck == 5
    assert verdict.recovered > 0, "nobody who held a job was killed"


@pytest.mark.long_on("postgresql")
@pytest.mark.req("A6", "B4", "B10", "C1", "D2")
async def test_a_process_killed_anywhere_between_load_and_reply_loses_nothing(database: str, tmp_path: Path) -> None:
    struck, verdict = await under(faults.kill_at_named_points, 0.0, Load(database, tmp_path))
    assert verdict.wrong == []
    assert struck == 12


@pytest.mark.long_on("postgresql")
@pytest.mark.req("B4", "B5")
async def test_a_worker_stopped_past_its_lease_can_end_nothing_any_more(database: str, tmp_path: Path) -> None:
    struck, verdict = await under(faults.stop_past_the_lease, 0.0, Load(database, tmp_path))
    assert verdict.wrong == []
    assert struck == 1
    assert verdict.recovered > 0, "no worker that held a job was stopped"
    assert any(line.get("told") == "lost" for line in lines(tmp_path)), "the worker was not told that it has lost"


@pytest.mark.long
@pytest.mark.req("A9", "B4")
async def test_sweepers_that_all_believe_to_lead_do_no_harm(database: str, tmp_path: Path) -> None:
    load = Load(database, tmp_path, habits=Habits(leads_always=True))
    _, verdict = await under(faults.kill_at_random, 0.7, load)
    assert verdict.wrong == []
