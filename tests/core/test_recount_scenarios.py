"""Counters that were broken by hand are put right from the rows, and nothing else is touched."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.invariants import violations
from ficha.core.outcomes import Recounted, Refusal
from ficha.core.records import FileUsage
from tests.core.scenarios import play
from tests.core.test_invariants import STORY
from tests.core.world import World


def a_world() -> World:
    world = play(STORY)
    assert violations(world.state) == []
    return world


@pytest.mark.parametrize(
    ("broken", "corrected"),
    [
        ({"active": 9}, {"active": -5}),
        ({"admitted": 0}, {"admitted": 2}),
        ({"parked": 7}, {"parked": -6}),
        ({"reserved": 0}, {"reserved": 1}),
        ({"submitted": 1}, {"submitted": 3}),
        ({"submitted": 900}, {}),
        ({"latest_job": "gone"}, {"latest_job": -1}),
        ({"active": 0, "parked": 0}, {"active": 4, "parked": 1}),
        ({}, {}),
    ],
)
def test_each_counter_is_put_right(broken: dict[str, Any], corrected: dict[str, int]) -> None:
    world = a_world()
    before = deepcopy(world.state.accounts["ana"])
    world.state.accounts["ana"] = replace(before, **broken)
    assert bool(violations(world.state)) == bool(corrected)

    assert world.one(c.RecountAccount("ana")) == Recounted("ana", corrected)

    right = {"submitted": 900} if broken == {"submitted": 900} else {}
    right |= {"latest_job": None} if "latest_job" in corrected else {}
    assert world.state.accounts["ana"] == replace(before, **right)
    assert violations(world.state) == []
    assert world.one(c.RecountAccount("ana")) == Recounted("ana", {})


def test_the_room_that_files_take_is_counted_anew() -> None:
    world = a_world()
    name = ("FileUsage", "ana")
    before = world.state.keyed[name]
    world.state.keyed[name] = FileUsage("ana", 9, 1)
    assert violations(world.state) != []
    outcome = world.one(c.RecountAccount("ana"))
    assert isinstance(outcome, Recounted)
    assert set(outcome.corrected) == {"files", "size"}
    assert world.state.keyed[name] == before


def test_a_parked_job_that_nobody_would_start_becomes_ready() -> None:
    world = play("""
        plan free max_running=1
        open ana free credits=10
        submit ana j1 cost=1
        submit ana j2 cost=1
        submit ana j3 cost=1
        claim gpu w1
    """)
    # Somebody believed that jobs run which do not, so that the end of the last one started none.
    world.state.accounts["ana"] = replace(world.state.accounts["ana"], admitted=2)
    world.run(c.Finish("j1", c.Completed("1"), 1))
    assert violations(world.state) == ["account ana counts 1 admitted jobs, there are 0"]
    assert world.one(c.RecountAccount("ana")) == Recounted("ana", {"admitted": -1}, promoted=1)
    assert violations(world.state) == []
    assert world.state.accounts["ana"].admitted == 1


def test_neighbours_in_the_group_are_counted_once_and_money_is_left_alone() -> None:
    world = a_world()
    broken = replace(world.state.accounts["ana"], active=1, balance=1_000)
    world.state.accounts["ana"] = broken
    first, _, second = world.run(c.RecountAccount("ana"), c.CancelJob("later"), c.RecountAccount("ana"))
    assert (first, second) == (Recounted("ana", {"active": 3}), Recounted("ana", {}))
    assert world.state.accounts["ana"].active == 3
    assert world.state.accounts["ana"].balance == 1_005
    assert [sentence for sentence in violations(world.state) if "counts" in sentence] == []


def test_an_unknown_account_is_refused_and_a_new_one_has_nothing_to_correct() -> None:
    world = a_world()
    assert isinstance(world.one(c.RecountAccount("nobody")), Refusal)
    assert world.run(c.OpenAccount("zoe", "free", 5), c.RecountAccount("zoe"))[1] == Recounted("zoe", {})
