"""Retention: what leaves at which age, what leaves with it, and what keeps it. Erasure: what is closed and removed."""

import pytest
from msgspec.structs import replace

from ficha.core.commands import MoveRetention
from ficha.core.outcomes import RetentionMoved
from ficha.core.policy import DAY, Keep, Retention
from ficha.core.records import Job, JobSpec, KeptJob, RetentionCursor
from ficha.core.retention import ages, due, due_next, rules_name, walked_ages
from tests.core.scenarios import play
from tests.core.world import World

TERMS = Retention(
    jobs=90,
    payloads=30,
    by_plan={"pro": Keep(jobs=None, results=365), "free": Keep(jobs=7)},
    by_tool={"scan": Keep(payloads=1), "log": Keep(jobs=2, payloads=None)},
)


@pytest.mark.parametrize(
    ("tool", "plan", "expected"),
    [
        ("draw", "other", (90, 30, None)),
        ("draw", "pro", (None, 30, 365)),
        ("draw", "free", (7, 30, None)),
        ("scan", "pro", (None, 1, 365)),
        ("scan", "free", (7, 1, None)),
        ("log", "pro", (2, None, 365)),
        ("log", "other", (2, None, None)),
    ],
)
def test_a_tool_says_it_before_a_plan_and_a_plan_before_all(
    tool: str, plan: str, expected: tuple[int | None, ...]
) -> None:
    assert ages(TERMS, tool, plan) == tuple(None if days is None else days * DAY for days in expected)


def test_every_age_is_walked_once_the_longest_first() -> None:
    assert walked_ages(TERMS) == [days * DAY for days in (365, 90, 30, 7, 2, 1)]
    assert walked_ages(Retention()) == []
    assert rules_name(TERMS) == rules_name(replace(TERMS, by_itself=False))
    assert rules_name(TERMS) != rules_name(replace(TERMS, jobs=91))


ENDED = Job("j1", "ana", JobSpec("draw", "gpu", 1), 50, 0, "completed", None, finished_at=10 * DAY, plan="x")


@pytest.mark.parametrize(
    ("change", "at", "leaves", "next_at"),
    [
        ({}, 14 * DAY, None, 15 * DAY),
        ({}, 15 * DAY, "payload", 15 * DAY),
        ({}, 20 * DAY, "result", 15 * DAY),
        ({}, 30 * DAY, "job", 15 * DAY),
        ({"payload_removed_at": 15 * DAY}, 19 * DAY, None, 20 * DAY),
        ({"payload_removed_at": 15 * DAY}, 20 * DAY, "result", 20 * DAY),
        ({"removed_at": 16 * DAY}, 29 * DAY, None, 30 * DAY),
        ({"removed_at": 16 * DAY}, 30 * DAY, "job", 30 * DAY),
        ({"status": "failed", "dead_at": 10 * DAY}, 29 * DAY, None, 30 * DAY),
        ({"status": "failed", "dead_at": 10 * DAY}, 30 * DAY, "job", 30 * DAY),
        ({"status": "cancelled"}, 30 * DAY, "job", 15 * DAY),
        ({"status": "running", "finished_at": None}, 99 * DAY, None, None),
    ],
)
def test_an_age_counts_from_the_end_and_the_most_that_is_due_leaves(
    change: dict[str, object], at: int, leaves: str | None, next_at: int | None
) -> None:
    terms = Retention(jobs=20, payloads=5, results=10)
    job = replace(ENDED, **change)
    assert due(terms, job, at) == leaves
    assert due_next(terms, job) == next_at


def test_for_ever_is_for_ever() -> None:
    assert due(Retention(), ENDED, 10**18) is None
    assert due_next(Retention(), ENDED) is None


DONE = """
        plan free
        retention jobs=3 payloads=1 results=2
        open ana free credits=10
        submit ana j1 cost=5 attempts=2 tool=video content=abc key=k1
        claim gpu w1                               -> j1
        step j1 e1 paint '"a cat"'
        checkpoint j1 e1 HALF 50% data='{"seen": "a cat"}'
        note j1 e1 text="the cat is grey"
        finish j1 e1 completed result='"a grey cat"'      -> completed
"""


def test_what_was_given_leaves_then_what_came_of_it_then_the_job() -> None:
    world = play(f"""
        {DONE}
        prune ana j1 content=abc                   -> nothing
        +1d
        prune ana j1 content=abc                   -> payload
        job j1                                     -> completed payload=null result='"a grey cat"' events=7
        prune ana j1 content=abc                   -> nothing
        submit ana j2 cost=5 tool=video content=abc  -> completed balance=5
        +1d
        prune ana j1 content=abc                   -> result
        job j1                                     -> completed payload=null result=null data=null
        submit ana j3 cost=5 tool=video content=abc  -> queued balance=0
        cancel j3
        +1d
        prune ana j1 content=abc                   -> job
        job j2                                     -> completed result='"a grey cat"'
        ledger ana                                 -> grant 10, charge -5, charge -5, refund 5
        account ana                                -> balance=5 submitted=3 active=0
        prune ana j1 content=abc                   -> nothing
    """)
    assert "j1" not in world.state.jobs
    assert world.state.steps == {}
    assert not world.store.history.get("j1")
    assert all(event.job_id != "j1" for event in world.state.events)
    assert world.state.of(KeptJob) == {}


