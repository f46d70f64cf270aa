"""Batches: as far as the credits go, and between the jobs of others."""

import pytest

from .scenarios import play


@pytest.mark.req("E6")
def test_a_batch_goes_as_far_as_the_credits_do_if_it_is_asked_to() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1..j4 batch=b1 cost=3                  -> INSUFFICIENT_CREDITS
        submit ana j1..j4 batch=b1 cost=3 far=yes key=k    -> queued job=j1 jobs=3 cost=9 left_out=1
        account ana                                        -> balance=0
        batch b1                                           -> total=3
        job j3                                             -> cost=3
        job j4                                             -> unknown
        submit ana j1..j4 batch=b1 cost=3 far=yes key=k    -> queued job=j1 jobs=3 cost=9 left_out=1 repeat=yes
        submit ana j5..j6 batch=b2 cost=3 far=yes          -> INSUFFICIENT_CREDITS
        grant ana 3
        submit ana j5..j6 batch=b2 cost=3 far=yes          -> jobs=1 because=INSUFFICIENT_CREDITS
        submit ana j7..j8 batch=b3 cost=0 far=yes          -> queued jobs=2 cost=0 left_out=none because=none
    """)


def test_it_goes_as_far_as_the_plans_numbers_do_too() -> None:
    play("""
        plan free max_active=3
        plan slow per_hour=2
        plan thrifty daily_limit=5
        open ana free credits=99
        open ben slow credits=99
        open eva thrifty credits=99
        submit ana a1..a5 batch=b1 far=yes                 -> queued jobs=3 left_out=2 because=QUOTA_EXCEEDED
        submit ana a6..a7 batch=b2 far=yes                 -> QUOTA_EXCEEDED
        submit ben c1..c5 batch=b3 far=yes                 -> queued jobs=2 left_out=3 because=RATE_LIMITED
        submit eva e1..e4 batch=b4 cost=2 far=yes          -> queued jobs=2 cost=4 left_out=2 because=COST_LIMIT
    """)


def test_what_is_wrong_with_one_job_is_wrong_with_the_batch() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1..j3 batch=b1 cost=-1 far=yes         -> INVALID_ARGUMENT
        submit ana j1..j3 batch=b1 delay=400d far=yes      -> INVALID_ARGUMENT
        account ana                                        -> balance=9
    """)


def test_jobs_of_others_pass_between_those_of_a_batch() -> None:
    play("""
        policy batch_spacing_ms=1s
        plan free
        open ana free credits=99
        open ben free credits=99
        submit ana j1..j5 batch=b1
        +1500ms
        submit ben k1                                      -> queued
        +2s
        submit ben k2..k3 batch=b2                         -> queued
        queue gpu                                          -> j1, j2, k1, j3, j4, k2, j5, k3
    """)


def test_a_spacing_of_nothing_serves_a_batch_before_all_that_comes_later() -> None:
    play("""
        policy batch_spacing_ms=0s
        plan free
        open ana free credits=99
        open ben free credits=99
        submit ana j1..j3 batch=b1
        +1ms
        submit ben k1
        queue gpu                                          -> j1, j2, j3, k1
    """)


def test_a_job_of_a_batch_ages_from_when_it_counts_as_submitted() -> None:
    play("""
        policy batch_spacing_ms=60s
        plan free ageing_s=100
        open ana free credits=99
        open ben free credits=99
        submit ana j1..j3 batch=b1
        +90s
        submit ben k1
        +10s
        recover j1                                         -> aged
        recover j2                                         -> nothing
        recover j3                                         -> nothing
        queue gpu                                          -> j1, j2, k1, j3
        +60s
        recover j2                                         -> aged
        recover j3                                         -> nothing
        queue gpu                                          -> j1, j2, k1, j3
    """)


def test_a_job_of_a_batch_that_waited_behind_its_accounts_limit_keeps_its_place() -> None:
    play("""
        policy batch_spacing_ms=10s
        plan free max_running=1
        open ana free credits=99
        open ben free credits=99
        submit ana j1..j3 batch=b1
        +5s
        submit ben k1
        claim gpu w                                        -> j1
        finish j1 e1 completed
        queue gpu                                          -> k1, j2
    """)
