"""The queue: who is served first, what a pool lets start, and what an operator can do to it."""

import pytest

from tests.core.scenarios import play

PLANS = """
        plan pro priority=10
        plan growth priority=20
        plan starter priority=30
        plan free priority=50
        open paula pro credits=99
        open gina growth credits=99
        open stella starter credits=99
        open fred free credits=99
"""

# Order


@pytest.mark.req("D3", "D4")
def test_plans_are_served_in_the_order_of_their_priority() -> None:
    play(f"""
        {PLANS}
        submit fred f1                             -> queued priority=50
        +1s
        submit stella s1                           -> queued priority=30
        +1s
        submit gina g1                             -> queued priority=20
        +1s
        submit paula p1                            -> queued priority=10
        +1s
        submit paula p2
        claim gpu w1 limit=9                       -> p1, p2, g1, s1, f1
    """)


@pytest.mark.req("A2", "D4", "B3")
def test_among_equals_the_first_created_is_the_first_started_whatever_its_tool() -> None:
    play(f"""
        {PLANS}
        submit fred z9 tool=video
        +1us
        submit fred a1 tool=image
        +1us
        submit fred m5 tool=video
        claim gpu w1                               -> z9
        claim gpu w2                               -> a1
        claim gpu w3                               -> m5
    """)


