"""The oracle itself: whatever could go wrong, it says."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ficha.core.dataset import State
from ficha.store.base import GetState
from tests.chaos.application import ACCOUNTS, CREDITS, application
from tests.chaos.oracle import contradictions
from tests.chaos.power import Memory
from tests.chaos.records import Line


@pytest.fixture
async def truth(tmp_path: Path) -> tuple[State, list[Line]]:
    """What a few jobs left behind, and what was told about them."""
    memory = Memory()
    async with application(f"sqlite:///{tmp_path / 'ficha.db'}", memory) as app:  # type: ignore[arg-type]
        for account in ACCOUNTS:
            await app.open_account(account, credits=CREDITS)
        for number in (3, 6, 7):
            key = f"here.0.{number}"
            receipt = await app.submit("draw", {"number": number}, account="ana", idempotency_key=key)
            memory.write(told="submitted", key=key, job=receipt.job_id, account="ana", cost=receipt.cost)
        await app.run_worker(burst=True)
        return await app.engine.store.read(GetState(texts=True)), memory.lines


Truth = tuple[State, list[Line]]


def lose_a_job(state: State, told: list[Line]) -> None:
    del state.jobs[told[0]["job"]]


def undo_an_end(state: State, told: list[Line]) -> None:
    job_id = next(line["job"] for line in told if line.get("told") == "ended")
    state.jobs[job_id] = replace(state.jobs[job_id], status="queued", finished_at=None)


def charge_twice(state: State, told: list[Line]) -> None:
    job = state.jobs[told[0]["job"]]
    state.jobs[job.id] = replace(job, charged=2 * job.charged)


def forget_a_refund(state: State, told: list[Line]) -> None:
    job = state.jobs[told[1]["job"]]
    state.jobs[job.id] = replace(job, refunded=0)


def take_credits(state: State, told: list[Line]) -> None:
    state.accounts["ana"] = replace(state.accounts["ana"], balance=state.accounts["ana"].balance - 1)


def make_a_second_job(state: State, told: list[Line]) -> None:
    job = state.jobs[told[0]["job"]]
    state.jobs["another"] = replace(job, id="another")


def answer_a_key_otherwise(state: State, told: list[Line]) -> None:
    told.append({**told[0], "job": told[1]["job"]})


def give_a_job_to_two(state: State, told: list[Line]) -> None:
    told.append(next(line for line in told if line.get("told") == "claimed"))


def let_two_end_a_job(state: State, told: list[Line]) -> None:
    told.append(next(line for line in told if line.get("told") == "ended"))


def forget_an_answer(state: State, told: list[Line]) -> None:
    del told[0]


def end_otherwise(state: State, told: list[Line]) -> None:
    job = state.jobs[told[2]["job"]]
    state.jobs[job.id] = replace(job, status="cancelled", refunded=job.charged)


def break_a_process(state: State, told: list[Line]) -> None:
    told.append({"trouble": "worker-1 ended by ValueError"})


def test_the_truth_has_no_contradictions(truth: Truth) -> None:
    assert contradictions(*truth) == []


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lose_a_job, "LOST"),
        (undo_an_end, "LOST"),
        (charge_twice, "was charged 8"),
        (forget_a_refund, "with 0 refunded"),
        (take_credits, "would be right"),
        (make_a_second_job, "one key made two"),
        (answer_a_key_otherwise, "was answered with 2 jobs"),
        (give_a_job_to_two, "was given out 2 times"),
        (let_two_end_a_job, "2 were told that they ended"),
        (forget_an_answer, "nobody was told of"),
        (end_otherwise, "and should be"),
        (break_a_process, "ended by ValueError"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_lie_is_found(truth: Truth, lie: Callable[[State, list[Line]], None], words: str) -> None:
    lie(*truth)
    assert any(words in sentence for sentence in contradictions(*truth))
