"""What a job's events tell of its runs."""

from typing import Any

from ficha.core.records import Event, Job, JobSpec, Leased
from ficha.core.runs import Attempt, attempts, last_traceback, step_times

SECOND = 1_000_000


def job(**changes: Any) -> Job:
    usual: dict[str, Any] = {"status": "completed", "place": None, "started_at": 10, "first_worker": "w1"}
    usual |= {"first_run_at": 11, "finished_at": 90}
    return Job(id="j", account_id="ana", spec=JobSpec("t", "p", 1), priority=0, created_at=1, **(usual | changes))


def event(number: int, kind: str, at: int, **data: Any) -> Event:
    return Event("j", "ana", number, kind, at, data or None)


def held(worker: str) -> dict[str, Any]:
    return {"status": "running", "place": Leased(worker, 1, 1, 99, 99), "finished_at": None}


def test_an_ordinary_life_is_one_attempt() -> None:
    assert attempts(job(), []) == [Attempt(1, "w1", 10, 90, "completed")]


def test_a_job_that_was_never_started_has_no_attempt() -> None:
    waiting = job(status="cancelled", started_at=None, first_worker=None, first_run_at=None)
    assert attempts(waiting, [event(2, "cancelled", 90, reason="no")]) == []
    assert step_times(waiting, []) == {}


def test_each_run_has_its_worker_its_end_and_why() -> None:
    kept = [
        event(4, "retried", 20, error="busy", attempts=1, due_at=30),
        event(5, "claimed", 30, worker="w2", epoch=2),
        event(6, "started", 31, epoch=2),
        event(7, "recovered", 40, worker="w2", reason="silent", recoveries=1, epoch=2),
        event(8, "claimed", 50, worker="w3", epoch=3),
        event(9, "returned", 60, worker="w3", reason="stops"),
        event(10, "claimed", 70, worker="w4", epoch=4),
        event(11, "failed", 90, error="broken", traceback="Traceback: broken", refunded=1, dead=True),
        event(12, "requeued", 95, as_job="k"),
    ]
    assert attempts(job(status="failed"), kept) == [
        Attempt(1, "w1", 10, 20, "retried", "busy"),
        Attempt(2, "w2", 30, 40, "recovered", "silent"),
        Attempt(3, "w3", 50, 60, "returned", "stops"),
        Attempt(4, "w4", 70, 90, "failed", "broken"),
    ]
    assert last_traceback(kept) == "Traceback: broken"
    assert last_traceback(kept[:5]) is None


def test_a_run_that_goes_on_has_no_end() -> None:
    running = job(**held("w2"))
    kept = [event(4, "retried", 20, error="busy"), event(5, "claimed", 30, worker="w2", epoch=2)]
    assert attempts(running, kept) == [Attempt(1, "w1", 10, 20, "retried", "busy"), Attempt(2, "w2", 30)]


def test_a_partial_result_ends_the_run_once() -> None:
    kept = [event(4, "completed", 80, delivered=1, of=2, refunded=1)]
    assert attempts(job(), kept) == [Attempt(1, "w1", 10, 80, "completed")]


def test_a_step_took_the_time_since_what_was_told_before_it() -> None:
    kept = [
        event(4, "step", 15, name="load"),
        event(5, "checkpoint", 20, name="HALF", progress=50),
        event(6, "step", 26, name="draw"),
        event(7, "recovered", 40, worker="w1", reason="silent"),
        event(8, "claimed", 60, worker="w2", epoch=2),
        event(9, "step", 67, name="save"),
        event(10, "step", 66, name="back"),
    ]
    assert step_times(job(), kept) == {"load": 4, "draw": 6, "save": 7, "back": 0}
