"""The pace of a pool: how many left its line between two looks, found without walking through it."""

from __future__ import annotations

import random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ficha.engine import drain_rate
from ficha.engine.drain_rate import SAMPLE, drained_count
from ficha.store.waiting_columns import Key, Lines
from tests.engine.waiting_columns import lines_of


def waiting(jobs: range, rank: int = 0) -> list[Key]:
    """Jobs that came in the order of their numbers, some of them together."""
    return [(rank + number // 3, str(UUID(int=number))) for number in jobs]


def left(before: list[Key], after: list[Key]) -> int:
    return drained_count(lines_of({"gpu": before}), lines_of({"gpu": sorted(after)}), "gpu")


@given(length=st.integers(0, 300), taken=st.integers(0, 300), came=st.integers(0, 50))
def test_those_that_left_the_head_are_counted_to_the_last_one(length: int, taken: int, came: int) -> None:
    before = waiting(range(length))
    after = before[taken:] + waiting(range(length, length + came))
    assert left(before, after) == len(set(before) - set(after)) == min(taken, length)


@given(taken=st.integers(0, 600), chance=st.randoms(use_true_random=False))
def test_one_that_comes_back_or_goes_from_the_middle_changes_little(taken: int, chance: random.Random) -> None:
    before = waiting(range(600))
    back = chance.sample(before[:taken], min(3, taken))
    cancelled = set(chance.sample(before, 3))
    after = [*back, *(key for key in before[taken:] if key not in cancelled)]
    assert abs(left(before, after) - taken) <= 6


def test_the_head_alone_does_not_decide() -> None:
    before = waiting(range(1_000))
    assert left(before, [*before[:3], *before[700:]]) == 700
    assert left(before, before[1:]) == 1
    assert left(before, [*before[:300], *before[301:]]) == 0, "one that left from the middle was not taken by its turn"


def test_a_job_whose_rank_improved_has_not_left() -> None:
    """Where a plan ages, the keys of all its jobs change from time to time."""
    before = waiting(range(1_000), rank=10_000)
    assert left(before, waiting(range(1_000), rank=9_000)) == 0
    assert left(before, waiting(range(40, 1_000), rank=9_000)) == 40
    aged, others = waiting(range(40, 500), rank=9_000), before[500:]
    assert left(before, aged + others) == 40


def test_those_that_left_a_long_line_are_counted_up_to_a_bound_where_all_ranks_improved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drain_rate, "SEARCHED", 200)
    before, aged = waiting(range(1_000), rank=10_000), waiting(range(1_000))
    assert left(before, aged) == 0
    assert left(before, aged[130:]) == 130
    assert left(before, aged[200:]) == 200
    assert 200 <= left(before, aged[600:]) <= 200 + SAMPLE, "further ones are not searched for"


def test_many_better_ones_that_come_in_do_not_hide_who_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_rate, "SEARCHED", 200)
    before, better = waiting(range(1_000), rank=10_000), waiting(range(1_000, 2_000))
    assert left(before, better + before[150:]) == 150


def test_a_pool_that_nobody_waits_in_any_more_and_one_that_is_new() -> None:
    before = lines_of({"cpu": waiting(range(50))})
    assert drained_count(before, Lines(), "cpu") == 50
    assert drained_count(Lines(), before, "cpu") == 0


def test_the_lines_of_other_pools_do_not_count() -> None:
    before = lines_of({"a": waiting(range(20)), "cpu": waiting(range(20, 80)), "z": waiting(range(80, 90))})
    after = lines_of({"a": waiting(range(10)), "cpu": waiting(range(50, 80)), "z": waiting(range(20, 50))})
    assert drained_count(before, after, "cpu") == 30
