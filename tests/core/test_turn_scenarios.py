"""Turns: requests to a provider keep its rate and its number at once, and its circuit breaker opens and closes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.core import commands as c
from ficha.core.outcomes import Refusal, TurnTaken
from ficha.core.policy import SECOND, TurnTerms
from ficha.core.turns import spacing_us
from tests.core.scenarios import play
from tests.core.world import World


def test_turns_are_spaced_and_reserved_one_after_the_other() -> None:
    play("""
        turns interval_us=1s longest_wait_ms=2s
        turn fal t1      -> taken wait=0ms
        turn fal t2      -> taken wait=1000ms
        turn fal t3      -> taken wait=2000ms
        turn fal t4      -> RATE_LIMITED retry_after=3.0 retryable=yes wait_ms=3000 provider=fal
        +1s
        turn fal t4      -> taken wait=2000ms
        turn own t5      -> taken wait=0ms
        +1h
        turn fal t6      -> taken wait=0ms
        turn fal t7      -> taken wait=1000ms
    """)


def test_a_burst_runs_ahead_of_the_schedule() -> None:
    play("""
        turns interval_us=1s burst=3
        turn fal t1      -> taken wait=0ms
        turn fal t2      -> taken wait=0ms
        turn fal t3      -> taken wait=0ms
        turn fal t4      -> taken wait=1000ms
        +10s
        turn fal t5      -> taken wait=0ms
    """)


def test_no_more_requests_are_out_at_once_than_may_be() -> None:
    play("""
        turns at_once=2 hold_ms=60s
        turn fal t1                -> taken
        turn fal t2                -> taken
        turn fal t3                -> RATE_LIMITED retry_after=1.0 at_once=2
        end-turn fal t1 worked     -> closed
        turn fal t3                -> taken
        provider fal               -> closed turns=t2,t3
    """)


def test_a_turn_whose_holder_died_is_free_after_its_time() -> None:
    play("""
        turns at_once=1 hold_ms=60s interval_us=10s
        turn fal t1                -> taken wait=0ms
        +59s
        turn fal t2                -> RATE_LIMITED
        +1s
        turn fal t2                -> taken wait=0ms
        turn fal t3 at_once=2      -> taken wait=10000ms
        +69s
        turn fal t4 at_once=2      -> taken
        end-turn fal t1 worked     -> closed
        provider fal               -> closed turns=t3,t4
    """)


def test_a_clock_that_was_set_back_does_not_keep_everybody_waiting() -> None:
    play("""
        turns at_once=1 interval_us=1s burst=2
        turn fal t1                -> taken wait=0ms
        -3h
        turn fal t2                -> taken wait=1000ms
        turn fal t3                -> RATE_LIMITED at_once=1
    """)


def test_the_breaker_opens_after_failures_in_a_row_and_closes_by_a_probe() -> None:
    world = play("""
        turns failures=3 open_ms=30s
        end-turn fal t1 failed                 -> closed
        end-turn fal t2 failed                 -> closed
        end-turn fal t3 worked                 -> closed
        end-turn fal t4 failed                 -> closed
        end-turn fal t5 failed                 -> closed
        provider fal                           -> closed failures=2
        end-turn fal t6 failed error=502       -> open
        provider fal                           -> open until=+30s trips=1 error=502 failures=0
        turn fal t7                            -> PROVIDER_DOWN retry_after=30 retryable=yes provider=fal
        +29s
        turn fal t7                            -> PROVIDER_DOWN retry_after=1
        +1s
        turn fal t7                            -> probe wait=0ms
        turn fal t8                            -> PROVIDER_DOWN retry_after=60
        end-turn fal t0 worked                 -> open
        end-turn fal t0 failed                 -> open
        provider fal                           -> open probe=t7 trips=1
        end-turn fal t7 worked                 -> closed
        provider fal                           -> closed failures=0
        turn fal t8                            -> taken
        audit                                  -> system open_breaker provider fal, system close_breaker provider fal
        audited 1                              -> open_s=30.0 trips=1 error=502
        audited 2                              -> open_s=30.0
    """)
    assert world.changes == type(world.changes)()


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_bound() -> None:
    play("""
        turns failures=1 open_ms=10s open_max_ms=30s
        end-turn fal t1 failed         -> open
        +10s
        turn fal t2                    -> probe
        end-turn fal t2 failed         -> open
        provider fal                   -> open until=+20s trips=2 since=00:00
        +20s
        turn fal t3                    -> probe
        end-turn fal t3 failed         -> open
        provider fal                   -> open until=+30s trips=3
        +30s
        turn fal t4                    -> probe
        end-turn fal t4 worked         -> closed
        end-turn fal t5 failed         -> open
        provider fal                   -> open until=+10s trips=1
    """)


def test_a_probe_whose_caller_dies_or_knows_nothing_is_followed_by_another() -> None:
    play("""
        turns failures=1 open_ms=10s hold_ms=60s
        end-turn fal t1 failed         -> open
        +10s
        turn fal t2                    -> probe
        +59s
        turn fal t3                    -> PROVIDER_DOWN retry_after=1
        +1s
        turn fal t3                    -> probe
        end-turn fal t2 worked         -> open
        end-turn fal t3 unknown        -> open
        turn fal t4                    -> probe
        end-turn fal t4 worked         -> closed
    """)


def test_a_probe_keeps_the_rate_and_the_number_at_once_too() -> None:
    play("""
        turns failures=1 open_ms=10s at_once=1 interval_us=60s longest_wait_ms=90s
        turn fal t0                    -> taken
        end-turn fal t1 failed         -> open
        +10s
        turn fal t2                    -> RATE_LIMITED
        provider fal                   -> open probe=none
        end-turn fal t0 worked         -> open
        turn fal t2                    -> probe wait=50000ms
        provider fal                   -> open until=+110s probe=t2
    """)


def test_a_word_of_a_cancelled_caller_counts_neither_way() -> None:
    play("""
        turns failures=2
        end-turn fal t1 failed         -> closed
        end-turn fal t2 unknown        -> closed
        provider fal                   -> closed failures=1
        end-turn fal t3 failed         -> open
    """)


def test_a_breaker_can_be_switched_off() -> None:
    play("""
        turns failures=0
        end-turn fal t1 failed         -> closed
        end-turn fal t2 failed         -> closed
        turn fal t3                    -> taken
    """)


def test_an_operator_opens_and_closes_a_breaker() -> None:
    play("""
        turns failures=2 open_ms=10s
        as boss open-breaker fal ttl=1h                -> NOT_FOUND
        as boss close-breaker fal                      -> NOT_FOUND
        as boss open-breaker fal ttl=0s declared=yes   -> INVALID_ARGUMENT
        as boss open-breaker fal ttl=31d declared=yes  -> INVALID_ARGUMENT
        as boss open-breaker fal ttl=1h declared=yes reason=maintenance -> open until=+1h
        turn fal t1                                    -> PROVIDER_DOWN retry_after=3600
        as boss close-breaker fal                      -> closed changed=yes
        turn fal t1                                    -> taken
        end-turn fal t1 failed                         -> closed
        as boss close-breaker fal                      -> closed changed=no
        provider fal                                   -> closed failures=0
        end-turn fal t2 failed                         -> closed
        end-turn fal t3 failed                         -> open
        as boss open-breaker fal ttl=1h                -> open until=+1h
        provider fal                                   -> open trips=1 since=+0s
        audited 1                                      -> open_s=3600.0 reason=maintenance
        audited 3                                      -> changed=no
    """)


def test_without_limits_a_turn_that_works_writes_nothing() -> None:
    world = World()
    world.one(c.TakeTurn("fal", "t1"))
    assert not world.changes
    world.one(c.EndTurn("fal", "t1"))
    assert not world.changes


@pytest.mark.parametrize(
    ("requests", "period_s", "burst", "slack_s", "expected_us"),
    [(60, 60, 1, 0, 1_000_000), (60, 60, 1, 1, 1_016_667), (60, 60, 60, 0, 60_000_000), (1, 1, 1, 0.25, 1_250_000)],
)
def test_the_spacing_of_a_rate(requests: int, period_s: int, burst: int, slack_s: float, expected_us: int) -> None:
    assert spacing_us(requests, period_s * SECOND, burst, round(slack_s * SECOND)) == expected_us


@given(
    requests=st.integers(1, 12),
    burst=st.integers(1, 12),
    pauses_ms=st.lists(st.integers(0, 400), min_size=1, max_size=60),
    late_ms=st.lists(st.integers(0, 100), min_size=60, max_size=60),
)
def test_no_period_ever_has_more_requests_than_the_rate(
    requests: int, burst: int, pauses_ms: list[int], late_ms: list[int]
) -> None:
    """Callers come whenever they like, and send up to the slack later than planned."""
    burst, period_us, slack_us = min(burst, requests), SECOND, SECOND // 10
    terms = TurnTerms(spacing_us(requests, period_us, burst, slack_us), burst, longest_wait_ms=3_000)
    world = World()
    sent: list[int] = []
    for pause_ms, late in zip(pauses_ms, late_ms, strict=False):
        world.now += pause_ms * 1_000
        outcome = world.one(c.TakeTurn("fal", f"t{len(sent)}", terms))
        if isinstance(outcome, Refusal):
            assert outcome.code == "RATE_LIMITED"
        else:
            assert isinstance(outcome, TurnTaken)
            sent.append(world.now + outcome.wait_ms * 1_000 + late * 1_000)
    sent.sort()
    for start in sent:
        assert sum(start <= at < start + period_us for at in sent) <= requests


SHOP = """
        plan free
        open ana free credits=10
        turns failures=1 open_ms=30s
        end-turn fal t1 failed
