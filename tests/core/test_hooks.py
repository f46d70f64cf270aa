"""Hooks: owed with the job's end however it ended, run by one at a time, and gone when they were run."""

from collections.abc import Callable

import pytest

from ficha.core import commands as c
from ficha.core.outcomes import HookEnded, HookHeld
from ficha.core.policy import SECOND, HookTerms, Plan, Policy, hook_backoff_ms
from ficha.core.records import PendingHook
from tests.core.world import World
from tests.support.new_jobs import new_job

ENDS = frozenset({"completed", "failed", "cancelled"})
TOLD = HookTerms("told", ENDS)
PAID_BACK = HookTerms("paid back", frozenset({"failed", "cancelled"}), frozenset({"image"}))


def world(*hooks: HookTerms) -> World:
    made = World(Policy(plans={"free": Plan("free")}, hooks=hooks))
    made.declare_pools(gpu=None)
    made.run(c.OpenAccount("ana", "free", credits=100))
    return made


def submit(made: World, name: str = "j1", tool: str = "image", **changes: object) -> None:
    made.run(c.Submit("ana", (new_job(name, tool, "gpu", "{}", cost=5, **changes),)))


def owed(made: World) -> set[tuple[str, str]]:
    assert made.faults() == []
    return set(made.state.hooks)


Ending = Callable[[World], object]

ENDINGS: dict[str, tuple[Ending, set[str]]] = {
    "completed": (lambda made: made.run(c.Claim("w1", ("gpu",)), c.Finish("j1", c.Completed("1"), 1)), {"told"}),
    "failed": (
        lambda made: made.run(c.Claim("w1", ("gpu",)), c.Finish("j1", c.Failed("no"), 1)),
        {"told", "paid back"},
    ),
    "cancelled while it waits": (lambda made: made.one(c.CancelJob("j1")), {"told", "paid back"}),
    "retried": (lambda made: made.run(c.Claim("w1", ("gpu",)), c.Finish("j1", c.RetryLater(1), 1)), set()),
    "handed back": (lambda made: made.run(c.Claim("w1", ("gpu",)), c.Finish("j1", c.Interrupted("x"), 1)), set()),
    "started": (lambda made: made.run(c.Claim("w1", ("gpu",))), set()),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_job_that_ended_owes_the_hooks_that_are_for_it_and_no_others(how: str) -> None:
    ending, names = ENDINGS[how]
    made = world(TOLD, PAID_BACK)
    submit(made)
    ending(made)
    assert owed(made) == {(name, "j1") for name in names}


def test_a_hook_of_another_tool_is_not_owed() -> None:
    made = world(PAID_BACK)
    submit(made, tool="video")
    made.one(c.CancelJob("j1"))
    assert owed(made) == set()


def test_time_that_ends_a_job_owes_its_hooks() -> None:
    made = world(TOLD)
    submit(made, timeout_ms=1_000)
    made.one(c.Claim("w1", ("gpu",)))
    made.now += 2 * SECOND
    made.run(c.Heartbeat("j1", 1), c.Recover("j1"))
    assert owed(made) == {("told", "j1")}


def test_a_submit_that_an_earlier_result_answers_owes_its_hooks_too() -> None:
    made = world(TOLD)
    submit(made, content_hash="same")
    made.run(c.Claim("w1", ("gpu",)), c.Finish("j1", c.Completed("1"), 1))
    submit(made, "j2", content_hash="same")
    assert owed(made) == {("told", "j1"), ("told", "j2")}


def test_a_second_end_owes_nothing_more() -> None:
    made = world(TOLD)
    submit(made)
    made.one(c.CancelJob("j1"))
    made.run(c.HoldHook("told", "j1", 1_000), c.EndHook("told", "j1", 1))
    made.run(c.CancelJob("j1"), c.Finish("j1", c.Completed("1")))
    assert owed(made) == set()


def test_one_at_a_time_holds_a_hook_and_a_dead_one_is_followed_by_another() -> None:
    made = world(TOLD)
    submit(made)
    made.one(c.CancelJob("j1"))
    ended_at = made.now
    assert made.one(c.HoldHook("told", "j1", 70_000)) == HookHeld(
        PendingHook("told", "j1", ended_at + 70 * SECOND, attempts=1)
    )
    assert made.one(c.HoldHook("told", "j1", 70_000)) == HookHeld(None)
    made.now += 70 * SECOND
    second = made.one(c.HoldHook("told", "j1", 70_000))
    assert isinstance(second, HookHeld)
    assert second.hook is not None
    assert second.hook.attempts == 2
    # The first one was only slow: its word does not count any more.
    assert made.one(c.EndHook("told", "j1", 1)) == HookEnded(changed=False)
    assert owed(made) == {("told", "j1")}
    assert made.one(c.EndHook("told", "j1", 2)) == HookEnded(changed=True)
    assert owed(made) == set()
    assert made.one(c.HoldHook("told", "j1", 70_000)) == HookHeld(None)
    assert made.one(c.EndHook("told", "j1", 2)) == HookEnded(changed=False)


def test_a_hook_that_fails_is_due_again_after_ever_longer_pauses() -> None:
    made = world(TOLD)
    submit(made)
    made.one(c.CancelJob("j1"))
    for attempt, pause_s in ((1, 1), (2, 2), (3, 4)):
        assert made.one(c.HoldHook("told", "j1", 1_000)) != HookHeld(None)
        made.one(c.EndHook("told", "j1", attempt, "it broke"))
        hook = made.state.hooks["told", "j1"]
        assert (hook.attempts, hook.error, hook.due_at) == (attempt, "it broke", made.now + pause_s * SECOND)
        assert made.one(c.HoldHook("told", "j1", 1_000)) == HookHeld(None)
        made.now = hook.due_at
    assert [hook_backoff_ms(attempts) for attempts in (0, 1, 9, 10, 1_000)] == [1_000, 1_000, 256_000, 300_000, 300_000]


def test_a_job_that_does_not_exist_has_no_hooks() -> None:
    made = world(TOLD)
    assert made.run(c.HoldHook("told", "j9", 1), c.EndHook("told", "j9", 1)) == [HookHeld(None), HookEnded(False)]
