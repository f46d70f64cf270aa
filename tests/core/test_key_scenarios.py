"""What is asked for twice: idempotency keys, batches under a key, and content that was computed before."""

import pytest

from tests.core.scenarios import play

# Idempotency keys


@pytest.mark.req("C1")
def test_a_repeat_shows_the_first_job_as_it_stands_now() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=2 key=k1                -> queued waits=yes repeat=no
        claim gpu w1                               -> j1
        submit ana j2 cost=2 key=k1                -> starting job=j1 waits=no repeat=yes cost=2 balance=7
        start j1 e1
        submit ana j2 cost=2 key=k1                -> running job=j1 repeat=yes
        finish j1 e1 failed
        submit ana j2 cost=2 key=k1                -> failed job=j1 repeat=yes balance=9
        ledger ana                                 -> grant 9, charge -2, refund 2
    """)


@pytest.mark.req("C1")
def test_a_key_belongs_to_its_account() -> None:
    play("""
        plan free
        open ana free credits=9
        open bob free credits=9
        submit ana j1 key=k1                       -> queued job=j1 repeat=no
        submit bob j2 key=k1 body=other            -> queued job=j2 repeat=no
    """)


@pytest.mark.req("C1", "C3")
def test_the_key_of_a_refused_submit_stays_free_for_any_other() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=2 key=k1                -> queued job=j1
        submit ana j2 cost=8 key=k2 body=dear      -> INSUFFICIENT_CREDITS
        submit ana j3,j4 cost=4 key=k2 batch=b1    -> INSUFFICIENT_CREDITS
        submit ana j5 cost=2 key=k2                -> queued job=j5 repeat=no
        submit ana j2 cost=2 key=k2 body=dear      -> IDEMPOTENCY_MISMATCH
        ledger ana                                 -> grant 9, charge -2, charge -2
    """)


@pytest.mark.req("C1")
def test_a_key_lives_for_24_hours_to_the_microsecond() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 key=k1                       -> queued job=j1
        +24h
        -1us
        submit ana j2 key=k1                       -> queued job=j1 repeat=yes
        submit ana j2 key=k1 body=other            -> IDEMPOTENCY_MISMATCH
        +1us
        submit ana j2 key=k1 body=other            -> queued job=j2 repeat=no
        submit ana j3 key=k1 body=other            -> queued job=j2 repeat=yes
        ledger ana                                 -> grant 9, charge -1, charge -1
    """)


@pytest.mark.req("C1", "C2")
def test_nobody_asks_for_a_key_a_reservation_or_a_schedule_beyond_its_limit() -> None:
    play("""
        plan free
        policy key_ttl_max_ms=2h reservation_ttl_max_ms=1h schedule_max_ms=10h
        open ana free credits=9
        submit ana j1 key=k1 ttl=2h                -> queued
        submit ana j2 key=k2 ttl=7201s             -> INVALID_ARGUMENT limit=2.0
        submit ana j3 key=k1 ttl=7201s             -> queued job=j1 repeat=yes
        submit ana j4 delay=10h                    -> queued
        submit ana j5 delay=36001s                 -> INVALID_ARGUMENT
        reserve ana r1 ttl=1h                      -> active
        reserve ana r2 ttl=3601s                   -> INVALID_ARGUMENT limit=3600.0
    """)


@pytest.mark.req("C1")
def test_a_submit_can_say_how_long_its_key_lives() -> None:
    play("""
        plan free
        policy key_ttl_ms=1h
        open ana free credits=9
        submit ana j1 key=short ttl=10s            -> queued job=j1
        submit ana j2 key=long ttl=48h             -> queued job=j2
        submit ana j3 key=usual                    -> queued job=j3
        submit ana j4 key=none ttl=0s              -> queued job=j4
        submit ana j5 key=none ttl=0s              -> queued job=j5 repeat=no
        +10s
        submit ana j6 key=short                    -> queued job=j6 repeat=no
        +1h
        submit ana j7 key=usual                    -> queued job=j7 repeat=no
        +46h
        submit ana j8 key=long                     -> queued job=j2 repeat=yes
    """)


@pytest.mark.req("C1")
def test_concurrent_repeats_in_one_commit_group_make_one_job() -> None:
    play("""
        plan free
        open ana free credits=9
        together
            submit ana j1 cost=3 key=k1            -> queued job=j1 repeat=no balance=6
            submit ana j2 cost=3 key=k1            -> queued job=j1 repeat=yes balance=6
            submit ana j3 cost=3 key=k1 body=other -> IDEMPOTENCY_MISMATCH job=j1
        ledger ana                                 -> grant 9, charge -3
    """)


@pytest.mark.req("C1")
def test_a_key_is_cleared_away_only_when_it_has_expired() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 key=k1 ttl=10s
        forget ana submit k1                       -> kept
        +10s
        forget ana submit k1                       -> cleared
        forget ana submit k1                       -> kept
        submit ana j2 key=k1 body=other            -> queued job=j2 repeat=no
    """)


