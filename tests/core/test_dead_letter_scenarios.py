"""Dead letters: looked at, run again as a new job with a charge of its own, or discarded."""

import pytest

from tests.core.scenarios import play

DEAD = """
        clock 10:00
        plan free max_running=1
        open ana free credits=10
        submit ana j1 cost=5 units=4 batch=b1 session=s1 attempts=1 timeout=30s priority=3 tool=video content=abc
        claim gpu w1                               -> j1
        finish j1 e1 failed error="out of memory"  -> failed refunded=5 balance=10
        job j1                                     -> failed dead=yes dead_at=10:00
        +1m
"""


@pytest.mark.req("B6")
def test_a_dead_letter_runs_again_as_a_new_job_charged_anew() -> None:
    play(f"""
        {DEAD}
        requeue j1 as=j2                           -> queued job=j2 cost=5 balance=5 priority=53 batch=b1 waits=yes
        job j2  -> queued place=ready requeue_of=j1 charged=5 units=4 epoch=0 attempts=0 created_at=10:01 session=s1
        job j2                                     -> queued tool=video content_hash=abc timeout_ms=30000
        job j1                                     -> failed refunded=5 dead=no error="out of memory"
        event j1 requeued                          -> as_job=j2
        event j2 submitted                         -> requeue_of=j1
        claim gpu w1                               -> j2 epoch=1 payload='"payload of j1"'
        finish j2 e1 completed
        ledger ana                                 -> grant 10, charge -5, refund 5, charge -5
        account ana                                -> balance=5 submitted=2 active=0
    """)


@pytest.mark.req("B6")
def test_a_dead_letter_is_requeued_once() -> None:
    play(f"""
        {DEAD}
        together
            requeue j1 as=j2                       -> queued
            requeue j1 as=j3                       -> INVALID_STATE status=failed
        job j3                                     -> unknown
        discard j1                                 -> unchanged
    """)


@pytest.mark.req("B6")
def test_quotas_and_rates_do_not_bind_an_operator_but_the_balance_does() -> None:
    play(f"""
        {DEAD}
        plan free max_running=1 max_active=1 per_hour=1 daily_limit=1
        adjust ana -5
        submit ana j2 cost=0                       -> RATE_LIMITED
        requeue j1 as=j2                           -> queued balance=0
        claim gpu w1                               -> j2
        finish j2 e1 failed                        -> failed balance=5
        adjust ana -1                              -> balance=4
        requeue j2 as=j3                           -> INSUFFICIENT_CREDITS have=4 need=5
        job j2                                     -> failed dead=yes
    """)


@pytest.mark.req("B6")
def test_a_user_who_runs_a_dead_letter_again_is_bound_as_by_a_submit() -> None:
    play(f"""
        {DEAD}
        resubmit bob j1 as=j2                      -> NOT_FOUND
        resubmit ana j1 as=j2 tool=other           -> UNKNOWN_TOOL
        resubmit ana j1 as=j2 plans=pro            -> FORBIDDEN plan=free
        adjust ana -6
        resubmit ana j1 as=j2                      -> INSUFFICIENT_CREDITS have=4 need=5
        grant ana 6
        plan free max_running=1 per_hour=1
        resubmit ana j1 as=j2                      -> RATE_LIMITED used=1
        plan free max_running=1 daily_limit=4
        resubmit ana j1 as=j2                      -> COST_LIMIT spent=0
        plan free max_running=1 max_active=2
        reserve ana r1
        submit ana j2 cost=0
        resubmit ana j1 as=j3                      -> QUOTA_EXCEEDED active=1 reserved=1
        release r1
        plan free max_running=1 max_active=2 per_hour=3 daily_limit=5 priority=70
        resubmit ana j1 as=j3 plans=free priority=3  -> queued job=j3 cost=5 balance=5 priority=73 batch=b1
        resubmit ana j1 as=j4                      -> INVALID_STATE status=failed
        account ana                                -> submitted=3 hour_submits=3 active=2 latest_job=j3
        event j3 submitted                         -> requeue_of=j1
        cancel j2
        submit ana j4 cost=0                       -> RATE_LIMITED used=3
    """)


@pytest.mark.req("B6", "D4")
def test_a_requeued_job_waits_behind_its_accounts_concurrency_like_any_other() -> None:
    play(f"""
        {DEAD}
        submit ana j2
        requeue j1 as=j3                           -> queued waits=yes      # parked, and yet in the queue
        job j3                                     -> queued place=parked
        account ana                                -> latest_job=j3 active=2 parked=1
        cancel j2
        job j3                                     -> queued place=ready
    """)


@pytest.mark.req("B6")
def test_a_discarded_letter_is_gone_from_the_list_and_nothing_else_changes() -> None:
    play(f"""
        {DEAD}
        discard j1                                 -> discarded
        discard j1                                 -> unchanged
        job j1                                     -> failed dead=no refunded=5
        requeue j1 as=j2                           -> INVALID_STATE says="not in the dead-letter list"
        events j1                                  -> submitted claimed failed discarded
    """)


@pytest.mark.req("B6")
@pytest.mark.parametrize("way", ["nothing", "claim gpu w1", "cancel j1"])
def test_only_a_dead_letter_can_be_requeued(way: str) -> None:
    play(f"""
        plan free
        open ana free credits=9
        submit ana j1
        {"" if way == "nothing" else way}
        requeue j1 as=j2                           -> INVALID_STATE
        discard j1                                 -> unchanged
    """)


@pytest.mark.req("B6", "A4")
def test_what_comes_to_the_list_is_what_somebody_should_look_at() -> None:
    """Used-up attempts, timeouts and poison do; a final error, a cancellation and a long wait do not."""
    play("""
        plan free
        policy max_recoveries=0
        open ana free credits=99
        submit ana used-up
        submit ana final
        submit ana slow timeout=30s
        submit ana poison
        submit ana away timeout=30s
        submit ana unwanted
        submit ana waiting max_wait=90s pool=other
        claim gpu w1 limit=9                       -> away, final, poison, slow, unwanted, used-up
        finish used-up e1 failed
        finish final e1 failed final=yes
        finish away e1 accepted
        finish unwanted e1 cancelled
        +30s
        beat slow e1
        recover slow                               -> failed
        +30s
        recover poison                             -> failed
        recover away                               -> failed
        +30s
        recover waiting                            -> cancelled
        job used-up                                -> failed dead=yes
        job slow                                   -> failed dead=yes
        job poison                                 -> failed dead=yes
        job away                                   -> failed dead=yes
        job final                                  -> failed dead=no
        job unwanted                               -> cancelled dead=no
        job waiting                                -> cancelled dead=no
    """)
