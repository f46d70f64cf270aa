"""Quota: reservations, and what an account's own concurrency lets run."""

import pytest

from ficha.core.commands import CancelJob
from tests.core.scenarios import play

# Reservations


@pytest.mark.req("C2")
def test_a_reservation_that_ended_is_deleted_some_time_after_its_time_was_over() -> None:
    play("""
        clock 10:00
        plan free max_active=2
        policy reservations_kept_ms=1h
        open ana free credits=9
        reserve ana r1 ttl=60s                     -> active
        release r1                                 -> released
        reserve ana r2 ttl=60s                     -> active
        submit ana j1 reservation=r2
        clock 11:00:59.999999
        expire r1                                  -> kept
        release r1                                 -> released changed=no
        clock 11:01
        expire r1                                  -> cleared
        expire r2                                  -> cleared
        reservation r1                             -> unknown
        expire r1                                  -> kept
        consume r2                                 -> NOT_FOUND
        account ana                                -> reserved=0 active=1
        job j1                                     -> queued
    """)


@pytest.mark.req("C2")
def test_a_reservation_counts_together_with_active_jobs() -> None:
    play("""
        plan team max_active=3
        open ana team credits=9
        submit ana j1
        reserve ana r1                             -> active warns=none
        reserve ana r2                             -> active warns="3 of 3 active jobs"
        reserve ana r3                             -> QUOTA_EXCEEDED limit=3 active=1 reserved=2
        submit ana j2                              -> QUOTA_EXCEEDED limit=3 active=1 reserved=2
        submit ana j2 reservation=r1               -> queued
        submit ana j3,j4 batch=b1 reservation=r2   -> QUOTA_EXCEEDED active=2 reserved=1   # it holds a slot for one
        submit ana j3 reservation=r2               -> queued
        submit ana j4                              -> QUOTA_EXCEEDED active=3 reserved=0
    """)


@pytest.mark.req("C2")
def test_two_requests_that_race_for_the_last_slot_get_it_once() -> None:
    play("""
        plan free max_active=2
        open ana free credits=9
        submit ana j1
        together
            reserve ana r1                         -> active
            reserve ana r2                         -> QUOTA_EXCEEDED
            submit ana j2                          -> QUOTA_EXCEEDED
        release r1                                 -> released
        together
            submit ana j2                          -> queued
            submit ana j3                          -> QUOTA_EXCEEDED
            reserve ana r3                         -> QUOTA_EXCEEDED
    """)


@pytest.mark.req("C2")
def test_a_reservation_is_refused_for_nobody_and_for_a_plan_that_is_gone() -> None:
    play("""
        plan free
        reserve ana r1                             -> NOT_FOUND says="no account 'ana'"
        open ana free
        no-plan free
        reserve ana r1                             -> NOT_FOUND says="no plan 'free'"
        reservation r1                             -> unknown
    """)


@pytest.mark.req("C2")
def test_a_reservation_expires_after_five_minutes_whether_it_was_swept_or_not() -> None:
    play("""
        clock 10:00
        plan free max_active=1
        open ana free credits=9
        reserve ana r1                             -> active until=10:05
        +5m
        -1us
        submit ana j1                              -> QUOTA_EXCEEDED reserved=1
        expire r1                                  -> kept
        +1us
        submit ana j1 reservation=r1               -> INVALID_STATE state=expired says="Make a new reservation"
        consume r1                                 -> INVALID_STATE state=expired
        release r1                                 -> INVALID_STATE state=expired
        reserve ana r2                             -> active      # the slot is free, though nothing was swept
        reservation r1                             -> active      # as stored
        expire r1                                  -> cleared
        reservation r1                             -> expired
        expire r1                                  -> kept
        consume r1                                 -> INVALID_STATE state=expired
    """)


@pytest.mark.req("C2")
def test_a_reservation_can_say_how_long_it_holds() -> None:
    play("""
        clock 10:00
        plan free max_active=1
        policy reservation_ttl_ms=60s
        open ana free credits=9
        reserve ana r1 ttl=10s                     -> active until=10:00:10
        +10s
        reserve ana r2                             -> active until=10:01:10
        +60s
        submit ana j1                              -> queued
    """)


