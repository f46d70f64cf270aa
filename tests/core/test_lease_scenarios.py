"""A job in a worker's hands: claimed, held, checkpointed; and the words of those who no longer hold it."""

import pytest

from tests.core.scenarios import play

HELD = """
        clock 10:00
        plan free
        open ana free credits=99
        submit ana j1 cost=5 attempts=3 backoff=10s
        claim gpu w1                               -> j1 epoch=1
"""

# Holding


@pytest.mark.req("B1", "B3")
def test_a_claim_hands_out_a_lease_and_no_other_claim_sees_the_job() -> None:
    play("""
        clock 10:00
        plan free
        policy lease_ms=60s
        open ana free credits=9
        submit ana j1 timeout=5m
        together
            claim gpu w1                           -> j1 epoch=1 worker=w1 until=10:01 deadline=10:05
            claim gpu w2                           -> nothing
        job j1                                     -> starting place=leased worker=w1 leased_at=10:00 heartbeat_at=10:00
        job j1                                     -> starting expires_at=10:01 deadline_at=10:05 started_at=10:00
    """)


@pytest.mark.req("B4")
def test_every_sign_of_life_extends_the_lease_but_not_the_deadline() -> None:
    play(f"""
        {HELD}
        +30s
        beat j1 e1                                 -> starting until=10:01:30 deadline=10:10
        +30s
        start j1 e1                                -> running until=10:02 deadline=10:10
        +30s
        checkpoint j1 e1 HALF 50%                  -> running until=10:02:30
        +30s
        step j1 e1 download pixels                 -> pixels
        job j1                                     -> running expires_at=10:03 heartbeat_at=10:02 deadline_at=10:10
        events j1                                  -> submitted claimed started checkpoint step
    """)


def test_starting_twice_is_starting_once() -> None:
    play(f"""
        {HELD}
        start j1 e1                                -> running
        start j1 e1                                -> running
        events j1                                  -> submitted claimed started
    """)


@pytest.mark.req("B4")
def test_a_lease_past_its_expiry_counts_until_somebody_recovers_the_job() -> None:
    play(f"""
        {HELD}
        +5m
        beat j1 e1                                 -> starting until=10:06
        +5m
        finish j1 e1 completed                     -> completed
    """)


@pytest.mark.req("E1", "E2", "E3")
def test_a_checkpoint_is_saved_with_its_data_and_outlives_the_worker() -> None:
    play(f"""
        {HELD}
        checkpoint j1 e1 ITEMS 10% data='[3]'      -> starting
        checkpoint j1 e1 ITEMS 20% data='[7]'      -> starting
        event j1 checkpoint                        -> name=ITEMS progress=20
        +60s
        recover j1                                 -> requeued
        job j1                                     -> queued checkpoint=ITEMS progress=20 data=[7]
        claim gpu w2                               -> j1 epoch=2
        checkpoint j1 e1 OLD 99%                   -> LEASE_LOST
        finish j1 e2 failed                        -> queued
        +10s
        recover j1                                 -> promoted
        claim gpu w3                               -> j1 epoch=3
        job j1                                     -> starting checkpoint=ITEMS progress=20 data=[7]
    """)


@pytest.mark.req("E3")
def test_a_step_is_stored_once_and_answered_from_the_store_afterwards() -> None:
    play(f"""
        {HELD}
        step j1 e1 download pixels                 -> pixels
        step j1 e1 download other                  -> pixels
        together
            step j1 e1 upscale big                 -> big
            step j1 e1 upscale bigger              -> big
        events j1                                  -> submitted claimed step step
    """)


# Fencing


@pytest.mark.req("B5", "A5")
@pytest.mark.parametrize(
    "word",
    [
        "start j1 e1",
        "beat j1 e1",
        "checkpoint j1 e1 HALF 50%",
        "step j1 e1 download pixels",
        "finish j1 e1 completed",
        "finish j1 e1 failed",
        "finish j1 e1 failed final=yes",
        "finish j1 e1 retry after=1s",
        "finish j1 e1 cancelled",
        "finish j1 e1 accepted",
    ],
)
def test_a_worker_that_lost_its_lease_is_refused_whatever_it_wants_to_write(word: str) -> None:
    play(f"""
        {HELD}
        +60s
        recover j1                                 -> requeued
        {word}                                     -> LEASE_LOST status=queued epoch=1 says="Stop working on it"
        claim gpu w2                               -> j1 epoch=2
        {word}                                     -> LEASE_LOST status=starting epoch=2
        start j1 e2
        {word}                                     -> LEASE_LOST status=running epoch=2
        finish j1 e2 completed                     -> completed
        {word}                                     -> LEASE_LOST status=completed epoch=2
        job j1                                     -> completed charged=5 refunded=0 attempts=0
        ledger ana                                 -> grant 99, charge -5
    """)


def test_a_handler_that_reports_without_end_leaves_no_more_events_than_allowed() -> None:
    play("""
        plan free
        policy job_events=6
        open ana free credits=9
        submit ana j1
        claim gpu w1                               -> j1
        note j1 e1 text=one
        step j1 e1 fetch 1
        report j1 e1 progress=10
        events j1                                  -> submitted claimed log step progress
        checkpoint j1 e1 HALF 50%
        report j1 e1 progress=60 partial='[1]'
        checkpoint j1 e1 NEARLY 90%
        note j1 e1 text=two
        step j1 e1 fetch 2                         -> 1
        step j1 e1 paint 2                         -> TOO_LARGE limit=6
        job j1                                     -> starting checkpoint=NEARLY progress=90 events=7
        events j1                                  -> submitted claimed log step progress checkpoint log
        finish j1 e1 completed                     -> completed
        events j1                             -> submitted claimed log step progress checkpoint log started completed
    """)


