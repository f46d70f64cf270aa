"""The transition table, the diagram made from it, and that every move in it is made by somebody."""

from itertools import product

import pytest

from ficha.core import states
from ficha.core.records import Job, JobSpec, Leased, Parked, Ready, Status
from ficha.core.states import ACTIVE, BIRTHS, FINAL, HOLDS_SLOT, MOVES, WHY, diagram, is_legal
from tests.core.scenarios import play

STATUSES: tuple[Status, ...] = ("queued", "starting", "running", "completed", "failed", "cancelled")
LEGAL = {
    ("queued", "starting"),
    ("starting", "running"),
    ("running", "completed"),
    ("running", "failed"),
    ("queued", "cancelled"),
    ("starting", "cancelled"),
    ("running", "cancelled"),
    ("starting", "failed"),
    # where an equal job's result is reused, which needs no run
    ("queued", "completed"),
    # where a tool allows retries, and after a crash
    ("starting", "queued"),
    ("running", "queued"),
}


@pytest.mark.req("A7")
def test_the_table_is_the_one_of_the_requirement() -> None:
    assert tuple(MOVES) == STATUSES
    assert {(before, after) for before, after in product(STATUSES, STATUSES) if is_legal(before, after)} == LEGAL
    assert WHY.keys() == LEGAL


@pytest.mark.req("A7")
def test_a_final_state_has_no_way_out() -> None:
    assert {"completed", "failed", "cancelled"} == FINAL
    assert {"queued", "starting", "running"} == ACTIVE
    assert {"queued", "completed"} == BIRTHS
    assert all(not MOVES[status] for status in FINAL)


@pytest.mark.req("A1")
def test_starting_and_running_hold_a_slot_and_nothing_else_does() -> None:
    assert {"starting", "running"} == HOLDS_SLOT


def test_the_diagram_shows_the_table() -> None:
    assert diagram() == (
        "stateDiagram-v2\n"
        "    [*] --> queued\n"
        "    [*] --> completed: an earlier result is reused\n"
        "    queued --> starting: a worker claims it\n"
        "    queued --> completed: the result of an equal job is reused\n"
        "    queued --> cancelled: cancelled, or waited too long\n"
        "    starting --> queued: retry or recovery\n"
        "    starting --> running: the handler starts\n"
        "    starting --> failed: error, timeout or poison\n"
        "    starting --> cancelled: cancelled\n"
        "    running --> queued: retry or recovery\n"
        "    running --> completed: finish\n"
        "    running --> failed: error, timeout or poison\n"
        "    running --> cancelled: cancelled\n"
        "    completed --> [*]\n"
        "    failed --> [*]\n"
        "    cancelled --> [*]\n"
    )


LEASE = Leased("w1", 0, 0, 60, 600)
MAKERS = {
    "claimed": ("starting", lambda job: states.claimed(job, "w1", 0, 60_000)),
    "started": ("running", lambda job: states.started(job, 1)),
    "retried": ("queued", lambda job: states.retried(job, Parked(1, 10), failed=True)),
    "taken_back": ("queued", lambda job: states.taken_back(job, Ready(1), lost=True)),
    "completed": ("completed", lambda job: states.completed(job, 1, 0)),
    "reused": ("completed", lambda job: states.reused(job, 0)),
    "failed": ("failed", lambda job: states.failed(job, "it broke", 0, dead=True)),
    "cancelled": ("cancelled", lambda job: states.cancelled(job, None, 0)),
}


@pytest.mark.req("A7")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("before", STATUSES)
def test_no_maker_of_a_move_makes_one_outside_the_table(maker: str, before: Status) -> None:
    after, make = MAKERS[maker]
    job = a_job(before)
    if (before, after) in LEGAL:
        assert make(job).status == after
    else:
        with pytest.raises(AssertionError, match=f"cannot go from {before} to {after}"):
            make(job)


@pytest.mark.parametrize("before", STATUSES)
def test_only_a_job_in_a_workers_hands_is_accepted_by_a_provider(before: Status) -> None:
    if before in HOLDS_SLOT:
        assert states.accepted(a_job(before), LEASE, "ref", 0).status == "running"
    else:
        with pytest.raises(AssertionError):
            states.accepted(a_job(before), LEASE, "ref", 0)


def a_job(status: Status) -> Job:
    return Job(
        id="j1",
        account_id="ana",
        spec=JobSpec("upscale", "gpu", cost=0),
        priority=0,
        created_at=0,
        status=status,
        place=None,
    )


STORIES = {
    ("queued", "starting"): ["claim gpu w1"],
    ("queued", "completed"): [
        *("submit ana j2 content=abc priority=-1", "claim gpu w1", "finish j2 e1 completed"),
        "recover j1",
    ],
    ("queued", "cancelled"): ["cancel j1"],
    ("starting", "running"): ["claim gpu w1", "start j1 e1"],
    ("starting", "failed"): ["claim gpu w1", "finish j1 e1 failed final=yes"],
    ("starting", "cancelled"): ["claim gpu w1", "cancel j1"],
    ("starting", "queued"): ["claim gpu w1", "finish j1 e1 failed"],
    ("running", "completed"): ["claim gpu w1", "start j1 e1", "finish j1 e1 completed"],
    ("running", "failed"): ["claim gpu w1", "start j1 e1", "finish j1 e1 failed final=yes"],
    ("running", "cancelled"): ["claim gpu w1", "start j1 e1", "cancel j1"],
    ("running", "queued"): ["claim gpu w1", "start j1 e1", "finish j1 e1 retry after=1s"],
}


@pytest.mark.req("A7")
@pytest.mark.parametrize(("before", "after"), sorted(LEGAL), ids=" to ".join)
def test_every_legal_move_is_made_by_a_command(before: Status, after: Status) -> None:
    *earlier, last = STORIES[before, after]
    opening = "plan free\nopen ana free credits=9\nsubmit ana j1 attempts=2 content=abc\n"
    assert play(opening + "\n".join(earlier)).state.jobs["j1"].status == before
    assert play(opening + "\n".join([*earlier, last])).state.jobs["j1"].status == after
