"""Bulk acts: each job once, whoever works on the act and wherever they die."""

from ficha.core.records import BulkAct
from ficha.core.records.bulk_acts import NEVER
from tests.core.scenarios import play

DEAD = """
        clock 10:00
        plan free
        open ana free credits=10
        open bob free credits=10
        submit-each ana j1..j3 cost=2 attempts=1
        submit bob j4 cost=10 attempts=1
        claim gpu w1 limit=9
        finish j1 e1 failed
        finish j2 e1 failed
        finish j3 e1 failed
        finish j4 e1 failed
        +1m
"""


def test_a_bulk_act_is_done_step_by_step_and_each_job_is_audited() -> None:
    play(f"""
        {DEAD}
        adjust bob -5
        as boss begin-bulk b1 requeue total=4 cost=16 reason="the provider was down" -> running total=4
        hold-bulk b1                    -> running hold=1
        advance b1 1 ~ j4 j3 before=j3  -> running done=1 failed=1
        advance b1 1 j3 j2 j1           -> done done=3 failed=1
        bulk b1                         -> done ended_at=10:01 failures="j4 INSUFFICIENT_CREDITS" before=j3
        job j1                          -> failed dead=no
        job j1+                         -> queued requeue_of=j1
        job j4                          -> failed dead=yes
        account ana                     -> balance=4
        audited 1                       -> act=requeue search=dead:yes total=4 credits=16
        audited 2                       -> as_job=j3+ reason="the provider was down" bulk_act=b1
        audited 4                       -> as_job=j1+ bulk_act=b1
    """)


def test_a_step_that_is_repeated_changes_nothing() -> None:
    """As after a commit of which nobody knew whether it took place."""
    play(f"""
        {DEAD}
        begin-bulk b1 requeue total=3
        hold-bulk b1
        together
            advance b1 1 ~ j3 j2 before=j2   -> running done=2
            advance b1 1 ~ j3 j2 before=j2   -> running done=2 failed=0
        advance b1 1 ~ j3 j2 before=j2  -> running done=2 failed=0
        account ana                     -> balance=6
    """)


def test_whoever_was_taken_for_dead_changes_nothing_more() -> None:
    play(f"""
        {DEAD}
        begin-bulk b1 requeue total=3
        hold-bulk b1 hold=30s           -> running hold=1
        hold-bulk b1                    -> nothing
        advance b1 1 ~ j3 before=j3     -> running done=1
        +29999ms
        hold-bulk b1                    -> nothing
        +1ms
        hold-bulk b1                    -> running hold=2
        advance b1 1 j3 j2 before=j2    -> nothing
        job j2                          -> failed dead=yes
        advance b1 2 j3 j2 j1           -> done done=3
        advance b1 2 j3 j2 j1           -> nothing
        hold-bulk b1                    -> nothing
        account ana                     -> balance=4
    """)


def test_a_bulk_act_that_is_stopped_does_nothing_more() -> None:
    play(f"""
        {DEAD}
        begin-bulk b1 discard total=3
        hold-bulk b1
        advance b1 1 ~ j3 before=j3     -> running done=1
        as boss stop-bulk b1            -> stopped changed=yes
        advance b1 1 j3 j2              -> nothing
        bulk b1                         -> stopped done=1 ended_at=10:01
        as boss stop-bulk b1            -> stopped changed=no
        stop-bulk none                  -> NOT_FOUND
        +1h
        hold-bulk b1                    -> nothing
        audited 2                       -> act=discard done=1
    """)


def test_what_changes_nothing_is_told_as_failed() -> None:
    play(f"""
        {DEAD}
        submit ana q1 cost=1
        begin-bulk b1 cancel total=2
        hold-bulk b1
        advance b1 1 ~ q1 j1            -> done done=1 failed=1
        job q1                          -> cancelled error="as a test"
        bulk b1                         -> failures="j1 INVALID_STATE" says="it had ended already"
        begin-bulk b2 refund total=2
        hold-bulk b2
        advance b2 1 ~ q1               -> done failed=1
        bulk b2                         -> says="nothing was left to give back"
        begin-bulk b3 discard total=2
        hold-bulk b3
        advance b3 1 ~ q1 j1            -> done done=1 failed=1
    """)