def test_an_epoch_from_the_future_or_of_a_job_never_claimed_holds_nothing() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1
        beat j1 e0                                 -> LEASE_LOST status=queued epoch=0
        finish j1 e0 completed                     -> LEASE_LOST
        finish j1 e1 completed                     -> LEASE_LOST
        webhook j1 completed                       -> LEASE_LOST status=queued
        events j1                                  -> submitted late
        job j1                                     -> queued late_finishes=3
        claim gpu w1                               -> j1
        beat j1 e2                                 -> LEASE_LOST epoch=1
    """)


@pytest.mark.parametrize(
    "word",
    [
        "start x e1",
        "beat x e1",
        "checkpoint x e1 HALF 50%",
        "step x e1 download pixels",
        "finish x e1 completed",
        "webhook x completed",
        "cancel x",
        "recover x",
        "requeue x as=y",
        "discard x",
    ],
)
def test_a_job_that_does_not_exist_is_not_found(word: str) -> None:
    play(f"""
        plan free
        {word}                                     -> NOT_FOUND says="no job x"
    """)


def test_another_accounts_job_is_not_found() -> None:
    play("""
        plan free
        open ana free credits=9
        open bob free credits=9
        submit ana j1
        cancel j1 by=bob                           -> NOT_FOUND says="no job j1"
        cancel j1 by=ana reason="changed my mind"  -> cancelled refunded=1
        job j1                                     -> cancelled error="changed my mind"
    """)


# Claims that start, and claims by id


@pytest.mark.req("B3")
def test_a_claim_can_start_what_it_takes_and_the_history_shows_both_moves() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 timeout=5m
        claim gpu w1 starts=yes                    -> j1 epoch=1 until=10:01 deadline=10:05
        job j1                                     -> running place=leased started_at=10:00
        events j1                                  -> submitted claimed started
        finish j1 e1 completed                     -> completed
        events j1                                  -> submitted claimed started completed
    """)


def test_a_job_can_be_taken_by_its_id_ahead_of_those_before_it() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1
        submit ana j2
        take j2 gpu w1 starts=yes                  -> j2 epoch=1 worker=w1
        job j2                                     -> running place=leased
        claim gpu w1 limit=9                       -> j1
    """)


def test_a_job_that_cannot_be_taken_says_why() -> None:
    play("""
        plan free max_running=1
        pool gpu slots=1
        open ana free credits=9
        open bob free credits=9
        submit ana j1
        submit ana j2
        submit bob j3
        take j9 gpu w1      -> NOT_FOUND
        take j1 cpu w1      -> NOT_FOUND
        take j2 gpu w1      -> INVALID_STATE says="its account is at its limit"
        take j1 gpu w1      -> j1
        take j1 gpu w2      -> INVALID_STATE says="it is starting, and w1 has it."
        take j3 gpu w2      -> INVALID_STATE says="its pool gpu is full or paused."
        finish j1 e1 completed -> completed
        take j1 gpu w2      -> INVALID_STATE says="it is completed."
    """)


# Handed back, lost, timed out


@pytest.mark.req("B5")
def test_a_job_that_is_handed_back_is_claimable_at_once_and_counts_for_nothing() -> None:
    play(f"""
        {HELD}
        finish j1 e1 interrupted reason=deploy     -> queued
        job j1                                     -> queued place=ready attempts=0 recoveries=0 epoch=1
        event j1 returned                          -> worker=w1 epoch=1 recoveries=0 reason=deploy
        finish j1 e1 completed                     -> LEASE_LOST
        claim gpu w2                               -> j1 epoch=2
        ledger ana                                 -> grant 99, charge -5
    """)


@pytest.mark.req("B4")
def test_a_run_that_takes_its_process_down_is_a_recovery_and_the_third_is_poison() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=5 attempts=9
        claim gpu w1                               -> j1
        finish j1 e1 interrupted lost=yes          -> queued
        job j1                                     -> queued recoveries=1 attempts=0
        claim gpu w1                               -> j1
        finish j1 e2 interrupted lost=yes          -> queued
        claim gpu w1                               -> j1
        finish j1 e3 interrupted lost=yes reason=x -> failed refunded=5
        job j1 -> failed error="3 runs were lost with their process, so the job is taken for poison; the last: x"
        job j1                                     -> failed recoveries=3 attempts=0 dead=yes
        ledger ana                                 -> grant 9, charge -5, refund 5
    """)


@pytest.mark.req("A8")
def test_a_run_that_timed_out_ends_its_job_whatever_attempts_are_left() -> None:
    play(f"""
        {HELD}
        finish j1 e1 timed_out                     -> failed refunded=5
        job j1                                     -> failed error="timed out after 600 s" attempts=0 dead=yes
    """)


# Telling those who watch


@pytest.mark.req("E1")
def test_progress_and_partial_results_leave_where_the_job_goes_on_from_as_it_is() -> None:
    play(f"""
        {HELD}
        report j1 e1 progress=10                   -> starting
        job j1                                     -> starting checkpoint= progress=10
        checkpoint j1 e1 HALF 50% data='[3]'       -> starting
        report j1 e1 partial='[1]'                 -> starting
        report j1 e1 progress=60                   -> starting
        job j1                                     -> starting checkpoint=HALF progress=60 data=[3]
        checkpoint j1 e1 NEARLY 90%                -> starting
        job j1                                     -> starting checkpoint=NEARLY progress=90
        note j1 e1 text=hello                      -> starting
        event j1 log                               -> text=hello
        events j1           -> submitted claimed progress checkpoint partial progress checkpoint log
        report j1 e9 progress=99                   -> LEASE_LOST
        note j1 e9 text=late                       -> LEASE_LOST
    """)
