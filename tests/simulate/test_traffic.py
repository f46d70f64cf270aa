"""Traffic: recorded jobs as they were, and made-up ones as they are described."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ficha.core.policy import DAY, HOUR, SECOND
from ficha.simulate.recorded import RecordedJob, read_file, recorded_traffic, save
from ficha.simulate.synthetic import described, synthetic_traffic
from ficha.simulate.traffic import Arrival, Traffic, Unusable
from tests.simulate.shop import shop

NOW = datetime(2026, 3, 10, tzinfo=UTC)
APP = shop()


def job(at_s: float = 0, started_s: float | None = 5, ended_s: float | None = 15, **more: Any) -> RecordedJob:
    def moment(after_s: float | None) -> datetime | None:
        return None if after_s is None else NOW + timedelta(seconds=at_s + after_s)

    created = NOW + timedelta(seconds=at_s)
    given = {"account": "ana", "plan": "free", "tool": "upscale", "max_attempts": 2, "cost": 5, **more}
    return RecordedJob(created, started_at=moment(started_s), finished_at=moment(ended_s), **given)


def recorded(*jobs: RecordedJob, **options: Any) -> Traffic:
    return recorded_traffic(jobs, shop(**options).tools, {"free", "pro"})


def only(found: RecordedJob) -> Arrival:
    [arrival] = recorded(found).arrivals
    return arrival


def test_a_recorded_job_runs_as_long_and_ends_as_it_did() -> None:
    assert only(job()) == Arrival(
        int(NOW.timestamp()) * SECOND, "ana", "free", "upscale", run_us=10 * SECOND, cost=5, units=1
    )
    assert only(job(status="failed", attempts=1)).end == "fatal"
    # Two runs with a backoff of 10 s, which jitter shortens to 7.5 s on average.
    twice = only(job(ended_s=32.5, status="failed", attempts=2))
    assert (twice.end, twice.failures, twice.run_us) == ("failed", 1, 10 * SECOND)
    again = only(job(ended_s=32.5, attempts=1))
    assert (again.end, again.failures, again.run_us) == ("completed", 1, 10 * SECOND)
    assert only(job(status="failed", attempts=0, ended_s=605)).run_us == 600 * SECOND
    assert only(job(units=4, delivered=3)).delivered == 3
    assert only(job(units=4, delivered=4)).delivered is None
    assert only(job(run_s=2.5, started_s=None)).run_us == 2_500_000


def test_jobs_that_never_ran_take_the_median_run_and_their_owners_wait_as_long_as_they_did() -> None:
    queued = job(started_s=None, ended_s=None, status="queued")
    left = job(started_s=None, ended_s=40, status="cancelled")
    stopped = job(ended_s=7, status="cancelled")
    arrivals = recorded(job(), job(ended_s=25), job(ended_s=35), queued, left, stopped).arrivals
    assert [one.run_us // SECOND for one in arrivals] == [10, 20, 30, 20, 20, 2]
    assert [one.patience_us for one in arrivals] == [None, None, None, None, 40 * SECOND, None]
    assert [one.end for one in arrivals][4:] == ["completed", "cancelled"]


def test_how_long_free_slots_stayed_free_is_known_of_a_recording() -> None:
    # The first two start 2 s after they came; the third starts 3 s after the end of the first.
    jobs = [job(0, 2, 10), job(0, 2, 30), job(1, 12, 20)]
    assert recorded(*jobs).pickup_us == 2 * SECOND
    assert recorded(jobs[0], jobs[2]).pickup_us == 2 * SECOND
    assert recorded(jobs[2]).pickup_us == 12 * SECOND


def test_what_nobody_knows_is_left_out_and_told() -> None:
    reused = job(started_s=None, ended_s=0)
    other = job(tool="video", started_s=None, ended_s=None, status="queued")
    found = recorded(job(), reused, other)
    assert len(found.arrivals) == 1
    assert found.notes == (
        "left out of the recording: 1 that were answered by an earlier result, or have no times",
        "left out of the recording: 1 that are of tool video, of which no run has ended",
    )
    with pytest.raises(Unusable, match="the recording has no jobs"):
        recorded()
    with pytest.raises(Unusable, match=r"no job of the recording can be replayed: .* 1 that are of tool video"):
        recorded(other)
    gone = recorded(job(), job(tool="draw"), job(plan="gold"))
    assert len(gone.arrivals) == 1
    assert gone.notes == (
        "left out of the recording: 1 that are of tool draw, which is not declared",
        "left out of the recording: 1 that are of plan gold, which is not declared",
    )


def test_jobs_of_one_instant_keep_their_order_whichever_end_comes_first() -> None:
    jobs = [job(0, account="a"), job(1, account="b"), job(1, account="c"), job(2, account="d")]
    for given in (jobs, jobs[::-1]):
        assert [one.account for one in recorded(*given).arrivals] == ["a", "b", "c", "d"]


def test_a_recording_is_saved_without_the_names_of_accounts(tmp_path: Path) -> None:
    path = tmp_path / "week.jsonl"
    jobs = [job(0, account="ana@example.com"), job(1, account="bo"), job(2, account="ana@example.com")]
    assert save(jobs[::-1], path) == 3
    assert "example" not in path.read_text()
    found = [*read_file(path)]
    assert [one.account for one in found] == ["account-1", "account-2", "account-1"]
    assert [one.run_us for one in recorded(*found).arrivals] == [10 * SECOND] * 3


def test_a_recording_may_be_csv(tmp_path: Path) -> None:
    path = tmp_path / "week.csv"
    path.write_text(
        "created_at,account,plan,tool,run_s,cost,status,note\n2026-03-10T10:00:00Z,ana,free,upscale,2.5,5,completed,x\n"
        "2026-03-10T10:00:01Z,bo,pro,upscale,3,,,\n"
    )
    first, second = recorded(*read_file(path)).arrivals
    assert (first.run_us, first.cost, second.plan, second.cost) == (2_500_000, 5, "pro", None)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", "{", r"a\.jsonl, line 1 is not JSON"),
        ("a.jsonl", "[]", r"line 1 must be an object with created_at, account, plan, tool, not \[\]"),
        ("a.jsonl", '{"created_at": "2026-01-01"}', "line 1 has no account; each job needs created_at, account"),
        ("a.csv", "created_at,account,plan,tool\nnow,a,free,upscale\n", r"a\.csv, line 2: Invalid RFC3339.*created_at"),
        ("none.jsonl", None, r"none\.jsonl cannot be read"),
    ],
)
def test_a_wrong_line_of_a_recording_is_told(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(Unusable, match=says):
        [*read_file(tmp_path / name)]


WEEK = {
    "days": 7,
    "jobs_per_day": 500,
    "by_hour": [1] * 12 + [3] * 12,
    "by_weekday": [1, 1, 1, 1, 1, 0, 0],
    "plans": {
        "free": {"share": 3, "accounts": 10, "heavy_accounts": 0.1, "heavy_share": 0.5, "new_accounts": 0.2},
        "pro": {"share": 1, "accounts": 5, "heavy_accounts": 0, "patience_s": 60},
    },
    "tools": {
        "upscale": {"share": 9, "median_s": 20, "p95_s": 60, "failure_rate": 0.1},
        "video": {"share": 1, "median_s": 60, "payload": {"seconds": 6}},
    },
}


def made(seed: int = 1, **changes: Any) -> Traffic:
    return synthetic_traffic(described(WEEK | changes, APP.policy.plans, APP.tools), APP.tools, seed)


def test_made_up_traffic_is_as_it_is_described() -> None:
    week = made()
    submits = {(one.at, one.account): one for one in week.arrivals}
    assert len(submits) == 3_500
    assert week.ends_at - week.starts_at == 7 * DAY
    busy = sum(1 for one in submits.values() if (one.at - week.starts_at) % DAY >= 12 * HOUR)
    assert 0.72 < busy / 3_500 < 0.78
    assert max(one.at for one in week.arrivals) < week.starts_at + 5 * DAY
    by_plan = Counter(one.plan for one in submits.values())
    assert 0.72 < by_plan["free"] / 3_500 < 0.78
    heavy = sum(1 for one in submits.values() if one.account == "free-1")
    assert 0.45 < heavy / by_plan["free"] < 0.55
    runs = sorted(one.run_us / SECOND for one in week.arrivals if one.tool == "upscale")
    assert 18 < runs[len(runs) // 2] < 22
    assert 54 < runs[int(len(runs) * 0.95)] < 66
    failing = sum(1 for one in week.arrivals if one.failures and one.tool == "upscale")
    assert 0.08 < failing / len(runs) < 0.12
    assert sum(one.is_first for one in week.arrivals) == 2
    assert {one.patience_us is None for one in week.arrivals if one.plan == "pro"} == {False}


def test_the_tools_own_price_and_splitting_are_used() -> None:
    week = made()
    videos = [one for one in week.arrivals if one.tool == "video"]
    # Six seconds are two jobs of three, each for ten credits a second.
    assert {(one.cost, one.units) for one in videos} == {(30, 3)}
    assert len(videos) % 2 == 0
    assert {one.cost for one in week.arrivals if one.tool == "upscale"} == {None}


def test_the_same_seed_makes_the_same_traffic_and_another_one_other() -> None:
    assert made() == made()
    assert made().arrivals != made(2).arrivals


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"day": 1}, "day is not known; allowed are: by_hour, by_weekday, days"),
        ({"days": 0}, "days must be a number above 0 and up to 3650, not 0"),
        ({"jobs_per_day": None}, "jobs_per_day must be a number above 0"),
        ({"days": 3_000, "jobs_per_day": 1e6}, "more than 20000000 jobs"),
        ({"by_hour": [1]}, "by_hour must be a list of 24 numbers from 0 up, not all 0"),
        ({"by_weekday": [0] * 7}, "by_weekday must be a list of 7 numbers from 0 up, not all 0"),
        ({"start": "monday"}, "start must be a date such as 2026-01-05, not 'monday'"),
        ({"plans": {}}, "plans: describe at least one with a share above 0"),
        ({"plans": {"gold": {"share": 1}}}, "plans.gold: there is no plan 'gold'; declared are: free, pro"),
        ({"plans": {"free": {}}}, "plans.free.share is missing"),
        ({"plans": {"free": {"share": 1, "accounts": 0}}}, "plans.free: accounts must be a whole number from 1"),
        ({"plans": {"free": {"share": 1, "heavy_share": 2}}}, "plans.free: heavy_share must be a number from 0 to 1"),
        ({"tools": {"upscale": {"share": 1}}}, "tools.upscale.median_s is missing"),
        ({"tools": {"upscale": {"share": 1, "median_s": 0}}}, "tools.upscale: median_s must be more than 0"),
        ({"tools": {"upscale": {"share": 1, "median_s": 9, "p95_s": 5}}}, "p95_s (5) must not be less than median_s"),
        ({"tools": {"video": {"share": 1, "median_s": 9}}}, "add tools.video.payload, or tools.video.cost"),
        (
            {"tools": {"video": {"share": 1, "median_s": 9, "payload": {"seconds": "x"}}}},
            "tools.video.payload: the payload does not fit tool video",
        ),
        ({"tools": {"video": {"share": 1, "median_s": 9, "cost": -1}}}, "tools.video.cost must be whole credits"),
    ],
)
def test_a_wrong_description_is_told_by_its_key(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Unusable) as told:
        made(**changes)
    assert says in str(told.value)


def test_hours_without_any_jobs_are_told() -> None:
    with pytest.raises(Unusable, match="leave no hour of these days in which jobs come"):
        made(days=1, by_weekday=[0, 1, 1, 1, 1, 1, 1])
