"""How a run ends: finished once, failed and tried again, asked for later, or handed to an external provider."""

import pytest

from ficha.core import commands as c
from tests.core.scenarios import play

HELD = """
        clock 10:00
        plan free
        open ana free credits=99
        submit ana j1 cost=5 attempts=3 backoff=10s
        claim gpu w1                               -> j1 epoch=1
"""

# Finishing


@pytest.mark.req("A5")
@pytest.mark.parametrize("first", ["completed", "failed final=yes", "cancelled"])
@pytest.mark.parametrize("second", ["completed", "failed", "failed final=yes", "retry", "cancelled", "accepted"])
def test_a_second_or_third_finish_changes_nothing_and_says_so(first: str, second: str) -> None:
    status = first.split()[0]
    play(f"""
        {HELD}
        finish j1 e1 {first}                       -> {status}
        finish j1 e1 {second}                      -> unchanged status={status}
        webhook j1 {second}                        -> unchanged status={status}
        job j1                                     -> {status} finished_at=10:00
    """)


@pytest.mark.req("A5")
def test_the_first_word_that_comes_too_late_is_kept_as_an_event_and_others_are_counted() -> None:
    play(f"""
        {HELD}
        cancel j1                                  -> cancelled
        finish j1 e1 completed result='"a cat"'    -> unchanged status=cancelled
        event j1 late                              -> ending=Completed result='"a cat"'
        finish j1 e1 failed error="no luck"        -> unchanged
        finish j1 e7 retry                         -> LEASE_LOST
        event j1 late                              -> ending=Completed
        events j1                                  -> submitted claimed cancelled late
        job j1                                     -> cancelled result=none refunded=5 late_finishes=3
    """)


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (c.Completed('"1234567890"'), {"result": '"1234567890"'}),
        (c.Completed('"12345678901"'), {"result": '"12345678…'}),
        (c.Failed("é" * 6), {"error": "é" * 6}),
        (c.Failed("é" * 7), {"error": "é" * 4 + "…"}),
        (c.Failed("123456", traceback="1234567"), {"error": "123456", "traceback": "123…"}),
        (c.Failed("12345", for_user=True, traceback="1"), {"error": "1…", "user_error": "1…", "traceback": "1"}),
        (c.RetryLater(1, "x" * 99), {}),
    ],
)
def test_what_is_kept_of_a_late_word_is_cut_to_its_limit(said: c.Ending, kept: dict[str, str]) -> None:
    world = play(f"""
        policy late_bytes=12
        {HELD}
    """)
    world.run(c.Finish("j1", said, epoch=7))
    [event] = [event for event in world.state.events if event.kind == "late"]
    assert event.data == {"ending": type(said).__name__, **kept}
    assert sum(len(text.encode()) for text in kept.values()) <= 12


@pytest.mark.req("A5", "A7")
def test_a_finish_straight_from_starting_passes_through_running() -> None:
    play(f"""
        {HELD}
        finish j1 e1 completed                     -> completed
        events j1                                  -> submitted claimed started completed
    """)


@pytest.mark.req("A7")
def test_a_handler_can_cancel_its_own_job() -> None:
    play(f"""
        {HELD}
        finish j1 e1 cancelled reason="face found" -> cancelled refunded=5 balance=99
        job j1                                     -> cancelled error="face found"
        events j1                                  -> submitted claimed cancelled
    """)


# Retries


@pytest.mark.req("B6")
def test_a_failed_run_is_tried_again_with_a_doubling_pause_until_its_attempts_are_used_up() -> None:
    play(f"""
        {HELD}
        finish j1 e1 failed error="first"          -> queued refunded=0 due=10:00:10
        job j1                                     -> queued place=parked attempts=1 due_at=10:00:10
        event j1 retried                           -> error=first attempts=1
        recover j1                                 -> nothing
        +10s
        recover j1                                 -> promoted
        claim gpu w2                               -> j1 epoch=2
        finish j1 e2 failed error="second"         -> queued due=10:00:30
        +20s
        recover j1                                 -> promoted
        claim gpu w3                               -> j1 epoch=3
        finish j1 e3 failed error="third"          -> failed refunded=5 balance=99
        job j1                                     -> failed attempts=3 error=third dead=yes
        event j1 failed                            -> error=third refunded=5 dead=yes
        ledger ana                                 -> grant 99, charge -5, refund 5
    """)


@pytest.mark.req("B6")
@pytest.mark.parametrize(
    ("jitter", "due"),
    [("0", "10:00:10"), ("0.5", "10:00:07.5"), ("0.999999", "10:00:05.001")],
)
def test_jitter_spreads_the_pause_over_its_upper_half(jitter: str, due: str) -> None:
    play(f"""
        {HELD}
        finish j1 e1 failed jitter={jitter}        -> queued due={due}
    """)


