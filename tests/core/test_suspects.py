"""Which jobs with a lost run a process takes that runs nothing else."""

import pytest

from ficha.core.policy import Plan, Policy
from ficha.core.suspects import Suspect, runs_alone, taken_together

POLICY = Policy({"free": Plan("free")}, tool_recoveries={"fragile": 1, "once": 0, "sturdy": 9})


def suspect(job_id: str, recoveries: int, tool: str = "plain") -> Suspect:
    return Suspect(job_id, "gpu", tool, recoveries)


@pytest.mark.req("B4")
@pytest.mark.parametrize(
    ("tool", "alone"),
    [
        ("plain", [False, False, True, True]),
        ("fragile", [False, True, True, True]),
        ("once", [False, True, True, True]),
        ("sturdy", [False, False, False, False]),
    ],
)
def test_the_last_run_that_a_job_may_lose_it_has_to_itself(tool: str, alone: list[bool]) -> None:
    assert [runs_alone(POLICY, tool, recoveries) for recoveries in range(4)] == alone


@pytest.mark.req("B4")
def test_a_job_that_must_be_alone_is_taken_alone_and_others_together() -> None:
    waiting = [suspect("a", 1), suspect("b", 2), suspect("c", 1), suspect("d", 1, "fragile"), suspect("e", 1)]
    assert [one.job_id for one in taken_together(POLICY, waiting, 9)] == ["a", "c", "e"]
    assert [one.job_id for one in taken_together(POLICY, waiting, 2)] == ["a", "c"]
    assert [one.job_id for one in taken_together(POLICY, waiting[1:], 9)] == ["b"]
    assert taken_together(POLICY, [], 9) == []
