"""Checkpoints that a tool declares: which may be saved when, and what a resumed handler may say again."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.core import commands as c
from ficha.core.checkpoints import Checkpoints
from ficha.core.policy import Plan
from ficha.declarations import declared_checkpoints
from tests.core.scenarios import play
from tests.core.world import World
from tests.support.new_jobs import new_job

HELD = """
        clock 10:00
        plan free
        open ana free credits=99
        submit ana j1 cost=5 attempts=3 backoff=10s
        claim gpu w1                               -> j1 epoch=1
"""
RESUMED = """
        +60s
        recover j1                                 -> requeued
        claim gpu w2                               -> j1 epoch=2
"""


@pytest.mark.req("E2")
def test_a_line_of_checkpoints_is_saved_in_its_order() -> None:
    play(f"""
        checkpoints FETCHED PAINTED STORED
        {HELD}
        checkpoint j1 e1 PAINTED 50%               -> INVALID_STATE says="has no checkpoint yet"
        checkpoint j1 e1 FETCHED 10%               -> starting
        checkpoint j1 e1 STORED 90%                -> INVALID_STATE says="may save 'PAINTED', not 'STORED'"
        job j1                                     -> starting checkpoint=FETCHED progress=10
        checkpoint j1 e1 PAINTED 50%               -> starting
        checkpoint j1 e1 STORED 90%                -> starting
        job j1                                     -> starting checkpoint=STORED progress=90
    """)


@pytest.mark.req("E2")
def test_a_branch_once_taken_is_not_left_for_the_other() -> None:
    play(f"""
        checkpoints ASKED>DRAWN,FOUND DRAWN>SENT FOUND>SENT SENT>
        {HELD}
        checkpoint j1 e1 ASKED 10%                 -> starting
        checkpoint j1 e1 SENT 90%                  -> INVALID_STATE says="may save 'DRAWN', 'FOUND', not 'SENT'"
        checkpoint j1 e1 FOUND 50%                 -> starting
        checkpoint j1 e1 DRAWN 50%                 -> INVALID_STATE says="is at checkpoint 'FOUND'"
        checkpoint j1 e1 SENT 90%                  -> starting
        checkpoint j1 e1 DRAWN 50%                 -> starting
        job j1                                     -> starting checkpoint=SENT progress=90
    """)


@pytest.mark.req("E2")
def test_a_checkpoint_that_is_not_declared_is_refused_by_name() -> None:
    play(f"""
        checkpoints FETCHED PAINTED
        {HELD}
        checkpoint j1 e1 FETCHD 10%                -> INVALID_ARGUMENT says="no checkpoint 'FETCHD', only 'FETCHED', 'P"
        checkpoint j1 e2 FETCHD 10%                -> LEASE_LOST
    """)


@pytest.mark.req("E2", "E3")
def test_the_same_checkpoint_is_saved_again_with_newer_data() -> None:
    play(f"""
        checkpoints ITEMS DONE
        {HELD}
        checkpoint j1 e1 ITEMS 10% data='[3]'      -> starting
        checkpoint j1 e1 ITEMS 20% data='[7]'      -> starting
        job j1                                     -> starting checkpoint=ITEMS progress=20 data=[7]
    """)


@pytest.mark.req("E2", "E3")
def test_a_resumed_handler_says_again_what_it_said_and_nothing_is_lost() -> None:
    play(f"""
        checkpoints FETCHED PAINTED STORED
        {HELD}
        checkpoint j1 e1 FETCHED 10%
        checkpoint j1 e1 PAINTED 50% data='[7]'
        {RESUMED}
        checkpoint j1 e2 FETCHED 10% data='[0]'    -> starting until=10:02
        job j1                                     -> starting checkpoint=PAINTED progress=50 data=[7]
        events j1                                  -> submitted claimed checkpoint checkpoint recovered claimed
        checkpoint j1 e2 PAINTED 55% data='[8]'    -> starting
        checkpoint j1 e2 STORED 90%                -> starting
        job j1                                     -> starting checkpoint=STORED progress=90
    """)


@pytest.mark.req("E2", "E3")
def test_after_a_checkpoint_that_is_no_longer_declared_the_job_begins_anew() -> None:
    play(f"""
        {HELD}
        checkpoint j1 e1 OLD 70% data='[7]'
        checkpoints FETCHED PAINTED
        {RESUMED}
        job j1                                     -> starting checkpoint=OLD progress=70 data=[7]
        checkpoint j1 e2 OLD 80%                   -> INVALID_ARGUMENT
        checkpoint j1 e2 PAINTED 50%               -> INVALID_STATE says="is at checkpoint 'OLD', after which"
        checkpoint j1 e2 FETCHED 10%               -> starting
        job j1                                     -> starting checkpoint=FETCHED progress=10 data={{}}
    """)


@pytest.mark.req("E2")
def test_in_a_loop_each_may_come_round_again() -> None:
    play(f"""
        checkpoints DRAFT>REVIEW REVIEW>DRAFT,DONE DONE>
        {HELD}
        checkpoint j1 e1 REVIEW 20%                -> INVALID_STATE
        checkpoint j1 e1 DRAFT 10% data='[1]'      -> starting
        checkpoint j1 e1 REVIEW 20%                -> starting
        checkpoint j1 e1 DRAFT 30% data='[2]'      -> starting
        job j1                                     -> starting checkpoint=DRAFT progress=30 data=[2]
        checkpoint j1 e1 DONE 90%                  -> INVALID_STATE
    """)


@pytest.mark.req("E2")
def test_checkpoints_of_one_commit_group_are_judged_one_after_the_other() -> None:
    play(f"""
        checkpoints FETCHED PAINTED STORED
        {HELD}
        together
            checkpoint j1 e1 FETCHED 10%           -> starting
            checkpoint j1 e1 STORED 90%            -> INVALID_STATE
            checkpoint j1 e1 PAINTED 50%           -> starting
        job j1                                     -> starting checkpoint=PAINTED progress=50
    """)


@given(st.lists(st.sampled_from("ABCDEF"), min_size=1, max_size=6, unique=True))
def test_in_a_line_exactly_the_earlier_ones_lie_before(names: list[str]) -> None:
    declared = declared_checkpoints(names)
    for at, name in enumerate(names):
        assert declared.after(name) == tuple(names[at + 1 : at + 2])
        assert [declared.lies_before(name, other) for other in names] == [other > at for other in range(len(names))]


NAMES = "ABCD"
DECLARED = st.builds(
    Checkpoints,
    st.fixed_dictionaries(
        {name: st.sets(st.sampled_from(NAMES)).map(lambda names: tuple(sorted(names))) for name in NAMES}
    ),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True).map(tuple),
)


@pytest.mark.req("E2")
@given(DECLARED, st.lists(st.sampled_from((*NAMES, "X")), max_size=12))
def test_whatever_is_said_the_checkpoints_saved_are_a_way_through_those_declared(
    declared: Checkpoints, said: list[str]
) -> None:
    world = World()
    world.declare(Plan("free"))
    world.declare_pools(gpu=None)
    world.run(c.OpenAccount("ana", "free"), c.Submit("ana", (new_job("j1", "paint", "gpu", "{}", 0),)))
    world.run(c.Claim("w1", ("gpu",)))
    world.run(*(c.SaveCheckpoint("j1", 1, name, declared=declared) for name in said))
    saved = [event.data["name"] for event in world.state.events if event.kind == "checkpoint" and event.data]
    for before, name in pairwise([None, *saved]):
        assert name == before or name in declared.after(before)
    job = world.state.jobs["j1"]
    assert (job.checkpoint.name if job.checkpoint else None) == (saved[-1] if saved else None)


def test_without_a_checkpoint_that_is_known_a_job_begins_with_a_first_one() -> None:
    declared = declared_checkpoints({"A": ["C"], "B": {"C"}, "C": ()})
    assert declared == Checkpoints({"A": ("C",), "B": ("C",), "C": ()}, first=("A", "B"))
    assert declared.after(None) == declared.after("gone") == ("A", "B")
