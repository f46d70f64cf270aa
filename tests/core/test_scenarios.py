"""The product in a few stories: start reading here. The other `test_*_scenarios.py` go into every corner."""

import pytest

from tests.core.scenarios import play


@pytest.mark.req("D2", "A12")
def test_a_job_is_paid_once_run_once_and_its_result_kept() -> None:
    play("""
        clock 10:00
        plan free priority=50 max_active=1 per_hour=10
        open ana free credits=10                   -> balance=10
        submit ana j1 cost=5                       -> queued job=j1 priority=50 cost=5 balance=5
        +2s
        claim gpu w1                               -> j1 epoch=1 payload='"payload of j1"'
        start j1 e1                                -> running
        +8s
        finish j1 e1 completed result='"a cat"'    -> completed refunded=0 balance=5
        job j1                                     -> completed charged=5 refunded=0 delivered=1 result='"a cat"'
        job j1                                     -> created_at=10:00 started_at=10:00:02 finished_at=10:00:10
        events j1                                  -> submitted claimed started completed
        ledger ana                                 -> grant 10, charge -5
        account ana                                -> balance=5 active=0 admitted=0 submitted=1
    """)


@pytest.mark.req("C1")
def test_a_repeated_submit_charges_once() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5 key=order-7           -> queued job=j1 balance=5 repeat=no
        submit ana j2 cost=5 key=order-7           -> queued job=j1 balance=5 repeat=yes
        job j2                                     -> unknown
        ledger ana                                 -> grant 10, charge -5
    """)


@pytest.mark.req("A4", "A6", "D9")
def test_a_failed_job_gives_everything_back_once() -> None:
    play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1
        finish j1 e1 failed error="no GPU left" final=yes
        job j1                                     -> failed error="no GPU left" charged=5 refunded=5 dead=no
        finish j1 e1 failed                        -> unchanged status=failed refunded=5 balance=10
        cancel j1                                  -> unchanged status=failed refunded=5 balance=10
        ledger ana                                 -> grant 10, charge -5, refund 5
    """)


@pytest.mark.req("B4", "B5", "E3")
def test_a_job_whose_worker_died_goes_on_where_it_stopped_and_the_dead_worker_is_not_heard() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1 epoch=1 until=10:01
        start j1 e1
        step j1 e1 download pixels                 -> pixels
        checkpoint j1 e1 UPSCALING 30%
        +60s                                       # and not a word from w1
        recover j1                                 -> requeued
        claim gpu w2                               -> j1 epoch=2
        job j1                                     -> starting checkpoint=UPSCALING progress=30 worker=w2
        beat j1 e1                                 -> LEASE_LOST status=starting epoch=2
        finish j1 e1 completed                     -> LEASE_LOST
        step j1 e2 download other                  -> pixels     # stored: not done and not paid again
        finish j1 e2 completed                     -> completed
        events j1   -> submitted claimed started step checkpoint recovered claimed late started completed
        ledger ana                                 -> grant 10, charge -5
    """)


@pytest.mark.req("D4", "A2")
def test_an_account_at_its_concurrency_waits_without_blocking_those_behind_it() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        open bob free credits=9
        submit ana a1
        +1s
        submit ana a2                              -> queued waits=yes
        +1s
        submit bob b1
        why a2                                     -> account_limit
        claim gpu w1 limit=9                       -> a1, b1
        finish b1 e1 completed
        job a2                                     -> queued place=parked
        finish a1 e1 completed
        job a2                                     -> queued place=ready
        claim gpu w1                               -> a2
    """)


@pytest.mark.req("A1")
def test_a_pool_never_runs_more_than_its_slots() -> None:
    play("""
        pool gpu slots=3
        plan free
        open ana free credits=9
        submit-each ana j1..j5
        claim gpu w1 limit=2                       -> j1, j2
        claim gpu w2 limit=9                       -> j3         # one slot was left
        claim gpu w3                               -> nothing
        why j4                                     -> pool_full
        finish j1 e1 accepted ref=xyz              -> running    # the provider has it: no worker, but still a slot
        claim gpu w3                               -> nothing
        webhook j1 completed                       -> completed
        claim gpu w3 limit=9                       -> j4
    """)


@pytest.mark.req("D9")
def test_three_of_four_images_cost_three_quarters() -> None:
    play("""
        plan free
        open ana free credits=8
        submit ana j1 cost=8 units=4               -> queued balance=0
        claim gpu w1                               -> j1
        finish j1 e1 completed delivered=3 of=4    -> completed refunded=2 balance=2
        job j1                                     -> completed charged=8 refunded=2 delivered=3
        event j1 completed                         -> delivered=3 of=4 refunded=2
        ledger ana                                 -> grant 8, charge -8, refund 2
    """)


@pytest.mark.req("C2")
def test_a_slot_is_reserved_before_a_large_upload_and_used_by_the_submit_after_it() -> None:
    play("""
        clock 10:00
        plan free max_active=1
        open ana free credits=9
        reserve ana r1                             -> active until=10:05
        submit ana j1                              -> QUOTA_EXCEEDED limit=1 active=0 reserved=1
        submit ana j1 reservation=r1               -> queued
        reservation r1                             -> consumed job=j1
        submit ana j2                              -> ACTIVE_JOB_EXISTS job=j1
    """)
