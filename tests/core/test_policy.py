"""The arithmetic of the rules: ranks, splits, pauses, and where hours, days and months begin."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ficha.core.ledger import undelivered
from ficha.core.policy import (
    DAY,
    HOUR,
    PRIORITY_MAX,
    PRIORITY_MIN,
    SECOND,
    Plan,
    aged_rank,
    backoff_ms,
    day_of,
    hour_of,
    month_of,
    priority_of,
    rank_of,
    split,
)
from tests.core.test_states import a_job

YEAR_2020 = 1_577_836_800 * SECOND
priorities = st.integers(PRIORITY_MIN, PRIORITY_MAX)
instants = st.integers(YEAR_2020, YEAR_2020 + 70 * 365 * DAY)
moments = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2090, 1, 1))


def micros(moment: datetime) -> int:
    return (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


# Rank


@given(priorities, instants, priorities, instants)
@pytest.mark.req("D4", "A2")
def test_ranks_order_strictly_by_priority_and_then_by_time(one: int, at: int, other: int, later: int) -> None:
    assert (rank_of(one, at) < rank_of(other, later)) == ((one, at) < (other, later))


@given(st.integers(PRIORITY_MIN, PRIORITY_MAX), st.integers(-(2**63), 2**63 - 1))
def test_a_rank_fits_a_signed_64_bit_integer_whatever_the_clock_says(priority: int, at: int) -> None:
    assert -(2**63) <= rank_of(priority, at) < 2**63
    assert rank_of(PRIORITY_MIN, 0) <= rank_of(priority, at) <= rank_of(PRIORITY_MAX, 2**63)


def test_a_clock_out_of_range_never_spills_into_the_priority() -> None:
    assert rank_of(10, 2**63) < rank_of(11, 0)
    assert rank_of(10, -(2**63)) > rank_of(9, 2**63)


@pytest.mark.req("D3")
@pytest.mark.parametrize(
    ("plan", "offset", "boost", "priority"),
    [(50, 0, 0, 50), (50, 0, 20, 30), (10, 10, 20, 0), (10, 0, 20, -10), (0, 9_999, 0, 2047), (0, -9_999, 0, -2048)],
)
def test_priority_is_the_plans_moved_by_tool_and_boost_within_its_bounds(
    plan: int, offset: int, boost: int, priority: int
) -> None:
    assert priority_of(Plan("any", priority=plan), offset, boost) == priority


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 300))
def test_ageing_never_makes_a_rank_worse_and_says_rightly_when_it_next_improves(
    waited_s: int, more_s: int, ageing_s: int
) -> None:
    plan = Plan("free", ageing_s=ageing_s)
    job = replace(a_job("queued"), priority=50, created_at=YEAR_2020)
    now = YEAR_2020 + waited_s * SECOND
    rank, ages_at = aged_rank(job, plan, now)
    assert ages_at is not None
    assert now < ages_at <= now + ageing_s * SECOND
    assert aged_rank(job, plan, ages_at - 1)[0] == rank
    assert aged_rank(job, plan, ages_at)[0] <= rank
    assert aged_rank(job, plan, now + more_s * SECOND)[0] <= rank


def test_without_ageing_a_rank_stands_still() -> None:
    job = replace(a_job("queued"), priority=50, created_at=YEAR_2020)
    for plan in (None, Plan("free"), Plan("free", ageing_s=0)):
        assert aged_rank(job, plan, YEAR_2020 + 99 * DAY) == (rank_of(50, YEAR_2020), None)


# Splits


@pytest.mark.req("D6")
def test_ten_by_four_is_four_three_three() -> None:
    assert split(10, 4) == [(4, 1), (3, 2)]
    assert split(8, 4) == [(4, 2)]
    assert split(4, 4) == [(4, 1)]
    assert split(5, 4) == [(3, 1), (2, 1)]
    assert split(1, 4) == [(1, 1)]


@given(st.integers(1, 10_000), st.integers(1, 100))
@pytest.mark.req("D6")
def test_a_split_adds_up_is_as_short_as_can_be_and_even(count: int, at_most: int) -> None:
    parts = [size for size, parts in split(count, at_most) for _ in range(parts)]
    assert sum(parts) == count
    assert len(parts) == -(-count // at_most)
    assert max(parts) <= at_most
    assert max(parts) - min(parts) <= 1


# Refunds in part


@given(st.integers(0, 10**12), st.integers(0, 20), st.integers(1, 20))
@pytest.mark.req("D9")
def test_a_partial_refund_never_favours_the_house_nor_exceeds_the_charge(charged: int, delivered: int, of: int) -> None:
    back = undelivered(charged, delivered, of)
    assert 0 <= back <= charged
    assert (charged - back) * of <= charged * min(delivered, of) < (charged - back + 1) * of


# Pauses


@given(
    st.integers(1, 3_600_000),
    st.integers(1, 86_400_000),
    st.integers(0, 1_000),
    st.floats(0, 1, exclude_max=True),
)
@pytest.mark.req("B6")
def test_a_pause_lies_in_the_upper_half_of_the_doubled_and_capped_one(
    first_ms: int, longest_ms: int, attempts: int, jitter: float
) -> None:
    running = a_job("running")
    spec = replace(running.spec, backoff_ms=first_ms, backoff_max_ms=longest_ms)
    job = replace(running, spec=spec, attempts=attempts)
    full = min(longest_ms, first_ms * 2 ** min(attempts, 40))
    assert full // 2 <= backoff_ms(job, jitter) <= full
    assert backoff_ms(job, 0.0) == full


# Hours, days, months


@given(moments)
@pytest.mark.req("D5", "C4")
def test_hours_days_and_months_begin_where_the_utc_calendar_says(moment: datetime) -> None:
    at = micros(moment)
    assert hour_of(at) == micros(moment.replace(minute=0, second=0, microsecond=0))
    assert day_of(at) == micros(moment.replace(hour=0, minute=0, second=0, microsecond=0))
    assert month_of(at) == micros(moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0))


@pytest.mark.req("C4")
@pytest.mark.parametrize("first", ["2024-03-01", "2026-01-01", "2026-03-01", "2028-02-29"])
def test_a_boundary_belongs_to_what_begins_there(first: str) -> None:
    at = micros(datetime.fromisoformat(first))
    assert (hour_of(at), day_of(at)) == (at, at)
    assert hour_of(at - 1) == at - HOUR
    assert day_of(at - 1) == at - DAY
    assert (month_of(at) == at) == first.endswith("-01")
    assert month_of(at - 1) < at
