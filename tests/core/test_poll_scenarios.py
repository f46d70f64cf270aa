"""A job that an external provider has: when the provider is asked, and what its call-backs lead to."""

import pytest

from ficha.core import commands as c
from ficha.core.policy import TELL_PROVIDER, poll_wait_ms
from ficha.core.records import Awaiting
from tests.core.scenarios import play

STARTING = """
        clock 10:00
        plan free
        policy provider_tools=upscale,video
        open ana free credits=99
        submit ana j1 cost=5 attempts=3 backoff=10s timeout=20m
        claim gpu w1 starts=yes                    -> j1 epoch=1
"""
AWAY = f"""
        {STARTING}
        finish j1 e1 accepted ref=r1 poll=30s      -> running
"""


@pytest.mark.req("A12")
def test_a_job_is_starting_while_the_request_is_out_and_running_once_the_provider_accepts_it() -> None:
    play(f"""
        {STARTING}
        job j1                                     -> starting place=leased
        events j1                                  -> submitted claimed
        finish j1 e1 accepted ref=r1 poll=30s      -> running
        job j1                                     -> running place=awaiting ref=r1 poll_at=10:00:30
        submit ana j2 tool=own
        claim gpu w1 starts=yes                    -> j2
        job j2                                     -> running place=leased
    """)


@pytest.mark.req("E3")
def test_a_start_that_a_provider_may_have_received_is_in_the_history_before_it_goes_out() -> None:
    play(f"""
        {STARTING}
        request j1 e2                              -> LEASE_LOST
        request j1 e1 target=painter               -> starting
        event j1 requested                         -> provider=acme target=painter attempt=0
        finish j1 e1 retry after=1s unsent=yes     -> queued
        event j1 retried                           -> attempts=0 unsent=yes
        request j1 e1                              -> LEASE_LOST
        +2s
        recover j1
        claim gpu w2                               -> j1 epoch=2
        request j1 e2                              -> starting
        finish j1 e2 retry after=1s                -> queued
        event j1 retried                           -> attempts=0 unsent=?
        finish j1 e2 accepted ref=late             -> LEASE_LOST
    """)


def test_a_job_without_a_time_to_ask_is_never_asked_about() -> None:
    play(f"""
        {STARTING}
        finish j1 e1 accepted ref=r1               -> running
        job j1                                     -> running poll_at=none
        callback j1                                -> kept
        poll j1                                    -> nothing
        job j1                                     -> running poll_at=none callbacks=1
    """)


@pytest.mark.req("A12")
def test_a_call_back_has_the_provider_asked_at_once_and_ends_nothing() -> None:
    play(f"""
        {AWAY}
        +10s
        poll j1                                    -> nothing
        callback j1 body=done told='{{}}'          -> asks
        event j1 callback                          -> verdict=verified attempt=0 body=done told='{{}}'
        job j1                                     -> running callbacks=1 poll_at=10:00:10
        poll j1 hold=30s                           -> held job=j1
        poll j1                                    -> nothing
        job j1                                     -> running poll_at=10:00:40
        webhook j1 completed attempt=0             -> completed
        callback j1                                -> kept
        job j1                                     -> completed callbacks=2 refunded=0
        ledger ana                                 -> grant 99, charge -5
    """)


@pytest.mark.req("A12")
def test_a_call_back_before_the_answer_has_the_provider_asked_with_the_acceptance() -> None:
    play(f"""
        {STARTING}
        callback j1                                -> kept
        job j1                                     -> starting callbacks=1
        finish j1 e1 accepted ref=r1 poll=30s      -> running
        job j1                                     -> running poll_at=10:00
        poll j1                                    -> held
    """)


@pytest.mark.parametrize("told", ["verdict=forged", "attempt=1", "ref=r2"])
def test_a_call_back_that_is_forged_or_of_another_run_or_another_job_is_kept_and_changes_nothing(told: str) -> None:
    play(f"""
        {AWAY}
        callback j1 {told}                         -> kept
        job j1                                     -> running poll_at=10:00:30 callbacks=1
    """)


def test_a_call_back_of_an_earlier_run_does_not_end_a_later_one() -> None:
    play(f"""
        {AWAY}
        webhook j1 failed attempt=0                -> queued
        +10s
        recover j1                                 -> promoted
        claim gpu w1 starts=yes                    -> j1 epoch=2
        finish j1 e2 accepted ref=r2 poll=30s      -> running
        callback j1 attempt=0                      -> kept
        webhook j1 completed attempt=0             -> unchanged status=running
        callback j1 attempt=1                      -> asks
        webhook j1 completed attempt=1             -> completed
        job j1                                     -> completed callbacks=2 late_finishes=1
    """)


@pytest.mark.parametrize(("verdict", "kept", "counted"), [("unsigned", 4, 20), ("verified", 3, 3), ("forged", 2, 2)])
def test_call_backs_without_end_fill_no_table(verdict: c.Verdict, kept: int, counted: int) -> None:
    world = play(f"""
        policy job_callbacks=4
        {AWAY}
    """)
    for _ in range(20):
        world.run(c.NoteCallback("j1", 0, verdict))
    assert world.state.jobs["j1"].callbacks == counted
    assert sum(event.kind == "callback" for event in world.state.events) == kept
    assert world.faults() == []


