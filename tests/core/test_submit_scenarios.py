"""Submit: what it refuses and in which order, rates and quotas at their edges, and jobs for later."""

import pytest

from tests.core.scenarios import play

# The ladder of refusals


@pytest.mark.req("C1", "C3", "D2")
def test_a_submit_is_refused_by_the_first_reason_of_the_ladder() -> None:
    """Everything is wrong with the submit at first; each mended thing shows the next reason."""
    play("""
        clock 10:00
        plan free max_active=2 per_hour=3 daily_limit=20
        plan gone
        open ana free credits=100
        open bob free credits=100
        submit ana j1 cost=5 key=k1
        submit ana j2 cost=10
        open eva gone
        no-plan gone

        # nobody, before anything else
        submit nobody x1 cost=999 key=k1           -> NOT_FOUND says="no account 'nobody'"
        # a known key, before every limit
        submit ana x1 cost=999 key=k1 body=other reservation=r9    -> IDEMPOTENCY_MISMATCH job=j1
        submit ana x1 cost=999 key=k1 reservation=r9               -> queued job=j1 repeat=yes balance=85
        # a plan that is no longer declared
        submit eva x1 cost=999 reservation=r9      -> NOT_FOUND says="no plan 'gone'"
        # the reservation named
        submit ana x1 cost=999 reservation=r9      -> NOT_FOUND says="no reservation r9"
        reserve bob r1
        submit ana x1 cost=999 reservation=r1      -> NOT_FOUND says="no reservation r1"     # it is bob's
        # the quota of active jobs
        submit ana x1,x2 cost=999                  -> QUOTA_EXCEEDED limit=2 active=2 reserved=0
        finish j1 e0 completed                     -> LEASE_LOST
        cancel j1                                  -> cancelled refunded=5
        cancel j2                                  -> cancelled refunded=10
        # the hourly rate
        submit ana x1,x2 cost=999                  -> RATE_LIMITED limit=3 used=2 retry_after=3600 retryable=yes
        # the largest cost of one submit
        submit ana x1 cost=1000000000001           -> INVALID_ARGUMENT says="at most 1000000000000"
        # the spending limit
        submit ana x1 cost=21                      -> COST_LIMIT period=day limit=20 spent=0 cost=21 retryable=no
        # the balance
        adjust ana -95                             -> balance=5
        submit ana x1 cost=6                       -> INSUFFICIENT_CREDITS have=5 need=6 retryable=no
        # nothing
        submit ana x1 cost=5                       -> queued balance=0
    """)


@pytest.mark.req("A12", "D1")
def test_a_submit_that_costs_more_than_the_balance_creates_nothing_and_charges_nothing() -> None:
    play("""
        plan free
        open ana free credits=4
        submit ana j1 cost=5 key=k1 batch=b1       -> INSUFFICIENT_CREDITS have=4 need=5 says="has 4 credits and needs"
        job j1                                     -> unknown
        ledger ana                                 -> grant 4
        account ana                                -> balance=4 active=0 submitted=0 hour_submits=0 day_spent=0
        grant ana 1
        submit ana j1 cost=5 key=k1 batch=b1       -> queued balance=0 repeat=no      # the refused key was not kept
    """)


