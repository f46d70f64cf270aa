"""The library: completed work, which its owner can remove; what was paid for it stays in the ledger."""

import pytest

from ficha.core.history import history
from tests.core.scenarios import play

DONE = """
        plan free max_running=1
        open ana free credits=10
        submit ana j1 cost=5 attempts=2 tool=video content=abc
        claim gpu w1                               -> j1
        step j1 e1 paint '"a cat"'
        checkpoint j1 e1 HALF 50% data='{"seen": "a cat"}'
        note j1 e1 text="the cat is grey"
        finish j1 e1 completed result='"a grey cat"'      -> completed
        finish j1 e1 completed result='"another cat"'     -> unchanged
        +1m
"""


@pytest.mark.req("D12")
def test_removed_work_is_gone_and_its_row_and_its_ledger_stay() -> None:
    world = play(f"""
        {DONE}
        remove ana j1                              -> removed
        job j1                                     -> completed result=null payload=null data=null charged=5 refunded=0
        job j1                                     -> completed removed_at=00:01 checkpoint=HALF events=9
        ledger ana                                 -> grant 10, charge -5
        account ana                                -> balance=5 submitted=1 active=0
        remove ana j1                              -> unchanged
    """)
    assert world.state.steps == {}
    kept = history(world.state.jobs["j1"], world.store.history["j1"])
    assert "cat" not in str(kept)
    assert [event.kind for event in kept][-3:] == ["completed", "late", "removed"]


@pytest.mark.req("D10", "D12")
def test_nobody_removes_what_is_not_theirs_or_not_completed() -> None:
    play(f"""
        {DONE}
        open bob free credits=10
        remove bob j1                              -> NOT_FOUND
        remove bob j9                              -> NOT_FOUND
        submit ana j2 cost=5
        remove ana j2                              -> INVALID_STATE status=queued says="Only completed work"
        cancel j2
        remove ana j2                              -> INVALID_STATE status=cancelled
        as boss remove ana j1                      -> removed
    """)


@pytest.mark.req("B7", "D12")
def test_a_removed_result_answers_nobody_any_more() -> None:
    play(f"""
        {DONE}
        remove ana j1                              -> removed
        submit ana j2 cost=5 tool=video content=abc  -> queued balance=0
        claim gpu w1                               -> j2
        finish j2 e1 completed result='"a new cat"'
        remove ana j1                              -> unchanged
        submit ana j3 cost=5 tool=video content=abc  -> completed balance=0
        job j3                                     -> completed result='"a new cat"'
    """)


@pytest.mark.req("D12")
def test_what_ends_and_is_removed_in_one_commit_group_leaves_nothing() -> None:
    world = play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1
        together
            step j1 e1 paint '"a cat"'
            note j1 e1 text="the cat is grey"
            finish j1 e1 completed result='"a grey cat"'  -> completed
            remove ana j1                          -> removed
            finish j1 e1 completed result='"a late cat"'  -> unchanged
        job j1                                     -> completed result=null payload=null late_finishes=1
    """)
    assert world.state.steps == {}
    assert "cat" not in str(world.store.history["j1"])


@pytest.mark.req("A5", "D12")
def test_a_late_word_about_removed_work_is_counted_and_not_kept() -> None:
    world = play("""
        plan free
        open ana free credits=10
        submit ana j1 cost=5
        claim gpu w1                               -> j1
        finish j1 e1 completed result='"a grey cat"'      -> completed
        remove ana j1                              -> removed
        finish j1 e1 completed result='"a late cat"'      -> unchanged
        job j1                                     -> completed late_finishes=1 result=null
    """)
    assert "cat" not in str(world.store.history["j1"])


@pytest.mark.req("D12")
def test_the_files_of_removed_work_go_with_it_but_for_those_that_other_jobs_have() -> None:
    play("""
        plan free
        open ana free credits=10
        open bob free credits=10
        upload ana f1 size=10
        stored f1 10
        upload ana f2 size=10
        stored f2 10
        submit ana j1 cost=1 files=f1,f2
        submit ana j2 cost=1 files=f2
        claim gpu w1 limit=2                       -> j1, j2
        save j1 e1 f3
        stored f3 5
        finish j1 e1 completed
        finish j2 e1 completed
        upload bob f4 size=10
        stored f4 10
        files ana                                  -> 3 files 25 bytes
        remove ana j1 files=f1,f2,f3,f4,f9         -> removed files=f1,f3
        file f1                                    -> removed
        file f2                                    -> stored
        file f3                                    -> removed
        file f4                                    -> stored
        files ana                                  -> 1 files 10 bytes
        remove ana j1 files=f2                     -> unchanged
        file f2                                    -> stored
    """)
