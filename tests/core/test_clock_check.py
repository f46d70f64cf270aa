"""When a process that goes by its own clock may act by it, and when it may not."""

from __future__ import annotations

from itertools import count

import pytest

from ficha.core.clock_check import APART, ClockCheck, ClockLook
from ficha.core.policy import SECOND

HOLD_S = 30.0
NOON = 1_000_000 * SECOND
HOUR_S = 3_600.0


class Process:
    """A process whose clocks the test moves, and its check."""

    def __init__(self) -> None:
        self.check = ClockCheck(HOLD_S)
        self.now = NOON
        self.ticks_s = 0.0
        self._numbers = count(1)

    def passes(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.ticks_s += seconds

    def look(self, *theirs_s: float, is_over: bool = False) -> str | None:
        """A look that sees commits of others, each so many seconds from now by this process's clock."""
        theirs = [self.now + int(seconds * SECOND) for seconds in theirs_s]
        return self.check.judge(ClockLook(self.now, self.ticks_s, next(self._numbers), theirs, is_over))


@pytest.fixture
def process() -> Process:
    return Process()


@pytest.fixture
def trusted(process: Process) -> Process:
    assert process.look() is None
    return process


def test_a_database_that_only_this_process_wrote_says_nothing_against_its_clock(process: Process) -> None:
    assert process.check.seen is None
    assert process.look(is_over=True) is None
    assert process.check.seen == 1


def test_a_first_look_at_a_fresh_commit_trusts_the_clock(process: Process) -> None:
    assert process.look(-5.0, -HOUR_S, is_over=True) is None


def test_a_first_look_at_an_old_commit_doubts_only_if_something_held_is_over(process: Process) -> None:
    assert process.look(-HOUR_S) is None
    other = Process()
    assert "is 3600 s old" in (other.look(-HOUR_S, is_over=True) or "")
    other.passes(HOLD_S - 1)
    assert other.look() is not None
    other.passes(1)
    assert other.look() is None


def test_a_first_look_at_a_commit_from_the_future_doubts(process: Process) -> None:
    assert "3600 s ahead" in (process.look(HOUR_S) or "")


@pytest.mark.parametrize(("by_s", "word"), [(HOUR_S, "ahead"), (-HOUR_S, "back"), (5.01, "ahead"), (-5.01, "back")])
def test_a_jump_of_this_clock_is_doubted_for_the_hold_and_no_longer(trusted: Process, by_s: float, word: str) -> None:
    trusted.passes(1)
    trusted.now += int(by_s * SECOND)
    assert f"s {word}" in (trusted.look() or "")
    trusted.passes(HOLD_S)
    assert trusted.look() is None


def test_a_small_step_of_this_clock_is_none(trusted: Process) -> None:
    trusted.now += APART
    assert trusted.look() is None


def test_a_long_time_between_two_looks_is_no_jump(trusted: Process) -> None:
    trusted.passes(HOUR_S)
    assert trusted.look() is None


@pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S, 5.01])
def test_a_commit_by_another_clock_is_doubted_even_among_sound_ones(trusted: Process, by_s: float) -> None:
    assert trusted.look(-0.1, by_s, -0.2) is not None


def test_commits_since_the_last_look_agree_however_long_ago_that_was(trusted: Process) -> None:
    trusted.passes(60)
    assert trusted.look(-60.0, -30.0, 0.0, 5.0, -65.0) is None
    assert "6 s behind" in (trusted.look(-6.0) or "")


def test_each_disagreement_renews_the_doubt(trusted: Process) -> None:
    for _ in range(10):
        assert trusted.look(HOUR_S) is not None
        trusted.passes(HOLD_S - 1)
        assert trusted.look(-1.0) is not None
    trusted.passes(1)
    assert trusted.look() is None
