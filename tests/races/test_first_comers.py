"""Races to make what is not there yet: rows that nobody can lock before they exist."""

from collections import Counter

import pytest

from tests.races.application import application
from tests.races.history import whole
from tests.races.race_processes import RaceProcesses

PROCESSES = 12


@pytest.mark.req("D1")
async def test_many_processes_open_a_fresh_database_and_the_same_account_at_once(
    processes: RaceProcesses, database: str
) -> None:
    opening = [
        [("open_account", {"account": f"account-{number}", "plan": "open", "credits": 7})] for number in range(3)
    ]
    answers = await processes.race(database, [{"role": "call", "rounds": opening}] * PROCESSES)

    for number in range(3):
        told = Counter(mine[number][0].get("refused") for mine in answers)
        assert told == {None: 1, "INVALID_STATE": PROCESSES - 1}
    async with application(database) as app:
        state = await whole(app)
        assert [pool.name for pool in await app.pools()] == ["default", "gpu"]
    assert [(entry.kind, entry.amount) for entry in state.entries] == [("grant", 7)] * 3