@pytest.mark.req("C2")
def test_a_reservation_ends_once_consumed_or_released() -> None:
    play("""
        plan free max_active=9
        open ana free credits=9
        reserve ana r1
        reserve ana r2
        reserve ana r3
        consume r1                                 -> consumed changed=yes
        consume r1                                 -> consumed changed=no
        release r1                                 -> INVALID_STATE state=consumed
        submit ana j1 reservation=r1               -> INVALID_STATE state=consumed
        release r2                                 -> released changed=yes
        release r2                                 -> released changed=no
        consume r2                                 -> INVALID_STATE state=released
        submit ana j1 reservation=r2               -> INVALID_STATE state=released
        submit ana j1 reservation=r3               -> queued
        reservation r3                             -> consumed job=j1
        consume r3                                 -> consumed changed=no
        submit ana j2 reservation=r3               -> INVALID_STATE state=consumed
        expire r3                                  -> kept
        +1h
        expire r1                                  -> kept        # what was used does not expire
        reservation r1                             -> consumed
    """)


@pytest.mark.req("C2")
def test_a_reservation_is_seen_only_by_its_account() -> None:
    play("""
        plan free max_active=9
        open ana free credits=9
        open bob free credits=9
        reserve ana r1
        consume r1 by=bob                          -> NOT_FOUND says="no reservation r1"
        release r1 by=bob                          -> NOT_FOUND
        submit bob j1 reservation=r1               -> NOT_FOUND
        consume r9                                 -> NOT_FOUND
        release r9                                 -> NOT_FOUND
        expire r9                                  -> kept
        release r1 by=ana                          -> released
    """)


@pytest.mark.req("C2")
def test_a_refused_submit_does_not_use_up_its_reservation() -> None:
    play("""
        plan free max_active=1
        open ana free credits=3
        reserve ana r1
        submit ana j1 cost=5 reservation=r1        -> INSUFFICIENT_CREDITS
        reservation r1                             -> active
        submit ana j1 cost=3 reservation=r1        -> queued
        release r1                                 -> INVALID_STATE state=consumed
    """)


@pytest.mark.req("C2")
def test_a_reservation_made_released_and_used_in_one_commit_group_counts_as_it_stands() -> None:
    play("""
        plan free max_active=1
        open ana free credits=9
        together
            reserve ana r1                         -> active
            release r1                             -> released
            reserve ana r2                         -> active
            submit ana j1 reservation=r2           -> queued
            submit ana j2                          -> ACTIVE_JOB_EXISTS job=j1
    """)


# Concurrency


@pytest.mark.req("D4")
@pytest.mark.parametrize(("plan", "running"), [("pro", 4), ("growth", 3), ("starter", 2), ("free", 1)])
def test_concurrency_by_plan_parks_the_next_job_and_each_ending_promotes_one(plan: str, running: int) -> None:
    last = running + 2
    play(f"""
        plan {plan} max_running={running}
        open ana {plan} credits=99
        submit-each ana j1..j{last}                -> queued
        account ana                                -> active={last} admitted={running} parked=2
        claim gpu w1 limit=9                       -> {", ".join(f"j{n}" for n in range(1, running + 1))}
        claim gpu w1 limit=9                       -> nothing
        why j{last}                                -> account_limit
        finish j1 e1 completed
        claim gpu w1 limit=9                       -> j{last - 1}
        finish j{last - 1} e1 failed
        claim gpu w1 limit=9                       -> j{last}
        account ana                                -> active={running} admitted={running} parked=0
    """)


@pytest.mark.req("D4")
@pytest.mark.parametrize(
    ("how", "after"),
    [
        ("finish j1 e1 completed", "completed"),
        ("finish j1 e1 failed final=yes", "failed"),
        ("finish j1 e1 failed", "queued"),
        ("finish j1 e1 retry after=10s", "queued"),
        ("finish j1 e1 cancelled", "cancelled"),
        ("cancel j1", "cancelled"),
        ("webhook j1 completed", "completed"),
    ],
)
def test_every_way_of_leaving_makes_room_for_the_next_parked_job(how: str, after: str) -> None:
    play(f"""
        plan free max_running=1
        open ana free credits=99
        submit ana j1 attempts=2
        submit ana j2
        submit ana j3
        claim gpu w1                               -> j1
        {how}                                      -> {after}
        job j2                                     -> queued place=ready
        job j3                                     -> queued place=parked
    """)


@pytest.mark.req("D4")
def test_a_provider_wait_and_a_recovery_make_no_room() -> None:
    play("""
        plan free max_running=1
        open ana free credits=99
        submit-each ana j1..j2
        claim gpu w1                               -> j1
        finish j1 e1 accepted                      -> running
        job j2                                     -> queued place=parked
        webhook j1 completed
        claim gpu w1                               -> j2
        submit ana j3
        +60s
        recover j2                                 -> requeued
        job j2                                     -> queued place=ready
        job j3                                     -> queued place=parked
    """)


