"""What commits did, added up: whatever happens, the sums say what the jobs and the ledger say."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ficha.core import commands as c
from ficha.core.error_groups import NO_REASON, REASON_LENGTH, error_reason
from ficha.core.figures import (
    CURSOR,
    MOST_LEFT_OUT,
    MOST_REASONS,
    MOST_SERIES,
    STEPS,
    TOTAL,
    bucket_bounds,
    duration_bucket,
    percentile_s,
    rollup_key,
    total,
)
from ficha.core.measures import BEYOND, MOST_PROVIDERS, OTHER, all_measures
from ficha.core.outcomes import Folded, Forgotten
from ficha.core.policy import DAY, HOUR, MILLISECOND, SECOND
from ficha.core.records import FigureCursor, Figures, Histogram, JobCounts, Measures, QueueCount, Rollup
from tests.core.strategies import POLICY, START_AT, Workload, workloads
from tests.core.world import World
from tests.support.figure_sums import as_the_state_says
from tests.support.new_jobs import new_job

MINUTE = STEPS["minute"]


def folded(world: World, number: int, *parts: tuple[int, Figures], turn: int | None = None, **more: object) -> Folded:
    cursor = world.state.of(FigureCursor).get(CURSOR, FigureCursor(CURSOR))
    command = c.FoldFigures(cursor.turn if turn is None else turn, number, world.now, parts, **more)  # type: ignore[arg-type]
    outcome = world.one(command)
    assert isinstance(outcome, Folded)
    return outcome


def rolled_up(world: World, level: str) -> Figures:
    return total(rollup.figures for key, rollup in world.state.of(Rollup).items() if key.startswith(level))


def cursor_of(world: World) -> FigureCursor:
    return world.state.of(FigureCursor)[CURSOR]


# Each commit, and all of them


@given(workloads())
def test_the_figures_of_all_commits_say_what_the_jobs_and_the_ledger_say(workload: Workload) -> None:
    world = World(POLICY, now=START_AT)
    for step, group in workload:
        world.now += step
        world.run(*group)
    told = [row.figures for row in world.store.commit_rows if row.figures is not None]
    assert total(told) == as_the_state_says(world.state)


@given(workloads())
def test_a_group_has_the_figures_of_its_commands_one_by_one(workload: Workload) -> None:
    grouped, single = World(POLICY, now=START_AT), World(POLICY, now=START_AT)
    for step, group in workload:
        grouped.now += step
        single.now += step
        grouped.run(*group)
        parts = []
        for command in group:
            single.run(command)
            parts.append(single.changes.figures)
        assert total(filter(None, [grouped.changes.figures])) == total(filter(None, parts))


@given(workloads(), st.data())
def test_each_commit_counts_once_whoever_folds_and_whatever_is_sent_twice(
    workload: Workload, data: st.DataObject
) -> None:
    """Folds of any part, at any time; commands that are sent again, late, or by somebody who was overtaken."""
    world = World(POLICY, now=START_AT)
    sent: list[c.FoldFigures] = []
    for step, group in workload:
        world.now += step
        others = (c.FoldFigures, c.CorrectQueue, c.ForgetRollups)
        world.run(*(one for one in group if not isinstance(c.unwrapped(one), others)))
        for _ in range(data.draw(st.integers(0, 2))):
            if sent and data.draw(st.booleans()):
                world.one(data.draw(st.sampled_from(sent)))
                continue
            cursor = world.state.of(FigureCursor).get(CURSOR, FigureCursor(CURSOR))
            page = [row for row in world.store.commit_rows if row.number > cursor.number]
            page = page[: data.draw(st.integers(0, len(page)))]
            if page:
                parts = tuple((row.at - row.at % MINUTE, row.figures) for row in page if row.figures is not None)
                minutes = {at: total(figures for begin, figures in parts if begin == at) for at, _ in parts}
                measures = all_measures(row.figures.measures for row in page if row.figures is not None)
                number = page[-1].number
                sent.append(c.FoldFigures(cursor.turn, number, world.now, tuple(minutes.items()), measures=measures))
                world.one(sent[-1])
    if world.state.of(FigureCursor):
        counted = [row.figures for row in world.store.commit_rows if row.number <= cursor_of(world).number]
        expected = total(filter(None, counted))
        assert rolled_up(world, "minute") == rolled_up(world, "hour") == expected
        if TOTAL in world.state.of(Rollup):
            counters = world.state.of(Rollup)[TOTAL].figures
            assert counters.measures == all_measures(figures.measures for figures in counted if figures is not None)
            assert (counters.counts, counters.charged) == (expected.counts, expected.charged)
        waiting = tuple(QueueCount(one.plan, one.tool, one.pool, one.ready, one.parked) for one in expected.counts)
        assert {one for one in cursor_of(world).waiting if one.ready or one.parked} == {
            one for one in waiting if one.ready or one.parked
        }


def test_a_commit_that_changes_neither_jobs_nor_credits_has_no_figures() -> None:
    world = World(POLICY, now=START_AT)
    world.run(c.DeclarePool("gpu", 3), c.Elect("sweeper", "a", 1_000))
    assert world.changes.figures is None


def test_a_job_that_is_only_heard_of_has_no_figures() -> None:
    world = World(POLICY, now=START_AT)
    world.declare_pools(gpu=None)
    job_id = "00000001-0000-7000-8000-000000000001"
    world.run(c.OpenAccount("ana", "tight", 100), c.Submit("ana", (new_job(job_id, "upscale", "gpu", "{}", 1),)))
    world.run(c.Claim("w1", ("gpu",), 1))
    assert world.changes.figures is not None
    assert sum(world.changes.figures.waits.values()) == 1
    world.run(c.Heartbeat(job_id, 1))
    assert world.changes.jobs
    assert world.changes.figures is None


# Folding


def test_a_fold_adds_to_the_minute_and_the_hour() -> None:
    world = World()
    at = world.now
    part = Figures((JobCounts("pro", "upscale", "gpu", 2, 1, 3),), {5: 3}, charged=15)
    folded(world, 4, (at, part), (at + MINUTE, part))
    assert {key: rollup.figures for key, rollup in world.state.of(Rollup).items()} == {
        rollup_key("minute", at): part,
        rollup_key("minute", at + MINUTE): part,
        rollup_key("hour", at): Figures((JobCounts("pro", "upscale", "gpu", 4, 2, 6),), {5: 6}, charged=30),
        TOTAL: Figures((JobCounts("pro", "upscale", "gpu", 4, 2, 6),), charged=30),
    }
    cursor = cursor_of(world)
    assert (cursor.turn, cursor.number, cursor.waiting) == (1, 4, (QueueCount("pro", "upscale", "gpu", 4, 2),))


def test_a_fold_by_an_old_cursor_changes_nothing() -> None:
    world = World()
    part = Figures(charged=1)
    assert folded(world, 3, (world.now, part)).changed
    assert not folded(world, 5, (world.now, part), turn=0).changed
    assert rolled_up(world, "hour").charged == 1
    assert cursor_of(world).number == 3


def test_numbers_that_were_left_out_are_counted_when_they_come() -> None:
    world = World()
    folded(world, 9, left_out=(4, 7))
    assert cursor_of(world).left_out == (4, 7)
    folded(world, 12, (world.now, Figures(charged=2)), came=(4,), left_out=(11,))
    assert cursor_of(world).left_out == (7, 11)
    with pytest.raises(AssertionError, match="left out"):
        folded(world, 12, came=(5,))


def test_only_so_many_numbers_are_left_out() -> None:
    world = World()
    folded(world, 2 * MOST_LEFT_OUT, left_out=tuple(range(1, MOST_LEFT_OUT + 1)))
    assert len(cursor_of(world).left_out) == MOST_LEFT_OUT
    folded(world, 3 * MOST_LEFT_OUT, left_out=(2 * MOST_LEFT_OUT + 1,))
    assert cursor_of(world).left_out[0] == 2
    assert len(cursor_of(world).left_out) == MOST_LEFT_OUT


def test_series_beyond_the_limit_count_together() -> None:
    world = World()
    parts = tuple(JobCounts("pro", f"tool {n:04d}", "gpu", submitted=1) for n in range(MOST_SERIES + 2))
    folded(world, 1, (world.now, Figures(parts[:MOST_SERIES])))
    folded(world, 2, (world.now, Figures(parts)))
    [rollup] = [rollup for key, rollup in world.state.of(Rollup).items() if key.startswith("hour")]
    assert len(rollup.figures.counts) == MOST_SERIES + 1
    others = [one.submitted for one in rollup.figures.counts if one.tool == OTHER]
    assert others == [2]
    assert sum(one.submitted for one in rollup.figures.counts) == 2 * MOST_SERIES + 2


def test_reasons_beyond_the_limit_count_together() -> None:
    reasons = {f"reason {n}": 2 for n in range(MOST_REASONS + 3)}
    found = total([Figures(failures=reasons)])
    assert len(found.failures) == MOST_REASONS + 1
    assert found.failures[OTHER] == 6
    assert sum(found.failures.values()) == sum(reasons.values())


# Corrections


def test_a_correction_sets_what_waits_and_charts_show_the_difference_now() -> None:
    world = World()
    folded(world, 1, (world.now, Figures((JobCounts("pro", "a", "gpu", 5, 1), JobCounts("pro", "b", "gpu", 2)))))
    world.now += 3 * MINUTE
    waiting = (QueueCount("pro", "a", "gpu", 4, 3), QueueCount("free", "c", "cpu", 1, 0))
    outcome = world.one(c.CorrectQueue(1, world.now, waiting))
    assert isinstance(outcome, Folded)
    assert outcome.changed
    assert {one for one in cursor_of(world).waiting if one.ready or one.parked} == set(waiting)
    assert set(world.state.of(Rollup)[rollup_key("minute", world.now)].figures.counts) == {
        JobCounts("pro", "a", "gpu", -1, 2),
        JobCounts("pro", "b", "gpu", -2),
        JobCounts("free", "c", "cpu", 1),
    }
    assert sum(one.ready + one.parked for one in rolled_up(world, "minute").counts) == 8


def test_a_correction_that_is_late_or_finds_nothing_wrong_changes_nothing() -> None:
    world = World()
    folded(world, 1, (world.now, Figures((JobCounts("pro", "a", "gpu", 5),))))
    for command in (
        c.CorrectQueue(0, world.now, (QueueCount("pro", "a", "gpu", 9, 0),)),
        c.CorrectQueue(1, world.now, (QueueCount("pro", "a", "gpu", 5, 0),)),
    ):
        outcome = world.one(command)
        assert isinstance(outcome, Folded)
        assert not outcome.changed
        assert not world.changes


# Time


@pytest.mark.parametrize("level", ["minute", "hour"])
def test_rollups_are_deleted_when_their_time_is_over_and_not_before(level: str) -> None:
    world = World(POLICY)
    began_at = world.now
    folded(world, 1, (world.now, Figures(charged=1)))
    kept = {"minute": POLICY.minute_figures_kept_ms, "hour": POLICY.hour_figures_kept_ms}[level] * MILLISECOND
    key = rollup_key(level, world.now)  # type: ignore[arg-type]
    world.now += STEPS[level] + kept - 1  # type: ignore[index]
    assert world.one(c.ForgetRollups((key,))) == Forgotten(changed=False)
    world.now += 1
    assert world.one(c.ForgetRollups((key, "minute 000000000000"))) == Forgotten(changed=True)
    assert world.state.of(Rollup).keys() == {TOTAL, *(rollup_key(other, began_at) for other in STEPS)} - {key}


# What counters are made of


@pytest.mark.req("E8")
def test_the_measures_of_a_life_say_how_long_it_waited_and_ran() -> None:
    world = World(POLICY, now=START_AT)
    world.declare_pools(gpu=None)
    ids = [f"0000000{n}-0000-7000-8000-000000000001" for n in range(1, 4)]
    batch = tuple(new_job(job_id, "upscale", "gpu", "{}", 1) for job_id in ids[1:])
    world.run(c.OpenAccount("ana", "tight", 100), c.Submit("ana", (new_job(ids[0], "upscale", "gpu", "{}", 1),)))
    world.run(c.Submit("ana", batch, batch_id="10000000-0000-7000-8000-000000000001"))
    assert told(world) == Measures(batches=Histogram(2, {10: 1}))
    world.now += 100 * MILLISECOND
    world.run(c.Claim("w1", ("gpu",), 1))
    assert told(world) == Measures(waits={"tight": Histogram(100, {100: 1})})
    world.now += 100 * MILLISECOND + 1
    world.run(c.Finish(ids[0], c.Completed("1"), 1))
    assert told(world) == Measures(runs={"upscale": Histogram(101, {250: 1})})
    world.run(c.Credit("ana", -7, "adjust", reason="too much"))
    assert told(world) == Measures(taken=7)


@pytest.mark.parametrize(("is_fault", "outcome"), [(False, "answered"), (True, "failed"), (None, "abandoned")])
def test_a_request_to_a_provider_is_measured_once_it_was_sent(is_fault: bool | None, outcome: str) -> None:
    world = World(POLICY, now=START_AT)
    world.run(c.EndTurn("fal", "t1", is_fault=is_fault))
    assert world.changes.figures is None
    world.run(c.EndTurn("fal", "t1", is_fault=is_fault, took_ms=86_400_001))
    assert told(world) == Measures(calls={"fal": {outcome: 1}}, latencies={"fal": Histogram(86_400_001, {BEYOND: 1})})


def test_the_sum_of_all_time_outlives_every_minute_and_hour() -> None:
    world = World(POLICY)
    counted = Figures((JobCounts("pro", "upscale", "gpu", submitted=3),), charged=15)
    for number in (1, 2):
        folded(world, number, (world.now, counted), measures=Measures(taken=1))
        world.now += 4_000 * DAY
        world.one(c.ForgetRollups((TOTAL, *world.state.of(Rollup))))
    [found] = world.state.of(Rollup).values()
    assert found.figures == Figures(
        (JobCounts("pro", "upscale", "gpu", submitted=6),), charged=30, measures=Measures(taken=2)
    )


def test_names_of_measures_are_bounded() -> None:
    world = World(POLICY)
    one = Histogram(1, {50: 1})
    names = [f"p{n}" for n in range(MOST_PROVIDERS + 2)]
    calls = Measures(
        waits={"pro": one, "gone": one},
        runs={"upscale": one, "gone": one},
        calls={name: {"answered": 1} for name in names},
        latencies=dict.fromkeys(names, one),
    )
    counts = Figures((JobCounts("pro", "upscale", "gpu", submitted=1),))
    for number in (1, 2):
        folded(world, number, (world.now, counts), measures=calls)
    found = world.state.of(Rollup)[TOTAL].figures.measures
    assert found is not None
    assert (found.waits.keys(), found.runs.keys()) == ({"pro", OTHER}, {"upscale", OTHER})
    assert len(found.calls) == len(found.latencies) == MOST_PROVIDERS + 1
    assert (found.calls[OTHER], found.calls["p0"]) == ({"answered": 4}, {"answered": 2})
    assert found.latencies[OTHER] == Histogram(4, {50: 4})


def told(world: World) -> Measures | None:
    assert world.changes.figures is not None
    return world.changes.figures.measures


@given(st.integers(-SECOND, 80 * DAY))
@example(0)
@example(32 * 1024)
@example(51 * DAY)
def test_a_duration_lies_within_its_bucket_which_is_narrow(duration: int) -> None:
    low, high = bucket_bounds(duration_bucket(duration))
    shown = min(max(0, duration), (1 << 42) - 1)
    assert low <= shown < high
    assert high - low <= max(1_024, low / 16)


def test_buckets_follow_each_other_without_a_gap() -> None:
    last = duration_bucket(1 << 60)
    bounds = [bucket_bounds(bucket) for bucket in range(last + 1)]
    assert bounds[0][0] == 0
    assert all(one[1] == following[0] for one, following in pairwise(bounds))
    assert last < 500


@given(st.lists(st.integers(0, 2 * HOUR), min_size=1, max_size=50), st.sampled_from([0.5, 0.95]))
def test_a_percentile_is_within_seven_percent(durations: list[int], share: float) -> None:
    found = percentile_s(Counter(map(duration_bucket, durations)), share)
    assert found is not None
    ordered = sorted(durations)
    exact = ordered[max(0, -(-int(share * 1_000) * len(ordered) // 1_000) - 1)]
    assert abs(found * SECOND - exact) <= max(1_100, 0.07 * exact)


def test_there_is_no_percentile_of_nothing() -> None:
    assert percentile_s({}, 0.5) is None


# Reasons


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("timed out after 600 s", "timed out after … s"),
        ("job 0198f2f0-1b1c-7000-8000-0123456789ab failed\nTraceback …", "job … failed"),
        ("HTTP 502 at 10:31:07.25 from 10.0.0.1", "HTTP … at … from …"),
        ("prediction 9x8ktg2c1hrm80cm3rp8q2vwz0 was refused", "prediction … was refused"),
        ("the picture is not allowed", "the picture is not allowed"),
        (None, NO_REASON),
        (" \n", NO_REASON),
        ("x" * 500, "x" * REASON_LENGTH),
    ],
)
def test_errors_that_differ_only_in_numbers_and_ids_have_one_reason(error: str | None, reason: str) -> None:
    assert error_reason(error) == reason


def test_of_a_very_long_error_only_the_beginning_is_looked_at() -> None:
    assert error_reason("1a" * 5_000_000) == "…"
