"""Races for credits."""

import pytest

from tests.races.application import COST, application
from tests.races.history import most_at_once, whole
from tests.races.race_processes import RaceProcesses


@pytest.mark.req("A12", "D1", "D2")
async def test_fifty_submits_at_once_on_credits_for_ten_are_ten_jobs(processes: RaceProcesses, database: str) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open", credits=10 * COST)

    submits = [("submit", {"tool": "draw", "payload": {"number": 1}, "account": "ana"})] * 5
    told = [
        told
        for (mine,) in await processes.race(database, [{"role": "call", "rounds": [submits]}] * 10)
        for told in mine
    ]

    assert most_at_once(one["at"] for one in told) > 5, "hardly any two calls overlapped: this was no race"
    receipts = [one["answer"] for one in told if "answer" in one]
    assert [one["refused"] for one in told if "refused" in one] == ["INSUFFICIENT_CREDITS"] * 40
    # Each was charged on what the one before had left.
    assert sorted(receipt["new_balance"] for receipt in receipts) == [COST * left for left in range(10)]
    async with application(database) as app:
        state = await whole(app)
        assert (await app.account("ana")).balance == 0
        assert (await app.account("ana")).active == 10
    accepted = {receipt["job_id"] for receipt in receipts}
    assert state.jobs.keys() == accepted
    first, *charges = state.entries
    assert (first.kind, first.amount) == ("grant", 10 * COST)
    assert {(entry.kind, entry.amount) for entry in charges} == {("charge", -COST)}
    assert sorted(entry.job_id or "" for entry in charges) == sorted(accepted)


@pytest.mark.req("D1")
async def test_a_payment_told_by_many_call_backs_at_once_is_credited_once(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        await app.open_account("ana", plan="open")

    grant = ("grant", {"account": "ana", "amount": 100, "key": "payment-1"})
    told = [told for ((told,),) in await processes.race(database, [{"role": "call", "rounds": [[grant]]}] * 12)]

    answers = [one["answer"] for one in told]
    assert [(answer["balance"], answer["entry"]) for answer in answers] == [(100, 1)] * 12
    assert sorted(answer["idempotent_hit"] for answer in answers) == [False, *[True] * 11]
    async with application(database) as app:
        assert [entry.amount for entry in (await whole(app)).entries] == [100]
