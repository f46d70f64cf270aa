"""What time does to a job: lost leases, poison, timeouts of all kinds, and clocks that go back."""

import pytest

from tests.core.scenarios import play

# Lost workers


@pytest.mark.req("B4")
def test_a_lease_is_taken_back_at_its_exact_expiry() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 cost=5
        claim gpu w1                               -> j1 until=10:01
        +60s
        -1us
        recover j1                                 -> nothing
        +1us
        recover j1                                 -> requeued
        recover j1                                 -> nothing
        job j1                                     -> queued place=ready recoveries=1 attempts=0 epoch=1
        event j1 recovered                         -> worker=w1 epoch=1 recoveries=1
        ledger ana                                 -> grant 9, charge -5       # not given back, not charged again
    """)


@pytest.mark.req("B4")
def test_a_job_that_takes_three_workers_down_is_poison() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 cost=5 attempts=9
        claim gpu w1                               -> j1 epoch=1
        +60s
        recover j1                                 -> requeued
        claim gpu w2                               -> j1 epoch=2
        +60s
        recover j1                                 -> requeued
        claim gpu w3                               -> j1 epoch=3
        +60s
        recover j1                                 -> failed refunded=5
        job j1                                     -> failed recoveries=3 attempts=0 dead=yes
        event j1 failed                            -> dead=yes refunded=5
        ledger ana                                 -> grant 9, charge -5, refund 5
    """)


@pytest.mark.req("B6")
def test_failures_and_recoveries_are_counted_apart() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 attempts=2 backoff=1s
        claim gpu w1                               -> j1
        +60s
        recover j1                                 -> requeued
        claim gpu w1                               -> j1
        finish j1 e2 failed                        -> queued
        +1s
        recover j1                                 -> promoted
        claim gpu w1                               -> j1
        +60s
        recover j1                                 -> requeued
        job j1                                     -> queued attempts=1 recoveries=2 epoch=3
        claim gpu w1                               -> j1
        finish j1 e4 failed                        -> failed
        job j1                                     -> failed attempts=2 recoveries=2
    """)


@pytest.mark.req("B4")
def test_how_many_lost_workers_make_poison_is_a_setting() -> None:
    play("""
        plan free
        policy max_recoveries=2
        open ana free credits=9
        submit ana j1
        claim gpu w1                               -> j1
        +60s
        recover j1                                 -> requeued
        claim gpu w1                               -> j1
        +60s
        recover j1                                 -> failed refunded=1
    """)


@pytest.mark.req("B4")
def test_a_job_that_was_lost_beside_others_does_not_end_for_it() -> None:
    """However low the limit is: the next run, which is alone, says whether it is guilty."""
    play("""
        plan free
        policy max_recoveries=1
        open ana free credits=9
        submit ana guilty
        submit ana innocent
        claim gpu w1 limit=2                       -> guilty, innocent
        +60s
        recover guilty                             -> requeued
        recover innocent                           -> requeued
        claim gpu w1                               -> guilty
        +60s
        recover guilty                             -> failed refunded=1
        claim gpu w1                               -> innocent
        finish innocent e2 completed               -> completed
    """)


@pytest.mark.req("B4")
def test_work_that_must_not_be_repeated_ends_with_its_first_lost_run() -> None:
    play("""
        plan free
        policy max_recoveries=0
        open ana free credits=9
        submit ana j1 cost=5
        submit ana j2
        claim gpu w1 limit=2                       -> j1, j2
        finish j2 e1 interrupted                   -> queued
        +60s
        recover j1                                 -> failed refunded=5
        job j1                                     -> failed recoveries=1 dead=yes
    """)


@pytest.mark.req("B4")
def test_a_claim_that_keeps_suspects_apart_passes_them_over() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1
        submit ana j2
        submit ana j3
        claim gpu w1                               -> j1
        +60s
        recover j1                                 -> requeued
        claim gpu w2 apart=yes                     -> j2
        together
            claim gpu w2 apart=yes                 -> j3
            claim gpu w3                           -> j1
    """)


@pytest.mark.req("E4")
def test_a_worker_silent_for_ten_minutes_has_lost_the_job_even_under_a_longer_lease() -> None:
    play("""
        plan free
        policy lease_ms=1h
        open ana free credits=9
        submit ana j1 timeout=3h
        claim gpu w1                               -> j1
        +10m
        -1us
        recover j1                                 -> nothing
        beat j1 e1
        +1us
        recover j1                                 -> nothing
        +10m
        -2us
        recover j1                                 -> nothing
        +1us
        recover j1                                 -> requeued
    """)


# Timeouts


