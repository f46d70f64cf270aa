"""Races of submits that carry the same idempotency key."""

from collections import Counter
from typing import Any

import pytest

from tests.races.application import COST, application
from tests.races.history import most_at_once, whole
from tests.races.race_processes import RaceProcesses

PROCESSES = 20
ROUNDS = 3


def _submit(key: str, number: int) -> tuple[str, dict[str, Any]]:
    return "submit", {"tool": "draw", "payload": {"number": number}, "account": "ana", "idempotency_key": key}


@pytest.mark.req("C1")
async def test_one_key_from_twenty_processes_at_once_is_one_job_and_one_charge(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=100 * COST)

    rounds = [[_submit(f"key-{number}", number)] for number in range(ROUNDS)]
    answers = await processes.race(database, [{"role": "call", "rounds": rounds}] * PROCESSES)

    jobs = []
    for number in range(ROUNDS):
        told = [mine[number][0] for mine in answers]
        assert most_at_once(one["at"] for one in told) > PROCESSES // 4, "this was no race"
        receipts = [one["answer"] for one in told]
        assert Counter(receipt["idempotent_hit"] for receipt in receipts) == {False: 1, True: PROCESSES - 1}
        assert len({receipt["job_id"] for receipt in receipts}) == 1
        assert {receipt["cost"] for receipt in receipts} == {COST}
        jobs.append(receipts[0]["job_id"])
    async with application(database) as app:
        state = await whole(app)
        assert (await app.account("ana")).balance == (100 - ROUNDS) * COST
    assert state.jobs.keys() == set(jobs)
    assert Counter(entry.kind for entry in state.entries) == {"grant": 1, "charge": ROUNDS}


@pytest.mark.req("C1")
async def test_two_payloads_that_race_under_one_key_are_one_job_and_a_clear_error(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=100 * COST)

    racers = [{"role": "call", "rounds": [[_submit("key", number % 2)]]} for number in range(PROCESSES)]
    told = [told for ((told,),) in await processes.race(database, racers)]

    (job_id,) = {one["answer"]["job_id"] for one in told if "answer" in one}
    async with application(database) as app:
        state = await whole(app)
        won = (await app.job(job_id)).payload["number"]
    for number, one in enumerate(told):
        assert ("answer" in one) if number % 2 == won else (one["refused"] == "IDEMPOTENCY_MISMATCH")
    assert state.jobs.keys() == {job_id}
    assert Counter(entry.kind for entry in state.entries) == {"grant": 1, "charge": 1}
