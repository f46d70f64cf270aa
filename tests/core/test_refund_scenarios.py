"""An operator's refund: what a job that ended was charged goes back, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.core.refunds import most, part_of
from tests.core.scenarios import play

DONE = """
        clock 10:00
        plan free
        open ana free credits=10
        submit ana j1 cost=5 units=4
        claim gpu w1
"""


def test_a_completed_job_is_refunded_once() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed          -> completed refunded=0 balance=5
        as boss refund j1 reason="black picture" -> completed refunded=5 balance=10
        job j1                          -> completed charged=5 refunded=5
        event j1 refunded               -> refunded=5
        events j1                       -> submitted claimed started completed refunded
        refund j1                       -> unchanged refunded=5 balance=10 status=completed
        as boss refund j1               -> unchanged
        ledger ana                      -> grant 10, charge -5, refund 5
        account ana                     -> balance=10 day_spent=0 month_spent=0
        audited 1                       -> reason="black picture" refunded=5 new_balance=10
        audited 2                       -> changed=no
    """)


def test_two_refunds_in_one_group_are_one() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed
        together
            refund j1                   -> completed refunded=5
            refund j1                   -> unchanged
        ledger ana                      -> grant 10, charge -5, refund 5
    """)


def test_what_its_end_refunded_is_not_refunded_again() -> None:
    play(f"""
        {DONE}
        submit ana j2 cost=2
        submit ana free cost=0
        cancel j2
        cancel free
        finish j1 e1 failed             -> failed balance=10
        refund j1                       -> unchanged balance=10
        refund j2                       -> unchanged
        refund free                     -> unchanged refunded=0
        ledger ana                      -> grant 10, charge -5, charge -2, refund 2, refund 5
    """)


def test_the_rest_of_a_partly_refunded_job_is_a_matter_of_adjust() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed delivered=3 of=4 -> completed refunded=2 balance=7
        refund j1                       -> INVALID_STATE charged=5 refunded=2 left=3 says="with adjust"
        job j1                          -> completed refunded=2
        adjust ana 3                    -> balance=10
    """)


def test_a_job_that_has_not_ended_is_not_refunded() -> None:
    play(f"""
        {DONE}
        refund j1                       -> INVALID_STATE status=starting says="Cancel it"
        submit ana j2 cost=1
        refund j2                       -> INVALID_STATE status=queued
        refund missing                  -> NOT_FOUND
    """)


def test_a_refund_is_taken_off_what_was_spent_in_the_same_period_only() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed
        account ana                     -> day_spent=5 month_spent=5
        +1d
        submit ana j2 cost=1
        account ana                     -> day_spent=1 month_spent=6
        refund j1                       -> completed refunded=5
        account ana                     -> day_spent=1 month_spent=1 balance=9
    """)


def test_a_part_of_the_charge_is_refunded_once_and_a_repeat_is_no_error() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed
        refund j1 amount=6              -> INVALID_STATE charged=5 left=5 says="at most 5"
        as boss refund j1 amount=2      -> completed refunded=2 balance=7
        refund j1 amount=2              -> unchanged refunded=2 balance=7
        refund j1 share=0.4             -> unchanged refunded=2
        refund j1 amount=1              -> INVALID_STATE charged=5 refunded=2 left=3
        refund j1                       -> INVALID_STATE left=3 says="with adjust"
        refund j1 share=1               -> INVALID_STATE left=3
        job j1                          -> completed charged=5 refunded=2
        events j1                       -> submitted claimed started completed refunded
        ledger ana                      -> grant 10, charge -5, refund 2
        account ana                     -> balance=7 day_spent=3 month_spent=3
        audited 1                       -> amount=2 refunded=2 new_balance=7
    """)


def test_two_parts_in_one_group_are_one_refund() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed
        together
            refund j1 amount=1          -> completed refunded=1
            refund j1 share=1           -> INVALID_STATE left=4
            refund j1 amount=1          -> unchanged
        ledger ana                      -> grant 10, charge -5, refund 1
    """)


def test_a_job_that_was_partly_refunded_at_its_end_gets_no_second_part() -> None:
    play(f"""
        {DONE}
        finish j1 e1 completed delivered=3 of=4 -> completed refunded=2 balance=7
        refund j1 amount=1              -> INVALID_STATE refunded=2 left=3
        submit ana free cost=0
        cancel free
        refund free amount=3            -> unchanged refunded=0
        refund free share=0.5           -> unchanged refunded=0
    """)


@pytest.mark.parametrize(
    ("charged", "share", "back"),
    [(5, "0.5", 3), (1, "0.001", 1), (30, "0.1", 3), (10**12, "1e-12", 1), (7, "1", 7), (7, "1.0", 7), (3, "0.34", 2)],
)
def test_a_share_is_rounded_up_to_a_whole_credit_and_exact_otherwise(charged: int, share: str, back: int) -> None:
    """30 x 0.1 is 3, which it is not in binary fractions."""
    assert part_of(charged, None, share) == back


@given(
    st.lists(st.integers(0, 50), max_size=9),
    st.one_of(
        st.tuples(st.integers(1, 60), st.none()),
        st.tuples(st.none(), st.floats(0, 1, exclude_min=True).map(str)),
        st.just((None, None)),
    ),
)
def test_no_more_comes_back_than_was_said_before(charges: list[int], part: tuple[int | None, str | None]) -> None:
    back = sum(min(charged, part_of(charged, *part)) for charged in charges)
    assert back <= most(len(charges), sum(charges), *part) <= sum(charges)