@pytest.mark.req("A8")
def test_a_run_that_takes_longer_than_its_timeout_fails_refunded_though_its_worker_lives() -> None:
    play("""
        clock 10:00
        pool gpu slots=1
        plan free
        policy lease_ms=1h
        open ana free credits=9
        submit ana j1 cost=5 attempts=3            # ten minutes, unless the tool says otherwise
        submit ana j2
        claim gpu w1                               -> j1 deadline=10:10
        start j1 e1
        clock 10:09:59.999999
        beat j1 e1
        +1us
        recover j1                                 -> nothing  # it may have died by now
        beat j1 e1
        recover j1                                 -> failed refunded=5
        job j1                                     -> failed error="timed out after 600 s" dead=yes attempts=0
        finish j1 e1 completed                     -> unchanged status=failed
        claim gpu w1                               -> j2       # the slot is free
    """)


@pytest.mark.req("A8")
def test_a_job_that_never_got_beyond_starting_times_out_too() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 timeout=30s
        claim gpu w1                               -> j1
        +30s
        beat j1 e1
        recover j1                                 -> failed refunded=1
        job j1                                     -> failed error="timed out after 30 s"
        events j1                                  -> submitted claimed failed
    """)


@pytest.mark.req("B4")
def test_a_lost_run_is_taken_back_though_its_time_is_up_too() -> None:
    """Nobody worked on it from the worker's death on: the run did not time out."""
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 cost=5 timeout=30s           # shorter than the lease
        submit ana j2 cost=2 timeout=90s           # longer, and nobody sweeps for an hour
        submit ana j3 cost=2 timeout=60s           # ends with the lease
        claim gpu w1 limit=3                       -> j1, j2, j3
        +60s
        recover j1                                 -> requeued
        recover j3                                 -> requeued
        +1h
        recover j2                                 -> requeued
        job j1                                     -> queued recoveries=1 attempts=0
        claim gpu w2 limit=3                       -> j1, j2, j3
        +20s
        finish j1 e2 completed                     -> completed
        ledger ana                                 -> grant 9, charge -5, charge -2, charge -2
    """)


@pytest.mark.req("B4", "E4")
def test_how_long_a_job_is_held_in_all_is_bounded_though_each_run_is_lost() -> None:
    play("""
        plan free
        policy max_recoveries=99 max_age_ms=5m
        open ana free credits=9
        submit ana j1 timeout=30s
        claim gpu w1                               -> j1
        +2m
        recover j1                                 -> requeued
        claim gpu w1                               -> j1
        +3m
        recover j1                                 -> failed refunded=1
        job j1                                     -> failed recoveries=1 dead=yes
    """)


@pytest.mark.req("A8")
def test_each_run_has_the_whole_timeout() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 timeout=90s
        claim gpu w1                               -> j1 deadline=10:01:30
        +60s
        recover j1                                 -> requeued
        claim gpu w1                               -> j1 deadline=10:02:30
    """)


@pytest.mark.req("A8")
def test_a_provider_that_never_calls_back_fails_the_job_at_the_deadline_of_the_run() -> None:
    play("""
        clock 10:00
        pool gpu slots=1
        plan free
        open ana free credits=9
        submit ana j1 cost=5 timeout=5m attempts=3
        claim gpu w1                               -> j1
        +1m
        finish j1 e1 accepted                      -> running
        clock 10:04:59.999999
        recover j1                                 -> nothing
        +1us
        recover j1                                 -> failed refunded=5
        job j1                                     -> failed error="the provider did not answer within 300 s" dead=yes
        webhook j1 completed                       -> unchanged status=failed
        events j1                                  -> submitted claimed accepted failed late
    """)


@pytest.mark.req("A8")
def test_a_tool_can_bound_the_wait_in_the_queue() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        submit ana j1 cost=2 max_wait=60s
        submit ana j2 cost=2 max_wait=60s          # parked behind j1
        submit ana j3 cost=2 max_wait=60s delay=1h # waits from its time on
        +60s
        -1us
        recover j1                                 -> nothing
        recover j2                                 -> nothing
        +1us
        recover j2                                 -> cancelled refunded=2
        recover j1                                 -> cancelled refunded=2
        recover j3                                 -> nothing
        job j1                                     -> cancelled error="it waited longer than 60 seconds" dead=no
        +1h
        -1us
        recover j3                                 -> promoted
        +1us
        recover j3                                 -> cancelled refunded=2
        ledger ana  -> grant 9, charge -2, charge -2, charge -2, refund 2, refund 2, refund 2
    """)


@pytest.mark.req("A8")
def test_the_wait_is_bounded_only_until_the_first_start() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 max_wait=60s attempts=2 backoff=1s
        submit ana j2 max_wait=60s
        claim gpu w1 limit=2                       -> j1, j2
        finish j1 e1 failed                        -> queued
        +60s
        recover j1                                 -> promoted     # waited long enough, but was started
        recover j2                                 -> requeued
        +60s
        recover j1                                 -> nothing
        recover j2                                 -> nothing
    """)


