"""Money: accounts, grants, charges, refunds, spending limits, and amounts at the edge of what can be counted."""

import pytest

from tests.core.scenarios import play

# Accounts and grants


@pytest.mark.req("D1")
def test_an_account_is_opened_once_on_a_plan_that_exists() -> None:
    play("""
        plan free
        open ana gold                              -> NOT_FOUND says="no plan 'gold'"
        open ana gold credits=-1                   -> NOT_FOUND
        open ana free credits=-1                   -> INVALID_ARGUMENT says="from 1 to 1000000000000, not -1"
        account ana                                -> nobody
        open ana free credits=5                    -> balance=5 plan=free
        open ana free credits=5                    -> INVALID_STATE says="open already"
        open ana free credits=-1                   -> INVALID_ARGUMENT
        ledger ana                                 -> grant 5
        open bob free                              -> balance=0
        ledger bob                                 -> empty
    """)


@pytest.mark.req("D1")
def test_credits_are_granted_to_accounts_that_exist_in_whole_positive_amounts() -> None:
    play("""
        plan free
        grant ana 5                                -> NOT_FOUND says="no account 'ana'"
        adjust ana 5                               -> NOT_FOUND
        open ana free
        grant ana 0                                -> INVALID_ARGUMENT
        grant ana -1                               -> INVALID_ARGUMENT says="from 1 to 1000000000000, not -1"
        grant ana 1000000000001                    -> INVALID_ARGUMENT
        grant ana 1000000000000                    -> balance=1000000000000 repeated=no
        grant ana 1                                -> balance=1000000000001
        ledger ana                                 -> grant 1000000000000, grant 1
    """)


@pytest.mark.req("D1")
def test_an_adjustment_goes_both_ways_and_never_below_zero() -> None:
    play("""
        plan free
        open ana free credits=10
        adjust ana 5                               -> balance=15
        adjust ana -15                             -> balance=0
        adjust ana -1                              -> INSUFFICIENT_CREDITS have=0 need=1
        adjust ana 0                               -> INVALID_ARGUMENT says="not 0"
        adjust ana -1000000000001                  -> INVALID_ARGUMENT
        ledger ana                                 -> grant 10, adjust 5, adjust -15
    """)


def test_a_payment_told_twice_is_granted_once() -> None:
    play("""
        plan free
        open ana free
        open bob free
        grant ana 50 key=pay-1                     -> balance=50 repeated=no
        grant ana 50 key=pay-1                     -> balance=50 repeated=yes
        grant ana 60 key=pay-1                     -> IDEMPOTENCY_MISMATCH says="a grant 50"
        adjust ana 50 key=pay-1                    -> IDEMPOTENCY_MISMATCH
        grant ana -1 key=pay-1                     -> IDEMPOTENCY_MISMATCH      # the key comes before the amount
        grant bob 50 key=pay-1                     -> balance=50 repeated=no    # another account's key
        together
            grant ana 7 key=pay-2                  -> balance=57 repeated=no
            grant ana 7 key=pay-2                  -> balance=57 repeated=yes
        +9000h
        grant ana 50 key=pay-1                     -> balance=57 repeated=yes   # such a key lives for ever
        forget ana grant pay-1                     -> kept
        submit ana j1 key=pay-1                    -> queued repeat=no          # and is no key of a submit
        ledger ana                                 -> grant 50, grant 7, charge -1
    """)


@pytest.mark.req("D1")
def test_a_refused_grant_does_not_use_up_its_key() -> None:
    play("""
        plan free
        open ana free
        adjust ana -5 key=fix                      -> INSUFFICIENT_CREDITS
        grant ana 5
        adjust ana -5 key=fix                      -> balance=0 repeated=no
    """)


