"""Races of those who end the same job."""

from collections import Counter

import pytest

from ficha import SubmitRequest
from tests.races.application import COST, application
from tests.races.history import most_at_once, whole
from tests.races.race_processes import RaceProcesses

PROCESSES = 20
ROUNDS = 5
ENDED_BY = {"complete": "completed", "call_back": "completed", "fail": "failed", "cancel": "cancelled"}


@pytest.mark.req("A5", "A6")
async def test_of_twenty_who_end_the_same_job_at_once_one_is_told_that_it_did(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=ROUNDS * COST)
        await app.submit_many([SubmitRequest(tool="read", account="ana")] * ROUNDS)
        leases = await app.claim("default", limit=ROUNDS, worker="worker-1")

    def rounds(number: int) -> list[list[tuple[str, dict[str, object]]]]:
        operation = list(ENDED_BY)[number % len(ENDED_BY)]
        if operation in ("complete", "fail"):
            return [[(operation, {"job_id": lease.job_id, "epoch": lease.epoch})] for lease in leases]
        return [[(operation, {"job_id": lease.job_id})] for lease in leases]

    answers = await processes.race(
        database, [{"role": "call", "rounds": rounds(number)} for number in range(PROCESSES)]
    )

    async with application(database) as app:
        state = await whole(app)
        assert (await app.account("ana")).active == 0
    for number, lease in enumerate(leases):
        told = [mine[number][0] for mine in answers]
        assert most_at_once(one["at"] for one in told) > PROCESSES // 4, "this was no race"
        (winner,) = [one for one in told if one["answer"]["changed"]]
        status = ENDED_BY[winner["called"]]
        refund = 0 if status == "completed" else COST
        assert {(one["answer"]["status"], one["answer"]["refunded"]) for one in told} == {(status, refund)}
        job = state.jobs[lease.job_id]
        assert (job.status, job.refunded) == (status, refund)
        kinds = Counter(event.kind for event in state.events if event.job_id == job.id)
        assert kinds["completed"] + kinds["failed"] + kinds["cancelled"] == kinds[status] == 1
        assert sum(entry.job_id == job.id and entry.kind == "refund" for entry in state.entries) == bool(refund)


@pytest.mark.req("A5", "A6", "B3")
async def test_a_job_that_is_claimed_and_cancelled_at_once_is_cancelled_and_refunded_once(
    processes: RaceProcesses, database: str
) -> None:
    jobs = 8
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=jobs * COST)
        await app.submit_many([SubmitRequest(tool="read", account="ana")] * jobs)
        ids = [job.id for job in (await app.jobs(account="ana")).items]

    cancel_all = [("cancel", {"job_id": job_id}) for job_id in ids]
    racers = [
        {
            "role": "call",
            "rounds": [cancel_all if number % 2 else [("claim", {"worker": f"worker-{number}", "limit": 2})]],
        }
        for number in range(12)
    ]
    answers = [told for (mine,) in await processes.race(database, racers) for told in mine]

    claimed = Counter(job_id for told in answers if told["called"] == "claim" for job_id in told["answer"])
    assert set(claimed.values()) <= {1}
    cancelled = [
        told["answer"]["job_id"] for told in answers if told["called"] == "cancel" and told["answer"]["changed"]
    ]
    assert sorted(cancelled) == sorted(ids)
    async with application(database) as app:
        state = await whole(app)
        assert (await app.account("ana")).balance == jobs * COST
    assert Counter(entry.kind for entry in state.entries) == {"grant": 1, "charge": jobs, "refund": jobs}
    assert {event.job_id for event in state.events if event.kind == "claimed"} == claimed.keys()