@pytest.mark.req("B6")
def test_the_pause_does_not_grow_beyond_its_longest() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 attempts=99 backoff=10s backoff_max=15s
        claim gpu w1                               -> j1
        finish j1 e1 failed                        -> queued due=+10s
        +10s
        recover j1
        claim gpu w1                               -> j1
        finish j1 e2 failed                        -> queued due=+15s
        +15s
        recover j1
        claim gpu w1                               -> j1
        finish j1 e3 failed                        -> queued due=+15s
    """)


@pytest.mark.req("B6")
def test_a_retried_job_keeps_its_place_in_the_order() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 attempts=2 backoff=1s
        +1s
        submit ana j2
        claim gpu w1                               -> j1
        finish j1 e1 failed                        -> queued
        +1s
        recover j1                                 -> promoted
        queue gpu                                  -> j1, j2
    """)


@pytest.mark.req("A4")
def test_a_final_error_is_not_tried_again_whatever_attempts_are_left() -> None:
    play(f"""
        {HELD}
        finish j1 e1 failed final=yes error="NSFW content detected"    -> failed refunded=5
        job j1                                     -> failed error="NSFW content detected" attempts=1 dead=no
        requeue j1 as=j2                           -> INVALID_STATE status=failed says="not in the dead-letter list"
    """)


@pytest.mark.req("B6")
def test_a_handler_may_ask_to_be_run_later_as_often_as_it_likes_within_a_day() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 attempts=1
        claim gpu w1                               -> j1
        finish j1 e1 retry after=6h reason="quota of the provider"     -> queued refunded=0 due=16:00
        job j1                                     -> queued place=parked attempts=0
        event j1 retried                           -> error="quota of the provider" attempts=0
        clock 16:00
        recover j1                                 -> promoted
        claim gpu w1                               -> j1 epoch=2
        finish j1 e2 retry after=17h               -> queued
        +17h
        recover j1                                 -> promoted
        claim gpu w1                               -> j1 epoch=3
        finish j1 e3 retry after=3600s             -> failed refunded=1
        job j1  -> failed attempts=0 dead=yes error="asked to be retried later than 24 hours after its first start"
    """)


@pytest.mark.req("B6")
def test_a_retry_that_would_begin_too_late_ends_the_job_at_once() -> None:
    """It would be ended when it begins."""
    play("""
        plan free
        policy max_age_ms=1h
        open ana free credits=9
        submit ana j1
        submit ana j2
        submit ana j3 attempts=3 backoff=2h backoff_max=2h
        claim gpu w1 limit=3                       -> j1, j2, j3
        finish j1 e1 retry after=72h               -> failed refunded=1
        finish j2 e1 retry after=3599s             -> queued
        finish j3 e1 failed error=boom             -> failed refunded=1
        job j3                                     -> failed error=boom dead=yes attempts=1
    """)


def test_a_pause_of_nothing_or_less_is_one_millisecond() -> None:
    play(f"""
        {HELD}
        finish j1 e1 retry after=-5s               -> queued due=+1ms
        +1ms
        recover j1                                 -> promoted
        claim gpu w1                               -> j1
        finish j1 e2 retry after=0s                -> queued due=+1ms
    """)


# External providers


@pytest.mark.req("A5", "A12")
def test_a_job_with_a_provider_holds_no_worker_and_is_ended_by_the_call_back() -> None:
    play(f"""
        {HELD}
        finish j1 e1 accepted ref=xyz              -> running refunded=0
        job j1                                     -> running place=awaiting ref=xyz since_at=10:00 deadline_at=10:10
        events j1                                  -> submitted claimed accepted
        beat j1 e1                                 -> LEASE_LOST
        finish j1 e1 accepted ref=other            -> unchanged status=running
        job j1                                     -> running ref=xyz
        +2m                                        # longer than a lease
        recover j1                                 -> nothing
        webhook j1 completed result='"a cat"'      -> completed
        webhook j1 failed                          -> unchanged status=completed
        webhook j1 completed                       -> unchanged status=completed
        job j1                                     -> completed result='"a cat"' refunded=0
    """)


@pytest.mark.req("A5")
def test_a_call_back_that_is_faster_than_the_worker_wins() -> None:
    play(f"""
        {HELD}
        webhook j1 completed                       -> completed
        finish j1 e1 accepted                      -> unchanged status=completed
        event j1 late                              -> ending=AcceptedByProvider
    """)


@pytest.mark.req("A4", "B6")
def test_a_provider_that_fails_is_asked_again_while_attempts_are_left() -> None:
    play(f"""
        {HELD}
        finish j1 e1 accepted ref=one              -> running
        webhook j1 failed error="overloaded"       -> queued due=10:00:10
        +10s
        recover j1                                 -> promoted
        claim gpu w1                               -> j1 epoch=2
        finish j1 e2 accepted ref=two              -> running
        finish j1 e1 failed error="the first, once more"     -> LEASE_LOST     # a call-back that knows its epoch
        finish j1 e2 failed error="NSFW" final=yes -> failed refunded=5
    """)
