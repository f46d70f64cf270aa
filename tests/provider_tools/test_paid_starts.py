"""A worker process that is killed or stopped while a provider has its start: the work is paid for once at most."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha
from tests.provider_tools.loopback import ended, in_state
from tests.provider_tools.paid_starts import worker
from tests.support.provider_simulator import Receiver, Simulated
from tests.support.waiting import until

KEYLESS = ("replicate", "fal", "runninghub", "plain")


async def killed_in_a_start(
    paid: Ficha, simulator: Simulated, tool: str, log: Path, *, by: int = signal.SIGKILL
) -> str:
    """A job whose worker was killed while the provider had its start and had not answered."""
    simulator.answer(on="start", slow=5.0, after=True)
    job_id = (await paid.submit(tool, {}, account="ana")).job_id
    with worker(log, *(["--grace", "0"] if by == signal.SIGTERM else [])) as doomed:
        await until(simulator.tasks, what="the provider has the start")
        doomed.send_signal(by)
        await until(lambda: doomed.poll() is not None, what="the worker is gone")
    return job_id


async def kinds(paid: Ficha, job_id: str) -> list[str]:
    return [event.kind for event in await paid.events(job=job_id)]


@pytest.mark.long_on("postgresql-fal", "postgresql-runninghub", "postgresql-plain")
@pytest.mark.req("E3")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
@pytest.mark.parametrize("tool", KEYLESS)
async def test_a_start_that_may_have_been_received_is_not_made_again_by_the_next_process(
    paid: Ficha, simulator: Simulated, tmp_path: Path, tool: str, by: int
) -> None:
    simulator.task(hold=True)
    job_id = await killed_in_a_start(paid, simulator, tool, log := tmp_path / "log", by=by)
    with worker(log):
        job = await ended(paid, job_id)
    assert (job.status, job.attempts, job.refunded) == ("failed", 1, 5), log.read_text()[-2_000:]
    assert f"{tool} may have received the start" in job.error
    assert "internal reason" in job.user_error
    assert len(simulator.tasks()) == 1
    # An operator may decide to run it again.
    assert [dead.id for dead in (await paid.dead_letters()).items] == [job_id]


@pytest.mark.long_on("postgresql-fal", "postgresql-runninghub")
@pytest.mark.req("A12", "E3")
@pytest.mark.parametrize("tool", ["replicate", "fal", "runninghub"])
async def test_work_whose_start_was_lost_is_found_by_its_call_back_and_delivered(
    paid: Ficha, simulator: Simulated, callbacks: Receiver, tmp_path: Path, tool: str
) -> None:
    job_id = await killed_in_a_start(paid, simulator, tool, log := tmp_path / "log")
    received = (await _called(callbacks))[0]
    _, _, _, provider, token = received.path.split("/")
    await paid.receive_callback(provider, token, received.headers, received.body)
    with worker(log):
        job = await ended(paid, job_id)
    assert (job.status, len(job.result["files"]), job.refunded) == ("completed", 1, 0), log.read_text()[-2_000:]
    assert len(simulator.tasks()) == 1


async def _called(callbacks: Receiver) -> list[Any]:
    return await until(lambda: callbacks.received, what="the provider has called back")


@pytest.mark.req("E3")
async def test_a_provider_that_finds_work_by_our_name_is_asked_for_it(
    paid: Ficha, simulator: Simulated, tmp_path: Path
) -> None:
    job_id = await killed_in_a_start(paid, simulator, "findable", log := tmp_path / "log")
    with worker(log):
        job = await ended(paid, job_id)
    assert job.status == "completed", log.read_text()[-2_000:]
    assert (len(simulator.tasks()), len(simulator.log("find"))) == (1, 1)
    history = await kinds(paid, job_id)
    assert (history.count("requested"), history.count("accepted")) == (1, 1)


async def test_a_provider_that_has_nothing_under_our_name_starts_the_work_once(
    paid: Ficha, simulator: Simulated, tmp_path: Path
) -> None:
    simulator.answer("close", on="start")
    with worker(log := tmp_path / "log"):
        job_id = (await paid.submit("findable", {}, account="ana")).job_id
        job = await ended(paid, job_id)
    assert job.status == "completed", log.read_text()[-2_000:]
    assert len(simulator.tasks()) == 1
    assert simulator.log("find")
    assert (await kinds(paid, job_id)).count("requested") == 2


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("tool", KEYLESS)
async def test_a_start_that_the_provider_certainly_did_not_take_is_made_again(
    paid: Ficha, simulator: Simulated, tmp_path: Path, tool: str
) -> None:
    simulator.answer("429", on="start", retry_after="0.1")
    with worker(log := tmp_path / "log"):
        job_id = (await paid.submit(tool, {}, account="ana")).job_id
        job = await ended(paid, job_id)
    assert (job.status, job.attempts) == ("completed", 0), log.read_text()[-2_000:]
    assert len(simulator.tasks()) == 1


@pytest.mark.req("E3")
async def test_a_run_that_is_lost_while_it_waits_for_its_turn_made_no_start(
    paid: Ficha, simulator: Simulated, tmp_path: Path
) -> None:
    provider = paid.tools["busy"].provider
    assert provider is not None
    async with paid.turn(provider):
        job_id = (await paid.submit("busy", {}, account="ana")).job_id
        with worker(log := tmp_path / "log") as doomed:
            await in_state(paid, job_id, "starting")
            doomed.kill()
            doomed.wait(timeout=20)
    with worker(log):
        job = await ended(paid, job_id)
    assert (job.status, job.attempts, len(simulator.tasks())) == ("completed", 0, 1), log.read_text()[-2_000:]
    assert (await kinds(paid, job_id)).count("requested") == 1


@pytest.mark.long_on("postgresql")
async def test_a_call_back_about_another_jobs_work_gives_a_lost_start_no_work(
    paid: Ficha, simulator: Simulated, tmp_path: Path
) -> None:
    simulator.task(hold=True, times=2)
    other = (await paid.submit("runninghub", {}, account="ana")).job_id
    with worker(log := tmp_path / "log"):
        ref = await until(lambda: _ref(paid, other), what="the provider has accepted the other job")
    simulator.answer(on="start", slow=5.0, after=True)
    job_id = (await paid.submit("runninghub", {}, account="ana")).job_id
    with worker(log) as doomed:
        await until(lambda: len(simulator.tasks()) == 2, what="the provider has the start")
        doomed.kill()
        doomed.wait(timeout=20)
    token = next(task["callback_url"] for task in simulator.tasks() if job_id in task["callback_url"]).rpartition("/")[
        2
    ]
    await paid.receive_callback("runninghub", token, {}, json.dumps({"taskId": ref}).encode())
    with worker(log):
        job = await ended(paid, job_id)
    assert (job.status, job.refunded) == ("failed", 5), log.read_text()[-2_000:]
    assert "another job's work" in job.error
    await paid.cancel(other)


async def _ref(paid: Ficha, job_id: str) -> str | None:
    return (await paid.job(job_id)).provider_ref
