"""Races of workers for jobs."""

from collections import Counter

import pytest

from ficha.core.records import Leased
from tests.races.application import COST, application
from tests.races.history import whole
from tests.races.race_processes import RaceProcesses

JOBS = 10_000
WORKERS = [f"worker-{number}" for number in range(8)]


@pytest.mark.long_on("sqlite")
@pytest.mark.req("B3")
async def test_eight_processes_claim_ten_thousand_jobs_each_exactly_once(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=JOBS * COST)
        await app.submit_batch([("read", {"number": number}) for number in range(JOBS)], account="ana")

    racers = [{"role": "claim_all", "worker": worker, "limit": 100} for worker in WORKERS]
    claimed = dict(zip(WORKERS, await processes.race(database, racers), strict=True))

    times_claimed = Counter(job_id for claims in claimed.values() for claim in claims for job_id, _, _ in claim)
    assert len(times_claimed) == JOBS
    assert set(times_claimed.values()) == {1}
    assert sum(bool(claims) for claims in claimed.values()) > len(WORKERS) // 2, "few got a job: this was no race"
    for worker, claims in claimed.items():
        numbers = [number for claim in claims for _, _, number in claim]
        assert numbers == sorted(numbers), f"{worker} was not given the oldest first"
    async with application(database) as app:
        state = await whole(app)
    holders = {job_id: (worker, epoch) for worker in WORKERS for claim in claimed[worker] for job_id, epoch, _ in claim}
    places = {job.id: (job.place, job.epoch) for job in state.jobs.values()}
    assert {
        job: (place.worker, epoch) for job, (place, epoch) in places.items() if isinstance(place, Leased)
    } == holders
    assert Counter(event.kind for event in state.events) == {"submitted": JOBS, "claimed": JOBS}