@pytest.mark.req("C1")
def test_a_key_cleared_and_used_again_in_one_commit_group_is_the_new_one() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 key=k1 ttl=10s
        +10s
        together
            forget ana submit k1                   -> cleared
            submit ana j2 key=k1                   -> queued job=j2 repeat=no
            forget ana submit k1                   -> kept
        submit ana j3 key=k1                       -> queued job=j2 repeat=yes
    """)


# Batches


@pytest.mark.req("D6")
def test_a_batch_is_created_and_charged_as_one() -> None:
    play("""
        plan free max_running=2
        open ana free credits=20
        submit ana j1..j5 batch=b1 cost=3          -> queued job=j1 jobs=5 cost=15 balance=5 batch=b1
        batch b1                                   -> account=ana total=5
        job j2                                     -> queued place=ready batch_id=b1
        job j3                                     -> queued place=parked batch_id=b1
        account ana                                -> active=5 admitted=2 parked=3 submitted=5 hour_submits=5
        ledger ana                                 -> grant 20, charge -3, charge -3, charge -3, charge -3, charge -3
    """)


def test_a_batch_that_does_not_fit_is_refused_whole() -> None:
    play("""
        plan free max_active=4 per_hour=6 daily_limit=12
        open ana free credits=10
        submit ana j1..j5 batch=b1                 -> QUOTA_EXCEEDED limit=4 active=0
        submit ana j1..j4 batch=b1 cost=3          -> INSUFFICIENT_CREDITS have=10 need=12
        submit ana j1..j4 batch=b1 cost=4          -> COST_LIMIT period=day limit=12 spent=0 cost=16
        submit ana j1..j3 batch=b1 cost=1          -> queued jobs=3
        cancel j1
        cancel j2
        cancel j3
        submit ana j5..j8 batch=b2                 -> RATE_LIMITED limit=6 used=3
        batch b2                                   -> unknown
        job j5                                     -> unknown
        account ana                                -> balance=10 active=0 submitted=3
    """)


@pytest.mark.req("C1")
def test_a_repeated_batch_answers_with_its_first_job_and_its_whole_cost() -> None:
    play("""
        plan free
        open ana free credits=20
        submit ana j1..j3 batch=b1 cost=2 key=k1   -> queued job=j1 jobs=3 cost=6 balance=14
        submit ana x1..x3 batch=b2 cost=2 key=k1   -> queued job=j1 jobs=3 cost=6 balance=14 batch=b1 repeat=yes
        batch b2                                   -> unknown
        job x1                                     -> unknown
    """)


def test_a_refused_submit_never_fails_its_neighbours_in_a_commit_group() -> None:
    play("""
        plan free
        open ana free credits=5
        open bob free credits=5
        together
            submit ana j1 cost=3                   -> queued balance=2
            submit ana j2 cost=3                   -> INSUFFICIENT_CREDITS have=2 need=3
            submit bob j3 cost=3                   -> queued balance=2
            submit nobody j4                       -> NOT_FOUND
            submit ana j5 cost=2                   -> queued balance=0
    """)


# Content that was computed before


@pytest.mark.req("B7")
def test_the_same_content_is_computed_once_and_served_for_nothing_afterwards() -> None:
    play("""
        plan free max_active=1
        open ana free credits=9
        open bob free credits=9
        submit ana j1 cost=4 content=abc           -> queued balance=5
        claim gpu w1                               -> j1
        finish j1 e1 completed result='"a cat"'
        submit ana j2 cost=4 content=abc           -> completed cost=0 balance=5 waits=no
        job j2                                     -> completed result='"a cat"' charged=0 delivered=1 place=none
        events j2                                  -> submitted reused
        submit bob j3 cost=4 content=abc           -> completed cost=0 balance=9
        submit bob j4 cost=4 content=abc tool=other     -> queued cost=4      # another tool, another work
        submit bob j5 cost=4 content=abc           -> completed cost=0          # takes no slot of the quota
        account bob                                -> active=1 latest_job=j4 submitted=3
        cancel j5                                  -> unchanged status=completed
    """)


@pytest.mark.req("B7")
def test_content_is_remembered_only_from_a_whole_success() -> None:
    play("""
        plan free
        open ana free credits=99
        submit ana j1 content=abc units=4 cost=4
        submit ana j2 content=abc units=4 cost=4   -> queued        # nothing is known yet
        claim gpu w1                               -> j1
        finish j1 e1 completed delivered=3 of=4    -> completed refunded=1
        submit ana j3 content=abc units=4 cost=4   -> queued
        claim gpu w1                               -> j2
        finish j2 e1 failed                        -> failed
        submit ana j4 content=abc units=4 cost=4   -> queued
        claim gpu w1                               -> j3
        finish j3 e1 completed                     -> completed refunded=0
        submit ana j5 content=abc units=4 cost=4   -> completed cost=0
    """)


# Equal jobs that wait for each other


@pytest.mark.req("B7")
def test_of_equal_jobs_one_runs_and_the_others_get_its_result_and_their_credits_back() -> None:
    play("""
        plan free daily_limit=9
        open ana free credits=9
        open bob free credits=9
        submit ana j1 cost=4 content=abc           -> queued balance=5
        submit bob j2 cost=4 content=abc           -> queued balance=5
        submit bob j3 cost=1                       -> queued balance=4
        claim gpu w1 limit=2                       -> j1 behind=j2
        claim gpu w1                               -> j3
        job j2                                     -> queued epoch=0 started_at=none events=1
        why j2                                     -> equal_job
        account bob                                -> active=2 admitted=2 parked=0
        recover j2                                 -> nothing
        take j2 gpu w1                             -> INVALID_STATE
        finish j1 e1 completed result='"a cat"'
        recover j2                                 -> reused refunded=4
        recover j2                                 -> nothing
        job j2                                     -> completed result='"a cat"' charged=4 refunded=4 delivered=1
        events j2                                  -> submitted reused
        ledger bob                                 -> grant 9, charge -4, charge -1, refund 4
        account bob                                -> active=1 admitted=1 balance=8 day_spent=1
        cancel j2                                  -> unchanged status=completed
    """)


@pytest.mark.req("B7")
@pytest.mark.parametrize(
    "end",
    [
        "finish j1 e1 failed",
        "finish j1 e1 cancelled",
        "finish j1 e1 completed delivered=3 of=4",
        "finish j1 e1 interrupted",
        "cancel j1",
        "+601s; recover j1",
    ],
)
def test_an_equal_job_runs_itself_where_the_first_ends_without_a_whole_result(end: str) -> None:
    steps = "\n        ".join(end.split("; "))
    play(f"""
        plan free
        open ana free credits=9
        open bob free credits=9
        submit ana j1 cost=4 content=abc priority=-1
        submit bob j2 cost=4 content=abc
        claim gpu w1 limit=2                       -> j1 behind=j2
        {steps}
        recover j2                                 -> promoted
        job j2                                     -> queued charged=4 refunded=0
        cancel j1                                  # one that was interrupted is back in the queue
        claim gpu w1                               -> j2 epoch=1
        finish j2 e1 completed result='2'          -> completed refunded=0 balance=5
        ledger bob                                 -> grant 9, charge -4
    """)


@pytest.mark.req("B7")
def test_an_equal_job_runs_while_the_first_waits_for_its_retry_which_then_gets_the_result() -> None:
    play("""
        plan free
        open ana free credits=9
        open bob free credits=9
        submit ana j1 cost=4 content=abc attempts=2 backoff=10s
        submit bob j2 cost=4 content=abc
        claim gpu w1 limit=2                       -> j1 behind=j2
        finish j1 e1 failed                        -> queued
        recover j2                                 -> promoted
        claim gpu w1                               -> j2
        +10s
        recover j1                                 -> promoted
        claim gpu w1                               -> nothing behind=j1
        finish j2 e1 completed result='2'
        recover j1                                 -> reused refunded=4
        job j1                                     -> completed result='2' attempts=1 charged=4 refunded=4
        events j1                                  -> submitted claimed retried reused
    """)


@pytest.mark.req("B7")
def test_the_better_job_runs_first_and_a_third_waits_for_whoever_runs() -> None:
    play("""
        plan free
        open ana free credits=99
        submit ana j1 cost=4 content=abc
        submit ana j2 cost=4 content=abc priority=-9
        submit ana j3 cost=4 content=abc priority=9
        claim gpu w1 limit=9                       -> j2 behind=j1,j3
        cancel j2
        recover j3                                 -> promoted
        claim gpu w1                               -> j3
        recover j1                                 -> parked        # behind the one that runs now
        recover j1                                 -> nothing
        +599s
        recover j1                                 -> nothing
        +1s
        recover j1                                 -> parked        # a run takes no longer than this: it looks again
        finish j3 e1 completed result='3'
        recover j1                                 -> reused refunded=4
    """)


@pytest.mark.req("B7")
def test_an_equal_job_that_waits_can_be_cancelled_and_can_wait_too_long() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        open bob free credits=9
        submit ana j1 cost=4 content=abc
        submit bob j2 cost=4 content=abc max_wait=5s
        submit bob j3 cost=4 content=def           -> queued
        why j3                                     -> account_limit
        claim gpu w1 limit=2                       -> j1 behind=j2
        why j3                                     -> account_limit
        +5s
        recover j2                                 -> cancelled refunded=4
        why j3                                     -> place
        submit bob j4 cost=4 content=abc           -> queued
        cancel j3
        claim gpu w1                               -> nothing behind=j4
        cancel j4                                  -> cancelled refunded=4
        account bob                                -> active=0 admitted=0 balance=9
    """)