@pytest.mark.req("A12")
@pytest.mark.parametrize("most", [1, 2, 3, 20])
def test_neither_forgeries_nor_progress_push_the_true_end_out_of_what_is_kept(most: int) -> None:
    world = play(f"""
        policy job_callbacks={most}
        {AWAY}
    """)
    others: list[c.Verdict] = ["forged", "unread", "verified"]
    for verdict in others:
        for _ in range(50):
            world.run(c.NoteCallback("j1", 0, verdict))
    for _ in range(50):
        world.run(c.NoteCallback("j1", 0, "verified", told="the end", ends=True))
    kept = [event.data or {} for event in world.state.events if event.kind == "callback"]
    assert (len(kept), [told["told"] for told in kept if "told" in told]) == (most, ["the end"])


@pytest.mark.req("A12")
def test_a_job_whose_word_nobody_has_read_is_not_failed_by_its_time_limit() -> None:
    play(f"""
        {AWAY}
        callback j1 verdict=forged                 -> kept
        callback j1 ends=yes                       -> asks
        +21m
        recover j1                                 -> nothing
        +5h
        poll j1 hold=30s                           -> held
        +10m
        poll j1 hold=30s                           -> held
        recover j1                                 -> nothing
        +10m
        recover j1                                 -> failed
        event j1 failed                            -> error='the provider did not answer within 1200 s'
    """)


def test_a_job_whose_word_nobody_reads_ends_with_the_longest_time_of_any_job() -> None:
    play(f"""
        policy max_age_ms=24h
        {AWAY}
        callback j1 ends=yes                       -> asks
        +23h
        recover j1                                 -> nothing
        +1h
        recover j1                                 -> failed
    """)


@pytest.mark.parametrize("told", ["", "verdict=unsigned", "attempt=1 ends=yes", "ref=r2 ends=yes"])
def test_what_is_no_word_about_the_jobs_end_holds_no_job(told: str) -> None:
    play(f"""
        {AWAY}
        callback j1 {told}
        +20m
        recover j1                                 -> failed
    """)


def test_of_a_job_that_does_not_exist_no_call_back_is_kept() -> None:
    play("""
        callback j9                                -> NOT_FOUND
        poll j9                                    -> nothing
        poll-end j9 held=10:00                     -> next=none
    """)


def test_whoever_asks_holds_the_job_renews_that_and_says_when_to_ask_again() -> None:
    play(f"""
        {AWAY}
        +30s
        poll j1 hold=30s                           -> held
        +20s
        poll j1 hold=30s held=10:01                -> held        # renewed, until 10:01:20
        poll j1 hold=30s held=10:01                -> nothing     # by somebody who was taken for dead
        poll-end j1 held=10:01 poll=30s            -> next=10:01:20
        poll-end j1 held=10:01:20 poll=30s progress=40 -> next=10:01:20
        job j1                                     -> running progress=40 poll_at=10:01:20
        +2m
        poll j1 hold=30s                           -> held
        poll-end j1 held=+30s poll=30s progress=40 -> next=+85s
        events j1                                  -> submitted claimed accepted progress
    """)


def test_a_call_back_while_the_provider_is_asked_is_not_forgotten() -> None:
    play(f"""
        {AWAY}
        +30s
        poll j1 hold=30s                           -> held
        +1s
        callback j1                                -> asks
        poll-end j1 held=10:01 poll=30s            -> next=10:00:31
        poll j1                                    -> held
    """)


def test_a_provider_that_asks_for_patience_gets_it() -> None:
    play(f"""
        {AWAY}
        +30s
        poll j1 hold=30s                           -> held
        poll-end j1 held=10:01 poll=30s after=4m   -> next=10:04:30
    """)


@pytest.mark.parametrize(
    ("had_s", "left_s", "wait_s"),
    [(0, 1_200, 30), (50, 1_200, 30), (100, 1_200, 50), (10_000, 9_000, 300), (30, 30, 25), (57, 3, 30), (0, 35, 30)],
)
def test_a_provider_is_asked_ever_later_and_once_more_before_the_deadline(had_s: int, left_s: int, wait_s: int) -> None:
    now = 10_000_000_000
    place = Awaiting("r", now - had_s * 1_000_000, now + left_s * 1_000_000)
    assert poll_wait_ms(place, now, 30_000) == wait_s * 1_000


@pytest.mark.req("A12")
@pytest.mark.parametrize(
    ("end", "tells"),
    [
        ("cancel j1", True),
        ("+20m\n        recover j1", True),
        ("webhook j1 completed attempt=0", False),
        ("webhook j1 failed final=yes attempt=0", False),
    ],
)
def test_a_job_that_ends_without_its_provider_owes_it_a_word(end: str, tells: bool) -> None:
    world = play(f"""
        {AWAY}
        {end}
    """)
    assert list(world.state.hooks) == ([(TELL_PROVIDER, "j1")] if tells else [])


def test_a_job_of_a_tool_without_a_provider_owes_nobody_a_word() -> None:
    world = play("""
        plan free
        open ana free credits=99
        submit ana j1
        claim gpu w1
        finish j1 e1 accepted ref=r1
        cancel j1
    """)
    assert not world.state.hooks


@pytest.mark.req("A12")
def test_a_word_after_the_time_out_changes_nothing() -> None:
    play(f"""
        {AWAY}
        +20m
        recover j1                                 -> failed refunded=5
        callback j1                                -> kept
        poll j1                                    -> nothing
        webhook j1 completed attempt=0             -> unchanged status=failed
        ledger ana                                 -> grant 99, charge -5, refund 5
        job j1                                     -> failed callbacks=1 late_finishes=1
    """)