def test_jobs_that_came_later_are_left_alone() -> None:
    play(f"""
        {DEAD}
        begin-bulk b1 cancel total=1
        hold-bulk b1
        +1us
        submit ana q1 cost=1
        advance b1 1 ~ q1 missing       -> done done=0 failed=0
        job q1                          -> queued
    """)


def test_a_job_that_breaks_its_transaction_is_passed_over() -> None:
    play(f"""
        {DEAD}
        begin-bulk b1 requeue total=2
        hold-bulk b1
        advance b1 1 ~ broken=j3 before=j3 -> running failed=1
        advance b1 1 j3 j2              -> done done=1 failed=1
        bulk b1                         -> failures="j3 INTERNAL" says="by hand"
    """)


def test_a_bulk_act_has_a_limit_and_an_id_of_its_own() -> None:
    play("""
        policy bulk_jobs=2
        begin-bulk b1 cancel total=3    -> TOO_LARGE limit=2 says="Limits.bulk_jobs"
        begin-bulk b1 cancel total=2    -> running
        begin-bulk b1 cancel total=2    -> INVALID_STATE
    """)


def test_the_first_hundred_failures_are_kept_and_all_are_counted() -> None:
    jobs = " ".join(f"j{number}" for number in range(1, 111))
    world = play(f"""
        plan free
        open ana free credits=200
        submit-each ana j1..j110 cost=0
        begin-bulk b1 requeue total=110
        hold-bulk b1
        advance b1 1 ~ {jobs}           -> done done=0 failed=110
    """)
    kept = world.state.of(BulkAct)["b1"].failures
    assert [failure.job_id for failure in kept] == [f"j{number}" for number in range(1, 101)]


DONE = """
        clock 10:00
        plan free
        open ana free credits=20
        open bob free credits=20
        submit ana j1 cost=2
        submit bob j2 cost=7
        submit ana j3 cost=0
        submit bob j4 cost=8
        claim gpu w1 limit=9
        finish j1 e1 completed
        finish j2 e1 completed
        finish j3 e1 completed
        finish j4 e1 completed delivered=1 of=4
"""


def test_a_bulk_refund_of_an_amount_gives_each_job_at_most_what_it_cost() -> None:
    play(f"""
        {DONE}
        as boss begin-bulk b1 refund total=4 cost=17 amount=3 -> running
        hold-bulk b1                    -> running hold=1
        advance b1 1 ~ j4 j3 before=j3  -> running done=0 failed=2
        advance b1 1 j3 j2 j1           -> done done=2 failed=2
        bulk b1                         -> failures="j4 INVALID_STATE, j3 INVALID_STATE" amount=3
        ledger ana                      -> grant 20, charge -2, refund 2
        account bob                     -> balance=14
        audited 1                       -> act=refund amount=3 total=4
        audited 2                       -> amount=3 refunded=3 bulk_act=b1
        audited 3                       -> amount=2 refunded=2
    """)


def test_a_bulk_refund_of_a_share_is_rounded_up_for_each_job_and_done_once_wherever_it_breaks_off() -> None:
    play(f"""
        {DONE}
        begin-bulk b1 refund total=2 share=0.5 -> running
        hold-bulk b1 hold=30s           -> running hold=1
        together
            advance b1 1 ~ j2 before=j2 -> running done=1
            advance b1 1 ~ j2 before=j2 -> running done=1
        +30s
        hold-bulk b1                    -> running hold=2
        advance b1 1 j2 j1              -> nothing
        advance b1 2 j2 j2 j1           -> done done=2 failed=1
        bulk b1                         -> says="so much was given back before"
        ledger bob                      -> grant 20, charge -7, charge -8, refund 6, refund 4
        ledger ana                      -> grant 20, charge -2, refund 1
        begin-bulk b2 refund total=2
        hold-bulk b2
        advance b2 1 ~ j2 j1            -> done done=0 failed=2
        bulk b2                         -> says="Give the other 3 back with adjust"
    """)


def test_what_earlier_releases_look_for_never_finds_a_refund_of_a_part() -> None:
    """They would refund all of each job."""
    world = play(f"""
        {DONE}
        begin-bulk b1 refund total=2 share=0.5
        hold-bulk b1
        advance b1 1 ~ j2 before=j2
        begin-bulk b2 refund total=2
    """)
    parts, whole = (world.state.of(BulkAct)[name] for name in ("b1", "b2"))
    assert (parts.due_at, whole.due_at) == (NEVER, world.now)
    assert parts.part_due_at == world.now + 30_000_000
