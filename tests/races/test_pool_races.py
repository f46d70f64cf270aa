"""Races for the slots of a pool."""

import pytest

from ficha import SubmitRequest
from tests.races.application import COST, SLOTS, application
from tests.races.history import most_at_once, most_slots_held, whole
from tests.races.race_processes import RaceProcesses

JOBS = 320
PROCESSES = 8


@pytest.mark.long_on("sqlite")
@pytest.mark.req("A1")
async def test_a_pool_of_three_slots_never_has_four_jobs_in_them(processes: RaceProcesses, database: str) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=JOBS * COST)
        await app.submit_many(
            SubmitRequest(tool=("draw", "paint")[number % 2], payload={"number": number}, account="ana")
            for number in range(JOBS)
        )

    racers = [{"role": "occupy", "worker": f"worker-{number}", "seed": number} for number in range(PROCESSES)]
    answers = await processes.race(database, racers)

    held = [interval for mine in answers for interval in mine]
    assert len({job_id for job_id, _, _ in held}) == len(held) == JOBS
    assert sum(bool(mine) for mine in answers) > PROCESSES // 2, "few processes got a job: this was no race"
    assert most_at_once((claimed_at, ends_at) for _, claimed_at, ends_at in held) == SLOTS
    async with application(database) as app:
        state = await whole(app)
        assert [(pool.busy, pool.ready) for pool in await app.pools() if pool.name == "gpu"] == [(0, 0)]
    assert most_slots_held(state, "gpu") == SLOTS