@pytest.mark.req("A2")
def test_created_in_the_same_microsecond_the_lower_id_goes_first() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j2
        submit ana j3
        submit ana j1
        queue gpu                                  -> j1, j2, j3
    """)


@pytest.mark.req("D3")
def test_the_first_job_ever_is_boosted_and_a_tool_can_stand_back() -> None:
    play(f"""
        policy first_job_boost=20
        tool video priority=10
        {PLANS}
        submit fred f1                             -> queued priority=30       # 50 - 20
        submit fred f2                             -> queued priority=50
        submit stella s1 tool=video                -> queued priority=20       # 30 + 10 - 20
        submit stella s2 tool=video                -> queued priority=40
        submit paula p1                            -> queued priority=-10
        cancel f1
        submit fred f3                             -> queued priority=50       # the first is the first ever
        queue gpu                                  -> p1, s1, s2, f2, f3
    """)


@pytest.mark.req("D3")
def test_of_a_first_batch_the_first_job_is_boosted() -> None:
    play("""
        policy first_job_boost=20
        plan free priority=50
        open ana free credits=9
        submit ana j1..j3 batch=b1                 -> queued priority=30
        job j1                                     -> priority=30
        job j2                                     -> priority=50
        job j3                                     -> priority=50
    """)


@pytest.mark.req("D3")
def test_a_refused_submit_is_not_the_first_job() -> None:
    play("""
        policy first_job_boost=20
        plan free priority=50
        open ana free
        submit ana j1                              -> INSUFFICIENT_CREDITS
        grant ana 9
        submit ana j1                              -> queued priority=30
    """)


def test_a_priority_beyond_what_a_rank_can_hold_is_cut_off() -> None:
    play("""
        plan free priority=2000
        open ana free credits=9
        submit ana j1 priority=9999                -> queued priority=2047
        submit ana j2 priority=-9999               -> queued priority=-2048
        queue gpu                                  -> j2, j1
    """)


def test_without_ageing_the_better_plan_goes_first_for_ever() -> None:
    play(f"""
        {PLANS}
        submit fred f1
        +90d
        submit paula p1
        recover f1                                 -> nothing
        queue gpu                                  -> p1, f1
    """)


def test_with_ageing_a_waiting_job_gains_a_point_per_interval_until_it_is_first() -> None:
    play("""
        clock 10:00
        plan pro priority=10
        plan free priority=12 ageing_s=60
        open paula pro credits=9
        open fred free credits=9
        submit fred f1                             -> queued priority=12
        job f1                                     -> queued ages_at=10:01
        +60s
        -1us
        recover f1                                 -> nothing
        +1us
        recover f1                                 -> aged
        job f1                                     -> queued ages_at=10:02 priority=12
        submit paula p1
        queue gpu                                  -> p1, f1       # 11 against 10
        +60s
        recover f1                                 -> aged
        queue gpu                                  -> f1, p1       # equal, and older
        recover f1                                 -> nothing
    """)


def test_ageing_goes_on_while_a_job_is_parked_or_taken_back() -> None:
    play("""
        clock 10:00
        plan pro priority=10
        plan free priority=12 ageing_s=60 max_running=1
        open paula pro credits=9
        open fred free credits=9
        submit fred f1
        submit fred f2
        +3m
        submit paula p1
        cancel f1
        job f2                                     -> queued place=ready ages_at=10:04
        claim gpu w1                               -> f2
        +60s
        recover f2                                 -> requeued
        job f2                                     -> queued ages_at=10:05
        claim gpu w1                               -> f2
    """)


# Pools


@pytest.mark.req("B3")
def test_a_claim_serves_all_the_pools_it_names_best_first() -> None:
    play("""
        pool cpu slots=1
        pool net slots=none
        plan free
        open ana free credits=9
        submit ana c1 pool=cpu
        +1s
        submit ana g1 pool=gpu
        +1s
        submit ana c2 pool=cpu
        +1s
        submit ana n1 pool=net
        claim cpu,net w1 limit=9                   -> c1, n1       # c2 waits for its slot, n1 does not wait for c2
        claim gpu,tpu w1                           -> NOT_FOUND says="no pool 'tpu'"
        claim gpu w1 limit=0                       -> nothing
        claim gpu,gpu w1 limit=9                   -> g1
        finish c1 e1 completed
        claim net,gpu,cpu w2                       -> c2
    """)


@pytest.mark.req("A1")
def test_only_started_jobs_hold_a_slot_and_every_ending_frees_it() -> None:
    play("""
        pool gpu slots=1
        plan free
        open ana free credits=99
        submit-each ana j1..j9 attempts=2
        claim gpu w1                               -> j1        # starting holds a slot
        claim gpu w2                               -> nothing
        start j1 e1
        claim gpu w2                               -> nothing   # and so does running
        finish j1 e1 completed
        claim gpu w2                               -> j2
        cancel j2
        claim gpu w2                               -> j3
        finish j3 e1 failed                        -> queued    # waits for its backoff, holds nothing
        claim gpu w2                               -> j4
        finish j4 e1 retry after=1h                -> queued
        claim gpu w2                               -> j5
        +60s
        recover j5                                 -> requeued
        claim gpu w2                               -> j5
        finish j5 e2 accepted
        claim gpu w2                               -> nothing
        webhook j5 failed                          -> queued
        claim gpu w2                               -> j6
        +10m
        beat j6 e1
        recover j6                                 -> failed
        claim gpu w2                               -> j7
    """)


@pytest.mark.req("A1")
def test_slots_hold_among_claims_of_one_commit_group() -> None:
    play("""
        pool gpu slots=2
        plan free
        open ana free credits=99
        submit-each ana j1..j9
        together
            claim gpu w1                           -> j1
            claim gpu w2 limit=5                   -> j2
            claim gpu w3                           -> nothing
            finish j1 e1 completed                 -> completed
            claim gpu w3 limit=5                   -> j3
            cancel j4                              -> cancelled
            cancel j2                              -> cancelled
            claim gpu w3 limit=5                   -> j5
    """)


def test_a_pool_without_slots_starts_nothing_and_a_pool_without_a_limit_everything() -> None:
    play("""
        pool none slots=0
        pool all slots=none
        plan free
        open ana free credits=99
        submit ana x1 pool=none
        submit-each ana y10..y19 pool=all
        claim none,all w1 limit=99                 -> y10, y11, y12, y13, y14, y15, y16, y17, y18, y19
        why x1                                     -> pool_full
    """)


def test_a_paused_pool_starts_nothing_new_and_lets_go_on_what_runs() -> None:
    play("""
        plan free
        open ana free credits=9
        submit-each ana j1..j2
        pause tpu                                  -> NOT_FOUND says="no pool 'tpu'"
        claim gpu w1                               -> j1
        pause gpu                                  -> paused=yes
        pause gpu                                  -> paused=yes
        claim gpu w2                               -> nothing
        why j2                                     -> pool_paused
        beat j1 e1                                 -> starting
        finish j1 e1 completed                     -> completed
        submit ana j3                              -> queued
        resume gpu                                 -> paused=no
        why j2                                     -> place
        claim gpu w2 limit=9                       -> j2, j3
    """)


def test_a_pool_resized_below_what_is_busy_ends_nothing_and_starts_nothing() -> None:
    play("""
        pool gpu slots=3
        plan free
        open ana free credits=9
        submit-each ana j1..j6
        claim gpu w1 limit=9                       -> j1, j2, j3
        resize tpu 1                               -> NOT_FOUND
        resize gpu -1                              -> INVALID_ARGUMENT
        resize gpu 1000001                         -> INVALID_ARGUMENT says="from 0 to 1000000"
        resize gpu 1                               -> slots=1 declared=3
        claim gpu w1                               -> nothing
        finish j1 e1 completed
        finish j2 e1 completed
        claim gpu w1                               -> nothing
        finish j3 e1 completed
        claim gpu w1 limit=9                       -> j4
        resize gpu none                            -> slots=3 declared=3
        claim gpu w1 limit=9                       -> j5, j6
    """)


def test_an_application_that_declares_a_pool_again_does_not_undo_the_operators_resize() -> None:
    play("""
        pool gpu slots=3                           -> slots=3
        resize gpu 1                               -> slots=1
        pause gpu                                  -> paused=yes
        pool gpu slots=5                           -> slots=1 declared=5 paused=yes
        resize gpu none                            -> slots=5
        pool gpu slots=-1                          -> INVALID_ARGUMENT
        pool gpu slots=1000001                     -> INVALID_ARGUMENT
        pool gpu slots=1000000                     -> slots=1000000
        pool gpu slots=none                        -> slots=none
        pool tpu slots=2                           -> slots=2 paused=no
    """)


# Elections


def test_a_duty_belongs_to_one_until_its_time_is_over() -> None:
    play("""
        clock 10:00
        elect sweeper n1 ttl=30s                   -> leads owner=n1 until=10:00:30
        elect sweeper n2 ttl=30s                   -> follows owner=n1 until=10:00:30
        elect cleaner n2 ttl=30s                   -> leads owner=n2
        +20s
        elect sweeper n1 ttl=30s                   -> leads until=10:00:50
        +30s
        -1us
        elect sweeper n2 ttl=30s                   -> follows owner=n1
        +1us
        together
            elect sweeper n2 ttl=30s               -> leads owner=n2 until=10:01:20
            elect sweeper n1 ttl=30s               -> follows owner=n2
    """)


def test_a_duty_that_a_wrong_clock_gave_holds_nobody_off() -> None:
    play("""
        clock 11:00
        elect sweeper n1 ttl=1h                    -> leads owner=n1 until=11:10
        clock 10:00
        elect sweeper n2 ttl=30s                   -> leads owner=n2 until=10:00:30
        elect cleaner n1 ttl=10m                   -> leads owner=n1 until=10:10
        elect cleaner n2 ttl=30s                   -> follows owner=n1
        -1us
        elect cleaner n2 ttl=30s                   -> leads owner=n2
    """)
