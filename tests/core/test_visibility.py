"""Who may read what of a job and its history."""

import pytest

from ficha.core.records import Job, JobSpec
from ficha.core.visibility import OPERATORS_ONLY, error_for_owner, event_for_owner
from ficha.engine.views import JobView

RUN = "The run ended for an internal reason."
SENTENCE = "The job failed for an internal reason; its id is j1."


def job(error: str | None, user_error: str | None) -> Job:
    return Job("j1", "ana", JobSpec("t", "p", 1), 0, 0, "failed", None, error=error, user_error=user_error)


@pytest.mark.parametrize(
    ("error", "user_error", "shown"),
    [
        (None, None, None),
        ("connect to db1:5432", None, SENTENCE),
        ("too small", "too small", "too small"),
    ],
)
def test_an_owner_reads_what_was_written_for_them_or_a_plain_sentence(
    error: str | None, user_error: str | None, shown: str | None
) -> None:
    assert error_for_owner(job(error, user_error)) == shown


@pytest.mark.parametrize(
    ("kind", "data", "shown"),
    [
        ("completed", {"delivered": 1, "of": 2}, {"delivered": 1, "of": 2}),
        ("cancelled", {"reason": "not wanted", "refunded": 1}, {"reason": "not wanted", "refunded": 1}),
        ("recovered", {"epoch": 1, "reason": "killed on gpu-7"}, {"epoch": 1}),
        ("claimed", {"worker": "gpu-7:4711", "epoch": 1}, {"epoch": 1}),
        ("returned", {"worker": "gpu-7:4711", "epoch": 1, "recoveries": 0}, {"epoch": 1, "recoveries": 0}),
        ("accepted", {"ref": "prediction-7"}, {}),
        ("checkpoint", {"name": "HALF", "progress": 50, "a new field": 1}, {"name": "HALF", "progress": 50}),
        ("failed", {"error": "db1", "traceback": "/srv/x.py", "dead": True}, {"error": SENTENCE, "dead": True}),
        ("failed", {"error": "small", "user_error": "small"}, {"error": "small", "user_error": "small"}),
        ("retried", {"error": "db1", "attempts": 1}, {"error": RUN, "attempts": 1}),
        ("retried", {"error": None, "attempts": 0}, {"error": None, "attempts": 0}),
        ("late", {"ending": "Failed", "error": "db1"}, {"ending": "Failed", "error": RUN}),
    ],
)
def test_an_event_tells_its_owner_nothing_that_is_for_operators(kind: str, data: dict, shown: dict) -> None:
    assert event_for_owner("j1", kind, data) == shown


def test_what_is_hidden_of_a_job_are_fields_that_it_has() -> None:
    assert set(OPERATORS_ONLY) < set(JobView.__struct_encode_fields__)
