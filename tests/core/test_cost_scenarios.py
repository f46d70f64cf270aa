"""What a provider took for a job: kept with it, over all its runs, and only once."""

from __future__ import annotations

from tests.core.scenarios import play


def test_the_cost_of_a_job_is_that_of_its_runs_together() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 attempts=3
        job j1                                       -> queued provider_cost=none
        claim gpu w1                                 -> j1
        finish j1 e1 failed provider_cost=20         -> queued
        job j1                                       -> queued provider_cost=20
        +1h
        recover j1
        claim gpu w1                                 -> j1
        finish j1 e2 failed                          -> queued
        job j1                                       -> queued provider_cost=20
        +1h
        recover j1
        claim gpu w1                                 -> j1
        finish j1 e3 completed provider_cost=0       -> completed
        job j1                                       -> completed provider_cost=20
    """)


def test_a_failure_that_ends_the_job_may_cost_something() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                                 -> j1
        finish j1 e1 failed provider_cost=7          -> failed refunded=5
        job j1                                       -> failed provider_cost=7
    """)


def test_a_late_word_tells_the_cost_once_and_only_if_none_is_known() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1,j2 batch=b1
        claim gpu w1 limit=2                         -> j1, j2
        finish j1 e1 completed provider_cost=5       -> completed
        webhook j1 completed provider_cost=9         -> unchanged
        job j1                                       -> completed provider_cost=5
        cancel j2                                    -> cancelled
        finish j2 e1 retry                           -> unchanged
        job j2                                       -> cancelled provider_cost=none
        finish j2 e1 completed provider_cost=3       -> unchanged
        finish j2 e1 failed provider_cost=4          -> unchanged
        job j2                                       -> cancelled provider_cost=3 late_finishes=3
    """)


def test_the_sum_is_bounded() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 attempts=2
        claim gpu w1                                              -> j1
        finish j1 e1 failed provider_cost=1000000000000000        -> queued
        +1h
        recover j1
        claim gpu w1                                              -> j1
        finish j1 e2 failed provider_cost=1000000000000000        -> failed
        job j1                                                    -> failed provider_cost=1000000000000000
    """)
