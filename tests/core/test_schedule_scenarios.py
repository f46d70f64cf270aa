"""Schedules: a slot is settled once, with its job or with the reason why there is none."""

import pytest

from ficha.core.schedules import DuePlan, due
from tests.core.scenarios import play

BEGUN = """
        clock 10:00
        plan open
        plan ficha:schedules
        open ana open credits=10
        declare-schedule daily account=ana   -> active settled=10:00
        +1h
"""


def test_a_slot_is_fired_once() -> None:
    play(f"""
        {BEGUN}
        fire daily j1 account=ana cost=4 key=k1               -> j1 settled=11:00 fired=1
        fire daily j2 account=ana cost=4 key=k1 before=1h     -> unchanged
        fire daily j2 account=ana cost=4                      -> unchanged
        +1h
        fire daily j2 account=ana cost=4                      -> j2 settled=12:00 fired=2
        schedule daily                -> active fired=2 refused=0 last_job_id=j2 last_slot_at=12:00
        ledger ana                    -> grant 10, charge -4, charge -4
    """)


def test_a_slot_that_has_not_come_is_not_fired() -> None:
    play(f"""
        {BEGUN}
        -1us
        fire daily j1 account=ana                             -> unchanged
        fire other j1 account=ana                             -> unchanged
    """)


def test_a_refusal_settles_its_slot_and_is_told() -> None:
    play(f"""
        {BEGUN}
        fire daily j1 account=ana cost=11                     -> passed code=INSUFFICIENT_CREDITS settled=11:00
        schedule daily                -> active fired=0 refused=1 last_job_id=none says="needs 11"
        +1h
        fire daily error="no such picture"                    -> passed code=INVALID_PAYLOAD settled=12:00
        schedule daily                -> active refused=2 last_slot_at=12:00 says="no such picture"
        audit  -> system schedule_refused schedule daily, system schedule_refused schedule daily
        +1h
        fire daily j1 account=ana cost=10                     -> j1 fired=1 code=none
        account ana                   -> balance=0
    """)


def test_slots_that_are_passed_over_are_counted_and_told() -> None:
    play(f"""
        {BEGUN}
        +3h
        fire daily j1 account=ana after=4h least=3            -> j1 settled=14:00
        +2h
        fire daily after=2h least=2                           -> passed settled=16:00
        schedule daily                -> active fired=1 missed=5 last_slot_at=14:00
        audit  -> system schedule_missed schedule daily, system schedule_missed schedule daily
    """)


def test_what_passes_while_it_is_paused_is_not_made_up_for() -> None:
    play(f"""
        {BEGUN}
        pause-schedule daily          -> paused settled=11:00
        pause-schedule daily          -> paused changed=no
        +2h
        fire daily j1 account=ana     -> unchanged
        resume-schedule daily         -> active settled=13:00
        fire daily j1 account=ana     -> unchanged
        pause-schedule other          -> NOT_FOUND
        run-schedule other j1         -> NOT_FOUND
    """)


def test_other_times_begin_when_they_are_declared_and_the_old_ones_fire_no_more() -> None:
    play(f"""
        {BEGUN}
        declare-schedule daily account=ana            -> active changed=no settled=10:00
        declare-schedule daily account=bob            -> active settled=10:00
        declare-schedule daily every=60s account=ana  -> active settled=11:00
        +1h
        fire daily j1 account=ana                     -> unchanged
        fire daily j1 account=ana every=60s           -> j1
    """)


def test_a_run_by_hand_leaves_the_slots_alone() -> None:
    play(f"""
        {BEGUN}
        run-schedule daily j1 account=ana cost=3 key=k1    -> j1 settled=10:00 fired=1
        run-schedule daily j2 account=ana cost=3 key=k1    -> unchanged
        run-schedule daily j3 account=ana cost=30          -> INSUFFICIENT_CREDITS
        schedule daily                -> active fired=1 refused=0 last_slot_at=none last_job_id=j1
        fire daily j2 account=ana cost=3                   -> j2 settled=11:00 fired=2
    """)


def test_free_jobs_have_an_account_of_their_own() -> None:
    play("""
        clock 10:00
        plan ficha:schedules
        declare-schedule free         -> active
        account ficha:schedules       -> balance=0 active=0
        +1h
        fire free j1                  -> j1
        account ficha:schedules       -> balance=0 active=1
    """)


@pytest.mark.parametrize(
    ("missed", "slots", "plan"),
    [
        ("skip", [], DuePlan((), 0, None)),
        ("skip", [30, 90], DuePlan((90,), 1, 90)),
        ("skip", [30, 60], DuePlan((), 2, 60)),
        ("once", [30, 60], DuePlan((60,), 1, 60)),
        ("all", [10, 30, 60], DuePlan((30, 60), 1, 60)),
        ("all", [30, 60], DuePlan((30, 60), 0, 60)),
    ],
)
def test_what_becomes_of_missed_slots(missed: str, slots: list[int], plan: DuePlan) -> None:
    """It is 100, what is 40 late is missed, and at most two are made up for."""
    assert due(slots, 100, missed, 40, 2) == plan  # type: ignore[arg-type]