@pytest.mark.req("D1")
def test_no_grant_passes_the_largest_balance_but_a_refund_always_arrives() -> None:
    """The largest balance is 2^53 - 1: whole numbers up to there survive JSON in every language."""
    play("""
        plan free
        open ana free credits=254740991
        grant ana 1000000000000 times=9007
        account ana                                -> balance=9007000254740991
        grant ana 199000000000                     -> balance=9007199254740991
        grant ana 1                                -> INVALID_ARGUMENT says="largest balance, 9007199254740991"
        adjust ana 1                               -> INVALID_ARGUMENT
        submit ana j1 cost=1000000000000           -> queued balance=9006199254740991
        grant ana 1000000000000                    -> balance=9007199254740991
        cancel j1                                  -> cancelled refunded=1000000000000 balance=9008199254740991
    """)


@pytest.mark.req("D1")
def test_the_largest_cost_is_charged_and_refunded_exactly() -> None:
    play("""
        plan free
        open ana free credits=1000000000000
        submit ana j1 cost=1000000000001           -> INVALID_ARGUMENT
        submit ana j1,j2 batch=b1 cost=500000000001     -> INVALID_ARGUMENT
        submit ana j1 cost=1000000000000 units=3   -> queued balance=0
        claim gpu w1                               -> j1
        finish j1 e1 completed delivered=1 of=3    -> completed refunded=666666666667 balance=666666666667
    """)


# Refunds


@pytest.mark.req("A6", "D9")
@pytest.mark.parametrize(
    ("cost", "delivered", "of", "refunded"),
    [
        (8, 4, 4, 0),
        (8, 3, 4, 2),
        (8, 0, 4, 8),
        (10, 1, 3, 7),  # a third of 10 is 3.33: the fraction goes to the account
        (1, 1, 2, 1),
        (0, 1, 4, 0),
        (8, 9, 4, 0),  # more than asked for costs no more
        (8, -1, 4, 8),  # nonsense is taken for nothing delivered
        (8, 0, 0, 8),
    ],
)
def test_what_was_not_delivered_comes_back(cost: int, delivered: int, of: int, refunded: int) -> None:
    play(f"""
        plan free
        open ana free credits=10
        submit ana j1 cost={cost} units=4
        claim gpu w1                               -> j1
        finish j1 e1 completed delivered={delivered} of={of}   -> completed refunded={refunded}
        finish j1 e1 failed                        -> unchanged status=completed refunded={refunded}
        cancel j1                                  -> unchanged status=completed refunded={refunded}
        account ana                                -> balance={10 - cost + refunded}
    """)


@pytest.mark.req("D9")
def test_without_a_total_the_units_of_the_job_are_the_total() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=8 units=4
        submit ana j2 cost=2 units=4
        claim gpu w1 limit=2                       -> j1, j2
        finish j1 e1 completed delivered=3         -> completed refunded=2
        finish j2 e1 completed                     -> completed refunded=0
        job j2                                     -> completed delivered=4
    """)


@pytest.mark.req("A6")
def test_a_free_job_is_neither_charged_nor_refunded() -> None:
    play("""
        plan free
        open ana free
        submit ana j1 cost=0                       -> queued balance=0
        cancel j1                                  -> cancelled refunded=0 balance=0
        submit ana j2 cost=0
        claim gpu w1                               -> j2
        finish j2 e1 failed                        -> failed refunded=0
        ledger ana                                 -> empty
    """)


@pytest.mark.req("A6", "A5")
def test_whoever_asks_and_however_often_a_refund_happens_once() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1
        together
            cancel j1                              -> cancelled refunded=5 balance=10
            finish j1 e1 failed final=yes          -> unchanged status=cancelled refunded=5 balance=10
            webhook j1 failed                      -> unchanged status=cancelled
            cancel j1                              -> unchanged status=cancelled
            recover j1                             -> nothing
        requeue j1 as=j2                           -> INVALID_STATE
        ledger ana                                 -> grant 10, charge -5, refund 5
        job j1                                     -> cancelled charged=5 refunded=5
    """)


# Spending limits