@pytest.mark.req("E4")
def test_a_job_first_started_a_day_ago_is_failed_whether_its_worker_lives_or_not() -> None:
    play("""
        plan free
        policy max_recoveries=99
        open ana free credits=9
        submit ana j1 timeout=48h
        submit ana j2 timeout=48h
        submit ana j3 timeout=48h
        claim gpu w1 limit=9                       -> j1, j2, j3
        finish j2 e1 accepted
        +24h
        -60s
        recover j1                                 -> requeued
        claim gpu w1                               -> j1
        +60s
        -1us
        beat j3 e1
        recover j1                                 -> nothing
        recover j2                                 -> nothing
        recover j3                                 -> nothing
        +1us
        recover j1                                 -> failed refunded=1
        recover j2                                 -> failed refunded=1
        recover j3                                 -> failed refunded=1
        job j1        -> failed error="not finished 24 hours after its first start" dead=yes
        job j2        -> failed error="not finished 24 hours after its first start" dead=yes
    """)


@pytest.mark.req("E4")
def test_a_job_first_started_a_day_ago_is_failed_also_while_its_worker_is_alive() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 timeout=48h
        claim gpu w1                               -> j1
        +24h
        -1us
        beat j1 e1
        recover j1                                 -> nothing
        +1us
        recover j1                                 -> failed refunded=1
        beat j1 e1                                 -> LEASE_LOST
    """)


def test_recover_does_nothing_for_a_job_that_waits_its_turn_or_has_ended() -> None:
    play("""
        plan free max_running=1
        open ana free credits=9
        submit ana j1
        submit ana j2
        recover j1                                 -> nothing
        recover j2                                 -> nothing
        cancel j1
        recover j1                                 -> nothing
        events j1                                  -> submitted cancelled
    """)


def test_two_sweepers_with_the_same_list_do_no_harm() -> None:
    play("""
        plan free
        open ana free credits=9
        submit ana j1 timeout=30s
        submit ana j2
        claim gpu w1 limit=2                       -> j1, j2
        +60s
        together
            recover j1                             -> requeued
            recover j2                             -> requeued
            recover j1                             -> nothing
            recover j2                             -> nothing
    """)


# Clocks that go back


@pytest.mark.req("B4")
def test_a_clock_that_goes_back_shortens_no_lease() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1
        claim gpu w1                               -> j1 until=10:01
        -1h
        beat j1 e1                                 -> starting until=10:01
        job j1                                     -> starting heartbeat_at=10:00 expires_at=10:01
        start j1 e1                                -> running until=10:01
        recover j1                                 -> nothing
        clock 10:00:30
        beat j1 e1                                 -> running until=10:01:30
    """)


def test_nothing_breaks_when_a_clock_goes_back_two_months() -> None:
    play("""
        clock 2026-03-10T10:00
        plan free max_running=2 per_hour=9 daily_limit=50 ageing_s=60
        open ana free credits=99
        submit ana j1 cost=5 attempts=3 key=k1
        submit ana j2 cost=5 delay=1m
        submit ana j3 cost=5
        submit ana j4 cost=5
        reserve ana r1
        claim gpu w1 limit=2                       -> j1, j3
        -60d
        recover j1                                 -> nothing
        recover j2                                 -> nothing
        recover j4                                 -> nothing
        expire r1                                  -> kept
        submit ana x1 key=k1                       -> starting job=j1 repeat=yes
        submit ana j5 cost=5                       -> queued
        finish j1 e1 failed                        -> queued due=+1s
        finish j3 e1 completed                     -> completed
        queue gpu                                  -> j5, j4         # j5 was created earlier, by this clock
        claim gpu w1 limit=9                       -> j5, j4
        cancel j4                                  -> cancelled refunded=5
        finish j5 e1 completed                     -> completed
        +1s
        recover j1                                 -> promoted
        claim gpu w2                               -> j1 epoch=2
        +61d
        recover j1                                 -> failed
        recover j2                                 -> promoted
    """)


def test_a_key_of_the_future_stands_when_the_clock_goes_back_and_a_leader_only_for_as_long_as_one_may_lead() -> None:
    play("""
        clock 10:00
        plan free
        open ana free credits=9
        submit ana j1 key=k1 ttl=1m
        elect sweeper n1 ttl=30s                   -> leads until=10:00:30
        -9m
        elect sweeper n2 ttl=30s                   -> follows owner=n1 until=10:00:30
        -51m
        submit ana j2 key=k1                       -> queued job=j1 repeat=yes
        forget ana submit k1                       -> kept
        elect sweeper n2 ttl=30s                   -> leads owner=n2 until=09:00:30
    """)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ("1s", "1 second"),
        ("119s", "119 seconds"),
        ("600s", "10 minutes"),
        ("5400s", "90 minutes"),
        ("7259s", "2 hours"),
    ],
)
def test_the_owner_reads_how_long_the_job_waited(bound: str, words: str) -> None:
    play(f"""
        plan free max_running=1
        open ana free credits=9
        submit ana j1 cost=2 max_wait={bound}
        +{bound}
        recover j1 -> cancelled refunded=2
        job j1     -> cancelled error="it waited longer than {words}"
    """)
