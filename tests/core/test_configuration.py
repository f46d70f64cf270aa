"""Changed prices, plans and limits: one line for all processes, saying which values changed."""

from ficha.core import commands as c
from ficha.core.audit import SYSTEM
from ficha.core.configuration import SHAPES_KEPT, SUBJECTS_TOLD, TOLD_S
from ficha.core.records import AuditLine, Configuration
from tests.core.world import World

SECOND = 1_000_000
BASE = {
    "tool draw": {"price": "5"},
    "plan pro": {"per_hour": "10", "max_active": "none"},
    "limits": {"batch_jobs": "9"},
}


def started(world: World, **changed: dict[str, str]) -> list[AuditLine]:
    """The lines that a start leaves; `tool_draw` stands for the subject "tool draw"."""
    before = len(world.state.audit)
    subjects = BASE | {name.replace("_", " ", 1): fields for name, fields in changed.items()}
    world.run(c.NoteConfiguration(subjects))
    return world.state.audit[before:]


def test_the_first_start_of_all_leaves_no_line_and_the_first_with_other_values_one() -> None:
    world = World()
    assert started(world) == []
    world.now += SECOND
    [line] = started(world, tool_draw={"price": "6"}, plan_pro={"per_hour": "20", "max_active": "none"})
    assert (line.actor, line.act, line.target) == (SYSTEM, "configure", "the application")
    assert line.details == {"tool draw": "price 5 → 6", "plan pro": "per_hour 10 → 20"}
    for _ in range(3):
        assert started(world, tool_draw={"price": "6"}, plan_pro={"per_hour": "20", "max_active": "none"}) == []


def test_two_processes_that_start_in_one_group_leave_one_line() -> None:
    world = World()
    started(world)
    note = c.NoteConfiguration(BASE | {"tool draw": {"price": "6"}})
    world.run(note, note)
    assert len(world.state.audit) == 1


def test_a_change_that_is_taken_back_is_told_and_starts_by_turns_leave_a_line_for_each_value_only() -> None:
    world = World()
    started(world)
    lines = []
    for turn in range(10):
        world.now += SECOND
        lines += started(world, tool_draw={"price": "56"[turn % 2]})
    assert [line.details for line in lines] == [{"tool draw": "price 5 → 6"}, {"tool draw": "price 6 → 5"}]
    world.now += TOLD_S * SECOND
    assert [line.details for line in started(world, tool_draw={"price": "6"})] == [{"tool draw": "price 5 → 6"}]


def test_tools_that_a_process_does_not_declare_are_left_and_new_ones_are_told() -> None:
    world = World()
    started(world)
    world.run(c.NoteConfiguration({"tool other": {"price": "1"}}))
    assert [line.details for line in world.state.audit] == [{"tool other": "new: price 1"}]
    assert started(world) == []
    assert started(world, settings={"lease_ms": "1"}) == []
    assert len(started(world, settings={"lease_ms": "2"})) == 1


def test_what_another_release_of_ficha_has_more_or_less_is_no_change() -> None:
    world = World()
    started(world)
    assert started(world, limits={"batch_jobs": "9", "new_limit": "1"}) == []
    assert started(world, limits={"batch_jobs": "9"}) == []
    [line] = started(world, limits={"batch_jobs": "9", "new_limit": "2"})
    assert line.details == {"limits": "new_limit 1 → 2"}


def test_a_line_and_the_row_have_bounds() -> None:
    world = World()
    for price in range(SHAPES_KEPT + 3):
        world.now += SECOND
        started(world, **{f"tool_t{number}": {"price": str(price)} for number in range(SUBJECTS_TOLD + 5)})
    line = world.state.audit[-1]
    assert len(line.details) == SUBJECTS_TOLD + 1
    assert line.details["more"] == 5
    [row] = world.state.of(Configuration).values()
    assert {len(shapes) for name, shapes in row.subjects.items() if name.startswith("tool t")} == {SHAPES_KEPT}
    [line] = started(world, tool_draw={"price": "9" * 1_000})
    assert len(line.details["tool draw"]) < 300