@pytest.mark.req("D4")
def test_the_best_parked_job_is_promoted_first() -> None:
    play("""
        plan free max_running=1
        open ana free credits=99
        submit ana j1
        submit ana low priority=5
        +1s
        submit ana late
        submit ana high priority=-5
        cancel j1
        queue gpu                                  -> high
        cancel high
        queue gpu                                  -> late
        cancel late
        queue gpu                                  -> low
    """)


@pytest.mark.req("D4")
def test_a_cancelled_parked_job_leaves_its_place_to_nobody_but_its_own_queue() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        submit-each ana j1..j4 cost=2
        cancel j2                                  -> cancelled refunded=2
        account ana                                -> active=3 admitted=1 parked=2
        together
            cancel j3                              -> cancelled
            cancel j1                              -> cancelled
        job j4                                     -> queued place=ready
    """)


@pytest.mark.req("D4")
def test_a_change_of_plan_promotes_all_that_now_fit() -> None:
    play("""
        plan free max_running=1
        plan pro max_running=4 priority=10
        plan all
        open ana free credits=99
        submit-each ana j1..j9
        change-plan ana gold                       -> NOT_FOUND says="no plan 'gold'"
        change-plan nobody pro                     -> NOT_FOUND says="no account 'nobody'"
        change-plan nobody gold                    -> NOT_FOUND says="no plan 'gold'"
        change-plan ana pro                        -> plan=pro balance=90
        account ana                                -> admitted=4 parked=5
        job j2                                     -> queued place=ready priority=50      # it keeps its priority
        change-plan ana free                       -> plan=free
        account ana                                -> admitted=4 parked=5                 # nothing is taken back
        cancel j1
        account ana                                -> admitted=3 parked=5                 # and nothing new let in
        change-plan ana all
        account ana                                -> admitted=8 parked=0
    """)


@pytest.mark.req("D4")
def test_jobs_parked_in_the_same_commit_group_as_the_change_of_plan_are_promoted_too() -> None:
    play("""
        plan free max_running=1
        plan pro max_running=3
        open ana free credits=99
        together
            submit ana j1                          -> queued
            submit ana j2                          -> queued
            change-plan ana pro                    -> plan=pro
            submit ana j3                          -> queued
            submit ana j4                          -> queued
            cancel j1                              -> cancelled
        account ana                                -> admitted=3 parked=0
    """)


@pytest.mark.req("D4")
def test_a_limit_raised_by_a_deployment_is_caught_up_with_two_for_each_ending() -> None:
    """The application declares a larger plan while jobs are parked; nobody changes the account's plan."""
    world = play("""
        plan free max_running=1
        open ana free credits=99
        submit-each ana j1..j9
        plan free max_running=9
        claim gpu w1                               -> j1
        finish j1 e1 completed
        account ana                                -> admitted=2 parked=6
        cancel j9                                  # itself parked
        submit ana j10                             -> queued
        together
            submit ana j11                         -> queued
            cancel j11                             -> cancelled
    """)
    # Also where the cancelled job is among the few parked ones that were loaded.
    for job_id in [job.id for job in world.state.jobs.values() if job.place is not None]:
        world.run(CancelJob(job_id))
        assert world.faults() == []
    assert world.state.accounts["ana"].active == 0


@pytest.mark.req("D4")
def test_a_plan_that_is_gone_lets_one_job_run_at_a_time() -> None:
    play("""
        plan free max_running=3
        open ana free credits=99
        submit-each ana j1..j5
        no-plan free
        claim gpu w1 limit=9                       -> j1, j2, j3
        finish j1 e1 completed
        finish j2 e1 completed
        account ana                                -> admitted=1 parked=2
        finish j3 e1 completed
        account ana                                -> admitted=1 parked=1
        submit ana j6                              -> NOT_FOUND says="no plan 'free'"
        plan free max_running=3                    # the plan is declared again
        claim gpu w1 limit=9                       -> j4
        finish j4 e1 completed
        submit ana j6                              -> queued
        account ana                                -> admitted=2 parked=0
    """)


def test_a_reservation_that_exists_is_not_taken_over_by_another_of_its_name() -> None:
    play("""
        plan free max_active=2
        open ana free
        open bob free
        reserve ana r1
        reserve bob r1                             -> INVALID_STATE says="exists already"
        release r1                                 -> released
    """)
