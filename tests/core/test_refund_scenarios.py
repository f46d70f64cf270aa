"""An operator's refund: what a job that ended was charged goes back, once."""

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