@pytest.mark.req("C4", "C3")
def test_a_hard_limit_holds_at_its_exact_edge() -> None:
    play("""
        plan free daily_limit=10 monthly_limit=15
        open ana free credits=99
        submit ana j1 cost=11                      -> COST_LIMIT period=day limit=10 spent=0 cost=11
        submit ana j1 cost=10                      -> queued spending=none
        submit ana j2 cost=1                       -> COST_LIMIT period=day spent=10 says="wait for the next day"
        submit ana j2 cost=0                       -> queued       # what is free is never too expensive
        +24h
        submit ana j3 cost=6                       -> COST_LIMIT period=month limit=15 spent=10 cost=6
        submit ana j3 cost=5                       -> queued
    """)


@pytest.mark.req("C4", "C3")
def test_a_soft_limit_warns_and_lets_pass() -> None:
    play("""
        plan free daily_warning=10 monthly_warning=25
        open ana free credits=99
        submit ana j1 cost=9                       -> queued spending=none
        submit ana j2 cost=1                       -> queued spending="10 credits spent this day"
        submit ana j3 cost=9                       -> queued spending="19 credits spent this day"
        +24h
        submit ana j4 cost=5                       -> queued spending=none
        submit ana j5 cost=1                       -> queued spending="25 credits spent this month"
        submit ana j6 cost=9                       -> queued spending="15 credits spent this day"
    """)


@pytest.mark.req("C4")
def test_a_day_ends_at_midnight_utc() -> None:
    play("""
        clock 2026-03-10T23:59:59.999999
        plan free daily_limit=10
        open ana free credits=99
        submit ana j1 cost=10                      -> queued
        submit ana j2 cost=1                       -> COST_LIMIT
        +1us
        submit ana j2 cost=10                      -> queued
        account ana                                -> day_spent=10 month_spent=20
    """)


@pytest.mark.req("C4")
@pytest.mark.parametrize(
    "last",
    ["2026-01-31", "2026-02-28", "2024-02-29", "2026-04-30", "2026-12-31"],
    ids=["january", "february", "leap year", "a short month", "the year's end"],
)
def test_a_month_ends_on_its_last_day_at_midnight_utc(last: str) -> None:
    play(f"""
        clock {last}T23:59:59.999999
        plan free monthly_limit=10
        open ana free credits=99
        submit ana j1 cost=10                      -> queued
        submit ana j2 cost=1                       -> COST_LIMIT period=month spent=10
        +1us
        submit ana j2 cost=10                      -> queued
        account ana                                -> month_spent=10
    """)


@pytest.mark.req("C4")
def test_a_refund_in_the_same_period_no_longer_counts_as_spent() -> None:
    play("""
        plan free daily_limit=10
        open ana free credits=99
        submit ana j1 cost=10                      -> queued
        submit ana j2 cost=5                       -> COST_LIMIT spent=10
        cancel j1                                  -> cancelled refunded=10
        account ana                                -> day_spent=0 month_spent=0
        submit ana j2 cost=5 units=5               -> queued
        claim gpu w1                               -> j2
        finish j2 e1 completed delivered=2         -> completed refunded=3
        account ana                                -> day_spent=2 month_spent=2
    """)


@pytest.mark.req("C4")
def test_a_refund_of_yesterday_makes_no_room_today() -> None:
    play("""
        clock 2026-03-31T12:00
        plan free daily_limit=10 monthly_limit=10
        open ana free credits=99
        submit ana j1 cost=4                       -> queued
        +24h
        submit ana j2 cost=7                       -> queued
        cancel j1                                  -> cancelled refunded=4
        account ana                                -> day_spent=7 month_spent=7
        submit ana j3 cost=4                       -> COST_LIMIT period=day spent=7
    """)


@pytest.mark.req("C4")
def test_a_refund_of_yesterday_makes_room_in_the_same_month() -> None:
    play("""
        plan free daily_limit=10 monthly_limit=12
        open ana free credits=99
        submit ana j1 cost=10                      -> queued
        +24h
        submit ana j2 cost=3                       -> COST_LIMIT period=month spent=10
        cancel j1                                  -> cancelled refunded=10
        account ana                                -> month_spent=0
        submit ana j2 cost=10                      -> queued
    """)
