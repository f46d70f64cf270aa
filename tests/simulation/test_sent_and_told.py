"""What the history says of an end: nothing where all is true, and the right sentence where it was broken by hand."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core import outcomes as o
from ficha.core.dataset import State
from tests.core.scenarios import play

from .database import Database
from .faults import draw_faults
from .history import History
from .loop import VirtualLoop
from .trace import Trace
from .watcher import Watcher

STORY = """
    plan free
    open ana free credits=20
    submit ana one cost=3 key=k1
    submit ana part1,part2 cost=2 key=k2 batch=b1
    submit ana plain cost=1
    submit ana dear cost=50 key=k3                   -> INSUFFICIENT_CREDITS
    submit ana one-again cost=3 key=k3               -> queued repeat=no
    submit ana dear cost=50 key=k4 body=other        -> INSUFFICIENT_CREDITS
    submit ana part1-again,part2-again cost=2 key=k4 batch=b2 -> queued repeat=no
    claim gpu w1                                     -> one
    finish one e1 failed
    requeue one as=once-more
"""
"""One job, one batch, a job without a key; and the payloads of the first two again, each with the key of a refused
submit."""


@pytest.fixture
def state() -> State:
    state = play(STORY).state
    marks = {job_id: job_id.split("-")[0].rstrip("12") for job_id in state.jobs}
    state.payloads = {job_id: json.dumps({"mark": mark}) for job_id, mark in (marks | {"once-more": "one"}).items()}
    return state


@pytest.fixture
def history(state: State) -> History:
    loop = VirtualLoop(Random(0))
    trace = Trace(loop)
    database = Database(loop, draw_faults(Random(0)), Random(0), "postgres")
    history = History(Watcher(database, play("plan free").policy, trace), trace)
    for mark, key in (("one", "k1"), ("one", "k1"), ("part", "k2"), ("plain", None), ("one", "k3"), ("part", "k4")):
        history.send("ana", mark, key)
    history.told = [
        told("one", 3, key="k1"),
        told("part1", 4, key="k2", jobs=2, batch_id="b1"),
        told("plain", 1, key=None),
        (c.Requeue("one", "once-more"), submitted("once-more", 3)),
    ]
    loop.bury([])
    return history


def submitted(job_id: str, cost: int, **fields: Any) -> o.Submitted:
    return o.Submitted(job_id, "queued", "gpu", 50, None, cost, 0, **fields)


def told(job_id: str, cost: int, *, key: str | None, **fields: Any) -> tuple[Any, Any]:
    return c.Submit("ana", (), key=key), submitted(job_id, cost, **fields)


@pytest.mark.req("C1")
def test_the_payload_of_an_earlier_submit_with_the_key_of_a_refused_one_is_a_submit_of_its_own(
    state: State, history: History
) -> None:
    assert list(history.untrue(state)) == []


def another(state: State, first: str, name: str, **fields: Any) -> None:
    """One more job, like the first."""
    state.jobs[name] = replace(state.jobs[first], id=name, **fields)
    state.payloads[name] = state.payloads[first]


@pytest.mark.req("C1")
@pytest.mark.parametrize(("first", "times", "jobs"), [("one", 0, 1), ("plain", 1, 2)])
def test_a_submit_that_led_to_two_jobs_is_noticed(
    state: State, history: History, first: str, times: int, jobs: int
) -> None:
    """A key names one of them; the other looks like one that was sent without a key."""
    another(state, first, "two")
    assert list(history.untrue(state)) == [
        f"the submit {first} of ana, sent {times} times with the key None, led to {jobs} jobs or batches"
    ]


@pytest.mark.req("C1")
def test_a_submit_that_led_to_two_batches_is_noticed(state: State, history: History) -> None:
    for name in ("part1", "part2"):
        another(state, name, f"{name}-twice", batch_id="b3")
    assert list(history.untrue(state)) == [
        "the submit part of ana, sent 0 times with the key None, led to 1 jobs or batches"
    ]


@pytest.mark.req("C1")
def test_a_key_that_names_a_job_of_another_payload_is_noticed(state: State, history: History) -> None:
    state.payloads["one"] = state.payloads["plain"]
    assert list(history.untrue(state)) == [
        "the submit plain of ana, sent 0 times with the key k1, led to 1 jobs or batches"
    ]


def test_what_nobody_sent_is_noticed(state: State, history: History) -> None:
    state.jobs["plain"] = replace(state.jobs["plain"], account_id="bob")
    assert "the submit plain of bob, sent 0 times with the key None, led to 1 jobs or batches" in list(
        history.untrue(state)
    )


@pytest.mark.req("D1")
def test_a_receipt_is_compared_with_all_jobs_of_its_batch(state: State, history: History) -> None:
    state.jobs["part2"] = replace(state.jobs["part2"], charged=1)
    another(state, "part2", "part3", charged=0)
    assert list(history.untrue(state)) == [
        "a caller was told of 2 jobs with job part1; there are 3",
        "a caller was told that job part1 costs 4, charged were 3",
    ]


def test_a_job_that_was_requeued_twice_is_noticed_though_one_answer_was_lost(state: State, history: History) -> None:
    another(state, "once-more", "yet-again")
    assert list(history.untrue(state)) == ["job one was requeued 2 times"]