"""


def test_a_submit_is_refused_while_its_provider_is_down_and_nothing_is_charged() -> None:
    play(
        SHOP
        + """
        submit ana j1 provider=fal                     -> PROVIDER_DOWN retry_after=30 provider=fal
        submit ana j1..j3 provider=fal batch=b1        -> PROVIDER_DOWN
        account ana                                    -> balance=10 active=0 submitted=0
        submit ana j1                                  -> queued balance=9
        submit ana j2 provider=own                     -> queued balance=8
        +30s
        submit ana j3 provider=fal                     -> queued balance=7
        turn fal t2                                    -> probe
        submit ana j4 provider=fal                     -> PROVIDER_DOWN retry_after=60
        end-turn fal t2 worked                         -> closed
        submit ana j4 provider=fal                     -> queued balance=6
    """
    )


def test_a_repeat_is_answered_although_the_provider_is_down() -> None:
    play("""
        plan free
        open ana free credits=10
        turns failures=1
        submit ana j1 provider=fal key=k1              -> queued balance=9
        end-turn fal t1 failed                         -> open
        submit ana j2 provider=fal key=k1              -> queued job=j1 repeat=yes balance=9
        submit ana j2 provider=fal key=k1 body=other   -> IDEMPOTENCY_MISMATCH
        submit ana j2 provider=fal key=k2              -> PROVIDER_DOWN
    """)


def test_a_job_that_needs_no_provider_now_is_accepted() -> None:
    """An earlier result answers it, or it runs when the outage may be over."""
    play("""
        plan free
        open ana free credits=10
        turns failures=1 open_ms=30s
        submit ana j1 provider=fal content=c1          -> queued
        claim gpu w1                                   -> j1
        finish j1 e1 completed                         -> completed
        end-turn fal t1 failed                         -> open
        submit ana j2 provider=fal content=c1          -> completed cost=0
        submit ana j3 provider=fal content=c2          -> PROVIDER_DOWN
        submit ana j3 provider=fal delay=29s           -> PROVIDER_DOWN
        submit ana j3 provider=fal delay=30s           -> queued
    """)


def test_a_user_is_told_of_the_outage_before_being_asked_for_credits() -> None:
    play(
        SHOP
        + """
        submit ana j1 provider=fal cost=50             -> PROVIDER_DOWN
        submit nobody j1 provider=fal                  -> NOT_FOUND
    """
    )


def test_a_dead_letter_of_a_provider_that_is_down_is_run_again_by_an_operator_only() -> None:
    play("""
        plan free
        open ana free credits=10
        turns failures=1
        submit ana j1                                  -> queued
        claim gpu w1                                   -> j1
        finish j1 e1 failed                            -> failed
        end-turn fal t1 failed                         -> open
        resubmit ana j1 as=j2 tool=upscale provider=fal -> PROVIDER_DOWN
        account ana                                    -> balance=10
        requeue j1 as=j2                               -> queued balance=9
    """)
