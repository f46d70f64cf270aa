"""The queue before a committer: accounts take turns, and each one's calls keep their order."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.engine.fair_queue import FairQueue, Ticket

HEAVY = 50
MOST = 10


def queue(*calls: tuple[str | None, int]) -> FairQueue:
    """A queue of calls that came in this order: whose, how heavy."""
    made = FairQueue()
    for account, weight in calls:
        made.append(Ticket((), account, weight, 0.0, asyncio.Future()))
    return made


def told(tickets: list[Ticket]) -> list[tuple[str | None, int]]:
    return [(ticket.account_id, ticket.weight) for ticket in tickets]


async def test_all_that_fits_is_taken_in_the_order_it_came() -> None:
    calls = [("ana", 1), ("bob", 2), ("ana", 3), (None, 1), ("bob", 3)]
    waiting = queue(*calls)
    assert told(waiting.take(MOST)) == calls
    assert (bool(waiting), waiting.weight, waiting.take(MOST)) == (False, 0, [])


async def test_one_accounts_many_calls_do_not_keep_anothers_from_the_next_group() -> None:
    waiting = queue(*[("eve", 1)] * 100, ("ana", 1), (None, 2), ("bob", 1))
    group = told(waiting.take(MOST))
    assert sorted(group[6:], key=str) == [("ana", 1), ("bob", 1), (None, 2)]
    assert group[:6] == [("eve", 1)] * 6
    assert waiting.weight == waiting.weight_of("eve") == 94


async def test_a_heavy_call_runs_alone_and_lets_the_others_go_before_the_next() -> None:
    waiting = queue(*[("eve", HEAVY)] * 3, ("ana", 1), ("bob", 1))
    groups = [told(waiting.take(MOST)) for _ in range(4)]
    assert groups == [[("eve", HEAVY)], [("ana", 1), ("bob", 1)], [("eve", HEAVY)], [("eve", HEAVY)]]


async def test_who_got_nothing_has_the_next_turn_however_many_light_calls_come() -> None:
    waiting = queue(*[("ana", 1)] * 20, ("eve", 9), *[("bob", 1)] * 20)
    first, second = told(waiting.take(MOST)), told(waiting.take(MOST))
    assert ("eve", 9) not in first
    assert second[0] == ("eve", 9) or ("eve", 9) in second


async def test_a_heavy_call_can_be_left_for_later_and_its_account_with_it() -> None:
    waiting = queue(("eve", HEAVY), ("eve", 1), ("ana", 9), ("bob", 9))
    assert told(waiting.take(MOST, without_heavy=True)) == [("ana", 9)]
    assert told(waiting.take(MOST, without_heavy=True)) == [("bob", 9)]
    assert (waiting.take(MOST, without_heavy=True), waiting.weight) == ([], HEAVY + 1)
    assert told(waiting.take(MOST)) == [("eve", HEAVY)]


async def test_whoever_stopped_waiting_is_left_out_and_takes_no_room() -> None:
    waiting = queue(*[("eve", HEAVY)] * 2, *[("ana", 1)] * 12)
    for line in waiting._lines.values():
        for ticket in list(line.tickets)[:-1]:
            ticket.future.cancel()
    assert told(waiting.take(MOST)) == [("eve", HEAVY)]
    assert told(waiting.take(MOST)) == [("ana", 1)]
    assert (bool(waiting), waiting.weight) == (False, 0)


CALLS = st.lists(st.tuples(st.sampled_from(["ana", "bob", "eve", None]), st.integers(1, 15)), max_size=40)


@given(CALLS)
def test_every_call_is_taken_once_in_its_accounts_order_and_no_account_waits_for_more_than_the_others_turns(
    calls: list[tuple[str | None, int]],
) -> None:
    loop = asyncio.new_event_loop()
    waiting = FairQueue()
    for account, weight in calls:
        waiting.append(Ticket((), account, weight, 0.0, loop.create_future()))
    loop.close()
    taken: list[Ticket] = []
    passed_over: dict[str | None, int] = {}
    while waiting:
        weight = waiting.weight
        group = waiting.take(MOST)
        assert group
        assert len(group) == 1 or sum(ticket.weight for ticket in group) <= MOST
        assert waiting.weight == weight - sum(ticket.weight for ticket in group)
        for account in {account for account, _ in calls}:
            is_served = any(ticket.account_id == account for ticket in group)
            passed_over[account] = 0 if is_served or not waiting.weight_of(account) else passed_over.get(account, 0) + 1
            assert passed_over[account] <= 3
        taken += group
    for account in ("ana", "bob", "eve", None):
        numbers = [ticket.number for ticket in taken if ticket.account_id == account]
        assert numbers == sorted(numbers)
    assert sorted(ticket.number for ticket in taken) == list(range(1, len(calls) + 1))


@pytest.mark.parametrize("accounts", [2, 5, 10])
async def test_shares_are_equal_whoever_came_first(accounts: int) -> None:
    names = [f"account {n}" for n in range(accounts)]
    waiting = queue(*[(name, 1) for name in names for _ in range(50)])
    group = waiting.take(MOST)
    assert {name: sum(ticket.account_id == name for ticket in group) for name in names} == dict.fromkeys(
        names, MOST // accounts
    )
