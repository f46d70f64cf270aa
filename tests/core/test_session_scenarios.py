"""Sessions of pages: what is still queued of a visit that is over is cancelled and refunded, once."""

import pytest

from tests.core.scenarios import play

BEGUN = """
        clock 10:00
        plan free max_running=2
        open ana free credits=10
        submit-each ana j1..j3 cost=2 session=s1
        submit ana other cost=1 session=s2
"""


@pytest.mark.req("A14")
def test_a_session_that_is_left_ends_after_the_grace_and_not_before() -> None:
    play(f"""
        {BEGUN}
        leave ana s1                    -> left until=10:01
        +59999999us
        end-session ana s1 j1 j2 j3     -> unchanged cancelled=0
        +1us
        end-session ana s1 j1 j2 j3     -> ended cancelled=3
        job j1                          -> cancelled refunded=2 error="the page was left"
        job other                       -> queued place=ready
        sessions ana                    -> none
        end-session ana s1 j1 j2 j3     -> unchanged cancelled=0
        ledger ana  -> grant 10, charge -2, charge -2, charge -2, charge -1, refund 2, refund 2, refund 2
        account ana                     -> balance=9 active=1
    """)


@pytest.mark.req("A14")
def test_a_session_that_said_it_is_open_ends_when_it_is_silent() -> None:
    play(f"""
        {BEGUN}
        stay ana s1                     -> open until=10:10
        +5m
        stay ana s1                     -> open until=10:15
        +599999999us
        end-session ana s1 j1 j2 j3     -> unchanged
        +1us
        end-session ana s1 j1 j2 j3     -> ended cancelled=3
        job j3                          -> cancelled error="the page was silent for too long"
        account ana                     -> balance=9
    """)


@pytest.mark.req("A14")
def test_both_times_are_settings() -> None:
    play(f"""
        {BEGUN}
        policy leave_grace_ms=5s silent_session_ms=20s
        leave ana s1                    -> left until=+5s
        stay ana s2                     -> open until=+20s
        sessions ana                    -> s1 s2 next=+5s
    """)


@pytest.mark.req("A14")
def test_only_queued_jobs_are_cancelled_never_running_ones() -> None:
    play(f"""
        {BEGUN}
        claim gpu w1                    -> j1 epoch=1
        claim gpu w1                    -> j2
        start j2 e1
        finish j2 e1 accepted ref=r1
        leave ana s1
        +1m
        end-session ana s1 j1 j2 j3     -> ended cancelled=1
        job j1                          -> starting refunded=0
        job j2                          -> running refunded=0
        job j3                          -> cancelled
        finish j1 e1 completed          -> completed refunded=0
    """)


@pytest.mark.req("A14")
def test_staying_revokes_that_the_page_was_left() -> None:
    play(f"""
        {BEGUN}
        leave ana s1                    -> left until=10:01
        +59s
        stay ana s1                     -> open until=+10m
        +1s
        end-session ana s1 j1 j2 j3     -> unchanged
        job j1                          -> queued
    """)


@pytest.mark.req("A14")
def test_a_submit_of_the_session_revokes_it_too_and_so_does_a_repeated_one() -> None:
    play(f"""
        {BEGUN}
        submit ana k cost=1 session=s1 key=once
        leave ana s1                    -> left until=10:01
        +59s
        submit ana more cost=1 session=s1
        sessions ana                    -> s1 next=+10m
        leave ana s1                    -> left until=+60s
        +59s
        submit ana again cost=1 session=s1 key=once -> queued repeat=yes job=k
        sessions ana                    -> s1 next=+10m
        leave ana s1
        submit ana lone cost=1          -> queued
        submit ana late cost=0 session=s2
        submit ana dear cost=99 session=s1 -> INSUFFICIENT_CREDITS
        sessions ana                    -> s1 next=+60s
    """)


@pytest.mark.req("A14")
def test_a_request_about_one_of_its_jobs_revokes_it_too() -> None:
    play(f"""
        {BEGUN}
        hear ana s1                     -> unknown
        sessions ana                    -> none
        leave ana s1                    -> left until=10:01
        +59s
        hear ana s2                     -> unknown
        hear nobody s1                  -> unknown
        hear ana s1                     -> open
        sessions ana                    -> s1 next=+10m
    """)


@pytest.mark.req("A14")
def test_leaving_again_does_not_put_the_end_off() -> None:
    play(f"""
        {BEGUN}
        leave ana s1                    -> left until=10:01 changed=yes
        +30s
        leave ana s1                    -> left until=10:01 changed=no
    """)


@pytest.mark.req("A14")
def test_a_session_that_said_nothing_is_never_ended() -> None:
    play(f"""
        {BEGUN}
        +30d
        end-session ana s1 j1 j2 j3     -> unchanged
        sessions ana                    -> none
        submit ana more cost=1 session=s1
        sessions ana                    -> none
        job j1                          -> queued
    """)


@pytest.mark.req("A14")
def test_the_end_touches_no_job_of_another_session_or_account() -> None:
    play(f"""
        {BEGUN}
        open bob free credits=10
        submit bob theirs cost=1 session=s1
        leave ana s1
        +1m
        end-session ana s1 j1 other theirs missing -> ended cancelled=1
        job other                       -> queued
        job theirs                      -> queued
        job j2                          -> queued
    """)


@pytest.mark.req("A14")
def test_a_session_with_more_jobs_ends_with_the_last_of_them() -> None:
    play(f"""
        {BEGUN}
        leave ana s1
        +1m
        end-session ana s1 j1 more=yes  -> ended cancelled=1
        sessions ana                    -> s1
        together
            stay ana s1                 -> open
            end-session ana s1 j2       -> unchanged
        job j2                          -> queued
        leave ana s1
        +1m
        together
            end-session ana s1 j2 j3    -> ended cancelled=2
            end-session ana s1 j2 j3    -> unchanged
        account ana                     -> balance=9 active=1
    """)


@pytest.mark.req("A14")
def test_an_account_has_so_many_sessions_open_at_most() -> None:
    play(f"""
        {BEGUN}
        policy open_sessions=2
        stay ana s1
        leave ana s2
        stay ana s3                     -> QUOTA_EXCEEDED limit=2 used=2
        leave ana s4                    -> QUOTA_EXCEEDED says="Limits.open_sessions"
        stay ana s1                     -> open
        +1m
        end-session ana s2 other        -> ended cancelled=1
        stay ana s3                     -> open
        stay nobody s1                  -> NOT_FOUND
    """)