@pytest.mark.req("D1")
def test_a_balance_may_be_spent_to_the_last_credit_and_not_beyond() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=10                      -> queued balance=0
        submit ana j2 cost=1                       -> INSUFFICIENT_CREDITS have=0 need=1
        submit ana j2 cost=0                       -> queued balance=0 cost=0
        ledger ana                                 -> grant 10, charge -10
    """)


@pytest.mark.req("A3")
def test_a_plan_can_allow_one_active_job_over_all_tools() -> None:
    """Queued, starting, running and waiting for a provider all count; the refusal names the job."""
    play("""
        plan free max_active=1
        tool video pool=gpu
        open ana free credits=9
        submit ana j1                              -> queued
        submit ana j2 tool=video                   -> ACTIVE_JOB_EXISTS job=j1 limit=1 active=1 says="job j1 of account"
        claim gpu w1                               -> j1
        submit ana j2 tool=video                   -> ACTIVE_JOB_EXISTS job=j1
        start j1 e1                                -> running
        submit ana j2 tool=video                   -> ACTIVE_JOB_EXISTS job=j1
        finish j1 e1 accepted                      -> running
        submit ana j2 tool=video                   -> ACTIVE_JOB_EXISTS job=j1
        reserve ana r1                             -> ACTIVE_JOB_EXISTS job=j1
        webhook j1 failed                          -> failed
        submit ana j2 tool=video                   -> queued
        account ana                                -> latest_job=j2
    """)


@pytest.mark.req("A3")
def test_a_parked_or_retried_job_is_still_the_active_one() -> None:
    play("""
        plan free max_active=1
        open ana free credits=9
        submit ana j1 delay=1h attempts=2          -> queued
        submit ana j2                              -> ACTIVE_JOB_EXISTS job=j1
        +1h
        recover j1                                 -> promoted
        claim gpu w1                               -> j1
        finish j1 e1 failed                        -> queued
        submit ana j2                              -> ACTIVE_JOB_EXISTS job=j1
        cancel j1                                  -> cancelled
        submit ana j2                              -> queued
    """)


@pytest.mark.req("C2", "C3")
def test_the_quota_of_active_jobs_is_refused_at_its_exact_edge() -> None:
    play("""
        plan team max_active=3
        open ana team credits=9
        submit ana j1                              -> queued warns=none
        submit ana j2                              -> queued warns=none
        submit ana j3,j4 batch=b1                  -> QUOTA_EXCEEDED limit=3 active=2 reserved=0 retryable=no
        submit ana j3                              -> queued warns="3 of 3 active jobs"
        submit ana j4                              -> QUOTA_EXCEEDED limit=3 active=3
        cancel j1
        submit ana j4                              -> queued
    """)


# Rates and spending


@pytest.mark.req("D5", "C3")
@pytest.mark.parametrize(("plan", "per_hour"), [("pro", 999), ("growth", 100), ("starter", 50), ("free", 10)])
def test_hourly_limits_by_plan_hold_at_their_exact_edge_and_end_with_the_hour(plan: str, per_hour: int) -> None:
    play(f"""
        clock 10:59:59.999999
        plan {plan} per_hour={per_hour}
        open ana {plan} credits=5000
        submit ana a1..a{per_hour} batch=b1           -> queued
        submit ana x1                                 -> RATE_LIMITED limit={per_hour} used={per_hour} retry_after=1
        +1us
        submit ana c1..c{per_hour} batch=b2           -> queued jobs={per_hour}
        submit ana x1                                 -> RATE_LIMITED retry_after=3600
        +59m
        submit ana x1                                 -> RATE_LIMITED retry_after=60
    """)


@pytest.mark.req("D5")
def test_a_refused_or_repeated_submit_does_not_count_towards_the_hour() -> None:
    play("""
        plan free per_hour=2
        open ana free credits=1
        submit ana j1 key=k1                       -> queued
        submit ana j2                              -> INSUFFICIENT_CREDITS
        submit ana j1 key=k1                       -> queued repeat=yes
        grant ana 5
        submit ana j2                              -> queued
        submit ana j3                              -> RATE_LIMITED used=2
        submit ana j1 key=k1                       -> queued repeat=yes      # a repeat passes at the limit too
    """)


@pytest.mark.req("C3")
def test_a_submit_warns_from_eighty_per_cent_of_a_quota_on() -> None:
    play("""
        plan free per_hour=10 max_active=5
        open ana free credits=99
        submit ana j1..j3 batch=b1                 -> queued warns=none
        submit ana j4                              -> queued warns="4 of 5 active jobs"
        cancel j1
        cancel j2
        submit ana j5                              -> queued warns=none
        cancel j3
        cancel j4
        cancel j5
        submit ana j6..j7 batch=b2                 -> queued warns=none
        submit ana j8                              -> queued warns="8 of 10 jobs this hour"
        submit ana j9                              -> queued warns="4 of 5 active jobs; 9 of 10 jobs this hour"
    """)


def test_a_quota_of_one_does_not_warn_of_itself_and_a_quota_of_two_does() -> None:
    play("""
        plan free max_active=1 per_hour=2
        open ana free credits=9
        submit ana j1                              -> queued warns=none
        cancel j1
        submit ana j2                              -> queued warns="2 of 2 jobs this hour"
    """)


def test_a_submit_with_a_negative_cost_is_refused() -> None:
    """Nobody earns credits by submitting, and a batch cannot hide one job's cost behind another's."""
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=-5                      -> INVALID_ARGUMENT says="-5"
        ledger ana                                 -> grant 9
    """)


# Schedules


def test_a_job_for_later_waits_parked_until_its_time() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 delay=90s                    -> queued waits=yes
        submit ana j2 at=10:30                     -> queued
        submit ana j3 at=09:00                     -> queued      # a time that has passed is now
        submit ana j4 at=10:01 delay=5m            -> queued      # the later of the two
        job j1                                     -> queued place=parked due_at=10:01:30
        job j2                                     -> queued place=parked due_at=10:30
        job j3                                     -> queued place=ready
        job j4                                     -> queued place=parked due_at=10:05
        why j1                                     -> schedule
        account ana                                -> active=4 admitted=1 parked=0
        claim gpu w1 limit=9                       -> j3
        clock 10:01:29.999999
        recover j1                                 -> nothing
        +1us
        recover j1                                 -> promoted
        claim gpu w1 limit=9                       -> j1
    """)


@pytest.mark.req("D4")
def test_a_job_whose_time_comes_while_its_account_is_busy_waits_for_the_account() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        submit ana j1 delay=10s
        submit ana j2                              -> queued
        job j2                                     -> queued place=ready   # the scheduled one takes no room yet
        +10s
        recover j1                                 -> parked
        job j1                                     -> queued place=parked due_at=none
        recover j1                                 -> nothing
        cancel j2
        job j1                                     -> queued place=ready
    """)


@pytest.mark.req("D5", "C3")
def test_a_submit_tells_what_is_left_of_the_hour_also_when_repeated() -> None:
    play("""
        plan free per_hour=5
        plan pro
        open ana free credits=20
        open bob pro credits=20
        clock 10:59:30.5
        submit ana j1 key=k1                       -> queued left=4 resets=30
        submit ana j2..j3 batch=b1                 -> queued left=2
        submit ana x1 key=k1                       -> queued repeat=yes left=2 resets=30
        submit ana j4..j5 batch=b2                 -> queued left=0
        submit ana j6                              -> RATE_LIMITED
        clock 11:00
        submit ana x1 key=k1                       -> queued repeat=yes left=5 resets=3600
        submit ana j6                              -> queued left=4
        submit bob j7                              -> queued left=none
        change-plan ana pro
        submit ana x1 key=k1                       -> queued repeat=yes left=none
        no-plan pro
        submit ana x1 key=k1                       -> queued repeat=yes left=none
    """)