def test_a_job_whose_hook_is_still_to_be_run_stays_and_is_looked_at_again() -> None:
    world = play(f"""
        hook told
        {DONE}
        +4d
        prune ana j1                               -> nothing kept=1
    """)
    assert world.state.of(KeptJob)["j1"].look_at == world.now + DAY // 24


def test_a_job_that_waits_is_looked_at_again_a_day_later() -> None:
    world = play("""
        plan free
        retention jobs=3
        open ana free credits=10
        submit ana j1 cost=5
        +9d
        prune ana j1                               -> nothing kept=1
    """)
    assert world.state.of(KeptJob)["j1"].look_at == world.now + DAY


def test_what_ends_and_leaves_in_one_commit_group_leaves_nothing() -> None:
    world = play("""
        plan free
        retention jobs=3
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1
        together
            step j1 e1 paint '"a cat"'
            finish j1 e1 failed error=no           -> failed
            close ana                              -> closed
            prune ana j1                           -> job
            finish j1 e1 completed                 -> NOT_FOUND
        ledger ana                                 -> grant 10, charge -5, refund 5
        account ana                                -> balance=10 submitted=1 active=0
    """)
    assert world.state.jobs == {}
    assert not world.store.held["gpu"]


def test_nothing_is_pruned_for_an_account_that_is_not_the_jobs() -> None:
    world = play(f"""
        {DONE}
        open bob free credits=10
        +9d
        prune bob j1                               -> nothing
        prune nobody j1                            -> nothing
    """)
    assert "j1" in world.state.jobs


def test_a_batch_stays_where_its_account_submitted_more_since_it_was_looked_for() -> None:
    world = play("""
        plan free
        retention jobs=3
        open ana free credits=10
        submit ana j1 cost=5 batch=b1
        cancel j1
        +9d
        prune ana j1 batch=b1 submitted=0          -> unchanged
        prune ana j1 batch=b1 submitted=1          -> job batches=1
    """)
    assert world.state.batches == {}


def test_a_repeat_whose_job_left_is_refused_and_not_charged() -> None:
    play(f"""
        policy key_ttl_ms=9d
        {DONE}
        +4d
        prune ana j1                               -> job
        submit ana j9 cost=5 tool=video content=abc key=k1  -> INVALID_STATE job=j1 says="left by its age"
        account ana                                -> balance=5 submitted=1
    """)


def test_a_closed_account_takes_nothing_new_and_pays_back_what_it_cancels() -> None:
    world = play("""
        plan free
        open ana free credits=10
        open bob free credits=10
        submit ana j1 cost=5 key=k1
        reserve ana r1
        api-key a1 ana-laptop scope=user account=ana
        close ana api_keys=a1                      -> closed
        submit ana j2 cost=1                       -> ACCOUNT_CLOSED says="closed for good"
        submit ana j1 cost=5 key=k1                -> ACCOUNT_CLOSED
        reserve ana r2                             -> ACCOUNT_CLOSED
        grant ana 5                                -> ACCOUNT_CLOSED
        change-plan ana free                       -> ACCOUNT_CLOSED
        stay ana s1                                -> ACCOUNT_CLOSED
        close ana                                  -> unchanged
        close nobody                               -> NOT_FOUND
        erase bob keys=k1                          -> INVALID_STATE says="Close it first"
        prune ana j1                               -> nothing kept=1
        cancel j1                                  -> cancelled refunded=5
        prune ana j1                               -> job
        erase ana keys=k1 reservations=r1 entries=1  -> erased rows=3
        erase ana keys=k1 reservations=r1          -> unchanged
        ledger ana                                 -> grant 10, charge -5, refund 5
        adjust ana -10 reason=paid                 -> balance=0
        account ana                                -> balance=0 reserved=0 active=0
    """)
    assert world.state.keys == {}
    assert world.state.entries[0].reason is None
    assert [key.name for key in world.state.api_keys.values()] == ["erased"]


def test_a_walk_moves_only_from_where_it_was_read() -> None:
    world = World()
    moved = world.one(MoveRetention("r", 0, {"5": "j1"}))
    assert moved == RetentionMoved(RetentionCursor("jobs", "r", 1, {"5": "j1"}))
    assert world.one(MoveRetention("r", 0, {"5": "j0"})) == replace(moved, changed=False)