@pytest.mark.req("B7")
def test_equal_jobs_in_one_group_with_the_end_of_the_first() -> None:
    play("""
        plan free
        open ana free credits=99
        submit ana j1..j4 batch=b1 cost=4 content=abc
        claim gpu w1                               -> j1
        together
            finish j1 e1 failed                    -> failed
            claim gpu w1 limit=2                   -> j2 behind=j3
            cancel j2                              -> cancelled
            recover j3                             -> promoted
            claim gpu w1 limit=9                   -> j3 behind=j4
        together
            finish j3 e1 completed result='3'      -> completed
            recover j4                             -> reused refunded=4
            submit ana j5 cost=4 content=abc       -> completed cost=0
    """)


@pytest.mark.req("B7")
def test_a_batch_pays_only_for_the_jobs_that_are_not_served() -> None:
    play("""
        plan free max_active=1
        open ana free credits=9
        submit ana j1 cost=4 content=abc
        claim gpu w1                               -> j1
        finish j1 e1 completed
        submit ana j2,j3,j4 batch=b1 cost=2 content=abc,new,newer    -> QUOTA_EXCEEDED limit=1 active=0
        submit ana j2,j3 batch=b1 cost=2 content=abc,new             -> completed job=j2 jobs=2 cost=2 balance=3
        job j2                                     -> completed charged=0 batch_id=b1
        job j3                                     -> queued charged=2 batch_id=b1
    """)


