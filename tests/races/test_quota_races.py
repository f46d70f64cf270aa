"""Races for the last slot of a quota."""

from collections import Counter
from typing import Any

import pytest

from tests.races.application import COST, application
from tests.races.history import most_at_once, whole
from tests.races.race_processes import RaceProcesses

PROCESSES = 12
ROUNDS = 4
ACCOUNTS = [f"account-{number}" for number in range(ROUNDS)]

RESERVE = "reserve", {}
SUBMIT = "submit", {"tool": "read"}


async def _race_for_last_slot(
    processes: RaceProcesses, database: str, calls: list[tuple[str, dict[str, Any]]]
) -> list[list[dict[str, Any]]]:
    """All processes want the one slot that is left; once for each account. Answers with what each round was told."""
    async with application(database) as app:
        for account in ACCOUNTS:
            await app.open_account(account, plan="three", credits=100 * COST)
            await app.submit("read", account=account)
            await app.reserve(account)

    racers = [
        {"role": "call", "rounds": [[(operation, {**arguments, "account": account})] for account in ACCOUNTS]}
        for operation, arguments in calls
    ]
    answers = await processes.race(database, racers)

    rounds = [[mine[number][0] for mine in answers] for number in range(ROUNDS)]
    for told in rounds:
        assert most_at_once(one["at"] for one in told) > PROCESSES // 4, "this was no race"
        assert Counter(one.get("refused") for one in told) == {None: 1, "QUOTA_EXCEEDED": PROCESSES - 1}
    return rounds


@pytest.mark.req("C2")
async def test_one_of_many_that_reserve_the_last_slot_gets_it(processes: RaceProcesses, database: str) -> None:
    await _race_for_last_slot(processes, database, [RESERVE] * PROCESSES)

    async with application(database) as app:
        state = await whole(app)
    held = Counter(hold.account_id for hold in state.reservations.values() if hold.state == "active")
    assert held == dict.fromkeys(ACCOUNTS, 2)
    assert len(state.jobs) == ROUNDS


@pytest.mark.req("C2")
async def test_the_last_slot_goes_to_one_reservation_or_one_submit(processes: RaceProcesses, database: str) -> None:
    rounds = await _race_for_last_slot(processes, database, [RESERVE, SUBMIT] * (PROCESSES // 2))

    winners = [one["called"] for told in rounds for one in told if "answer" in one]
    async with application(database) as app:
        state = await whole(app)
    assert len(state.jobs) == ROUNDS + winners.count("submit")
    assert len(state.reservations) == ROUNDS + winners.count("reserve")
    for account in ACCOUNTS:
        mine = sum(hold.account_id == account for hold in state.reservations.values())
        assert state.accounts[account].active + mine == 3


@pytest.mark.req("C2")
async def test_one_of_many_submits_under_the_same_reservation_uses_it(processes: RaceProcesses, database: str) -> None:
    holds = []
    async with application(database) as app:
        for account in ACCOUNTS:
            await app.open_account(account, plan="three", credits=100 * COST)
            holds.append((await app.reserve(account)).id)

    rounds = [
        [("submit", {"tool": "read", "account": account, "reservation": hold})]
        for account, hold in zip(ACCOUNTS, holds, strict=True)
    ]
    answers = await processes.race(database, [{"role": "call", "rounds": rounds}] * PROCESSES)

    for number in range(ROUNDS):
        told = [mine[number][0] for mine in answers]
        assert Counter(one.get("refused") for one in told) == {None: 1, "INVALID_STATE": PROCESSES - 1}
    async with application(database) as app:
        state = await whole(app)
    assert {held.state for held in state.reservations.values()} == {"consumed"}
    assert {held.job_id for held in state.reservations.values()} == state.jobs.keys()
    assert len(state.jobs) == ROUNDS