def test_content_found_in_the_same_commit_group_is_served() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=4 content=abc
        claim gpu w1                               -> j1
        together
            submit ana j2 cost=1 content=abc       -> queued
            finish j1 e1 completed                 -> completed
            submit ana j3 cost=4 content=abc       -> completed cost=0
    """)


@pytest.mark.req("E6")
def test_a_submit_joins_a_batch_of_its_account_and_leaves_it_as_it_was_first_submitted() -> None:
    play("""
        plan free
        open ana free credits=20
        submit ana j1..j2 batch=b1                 -> queued batch=b1
        submit ana j3 joins=b1 key=k1              -> queued job=j3 jobs=1 batch=b1 balance=17
        submit ana j4..j5 joins=b1                 -> queued job=j4 jobs=2 batch=b1
        submit ana x1 joins=b1 key=k1              -> queued job=j3 batch=b1 repeat=yes
        job j3                                     -> batch_id=b1
        job j5                                     -> batch_id=b1
        batch b1                                   -> account=ana total=2
        together
            submit ana j6..j7 batch=b2             -> queued
            submit ana j8 joins=b2                 -> queued batch=b2
        batch b2                                   -> total=2
    """)


@pytest.mark.req("E6", "D10")
def test_another_accounts_batch_is_not_found_and_nothing_is_charged() -> None:
    play("""
        plan free
        open ana free credits=20
        open bob free credits=20
        submit ana j1..j2 batch=b1
        submit bob j3 joins=b1                     -> NOT_FOUND says="no batch b1"
        submit bob j3 joins=b2                     -> NOT_FOUND says="no batch b2"
        together
            submit ana j4..j5 batch=b3             -> queued
            submit bob j6 joins=b3                 -> NOT_FOUND
        ledger bob                                 -> grant 20
    """)
