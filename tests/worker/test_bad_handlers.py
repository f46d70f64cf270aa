"""Handlers that misbehave: each a clear error on its job or in the terminal, and nothing stuck."""

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ficha import Ficha, Plan
from tests.support.shop import balance
from tests.support.waiting import until
from tests.worker.worker_processes import COMMAND, ROOT, WorkerProcesses, ended, submitted

FAILS = {
    "set": "the result cannot be stored: .*JSON",
    "object": "the result cannot be stored: .*JSON",
    "nan": "the result cannot be stored: ",
    "exit": "the handler raised SystemExit: 3",
    "interrupt": "the handler raised KeyboardInterrupt",
    "cancelled": "the handler was cancelled from inside",
    "stop iteration": "raised StopIteration",
    "unspeakable": "Unspeakable",
    "silent": "ValueError",
    "unstorable": "half of .*, and",
    "huge": "(a-){1000}",
    "final": "forbidden",
    "bad partial": "the result cannot be stored: 5 of 4 cannot have been delivered",
    "bad retry": "the result cannot be stored: after_s must be ",
    "secret": r"401 for https://ana:\[hidden\]@api.example/v1 with api_key=\[hidden\]",
}
"""What a handler does, and the error that its job ends with."""


@pytest.mark.long_on("postgresql")
async def test_each_kind_of_misbehaviour_ends_its_job_and_the_worker_goes_on(workers: WorkerProcesses) -> None:
    async with workers.opened_app() as app:
        worker = workers.start("--concurrency", "20")
        tools = ("misbehaves", "misbehaves_in_thread")
        # All at once: what one of them does must not reach its neighbours, whose ends are written with its own.
        jobs = {(tool, kind): await submitted(app, tool, kind=kind) for kind in FAILS for tool in tools}
        jobs |= {("two_things", by): await submitted(app, "two_things", by=by) for by in ("arguments", "function")}
        found = dict(zip(jobs, await ended(app, *jobs.values()), strict=True))
        for (tool, kind), job in found.items():
            told = FAILS.get(kind, "the step 'thing' was called twice with a different function")
            assert (job.status, job.refunded) == ("failed", 7), (tool, kind, job.error)
            with pytest.raises(ValueError, match=told):
                raise ValueError(job.error)
        assert await balance(app) == 1_000
        text = worker.text
        assert "hunter2" not in text
        assert "sk-abcdefgh" not in text
        assert "[hidden]" in text
        (after,) = await ended(app, await submitted(app, "quick"))
        assert after.status == "completed"
        worker.signal(signal.SIGTERM)
        assert await worker.end() == 0
        assert await app.verify() == []


async def test_what_a_handler_leaves_behind_does_not_keep_the_worker_nor_speak_for_it(
    sqlite_workers: WorkerProcesses,
) -> None:
    """Threads that never end, and a forked child that returns from the handler as well."""
    async with sqlite_workers.opened_app() as app:
        worker = sqlite_workers.start()
        tools = ("misbehaves", "misbehaves_in_thread")
        jobs = [await submitted(app, tool, kind=kind) for tool in tools for kind in ("thread", "fork")]
        found = await ended(app, *jobs)
        assert [job.result for job in found] == ["left a thread", "from the parent"] * 2
        children = [int(pid) for (pid,) in sqlite_workers.deeds("child")]
        assert len(children) == 2
        await until(lambda: not any(_runs(pid) for pid in children))
        await until(lambda: len(worker.lines("completed")) >= 4)
        assert sorted(line["job"] for line in worker.lines("completed")) == sorted(jobs)
        (after,) = await ended(app, await submitted(app, "quick"))
        assert after.status == "completed"
        worker.signal(signal.SIGTERM)
        assert await worker.end(10) == 0
        assert await app.verify() == []


def _runs(pid: int) -> bool:
    """Whether the process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_handler_may_name_its_log_fields_as_it_likes_and_no_payload_is_logged(
    sqlite_workers: WorkerProcesses,
) -> None:
    async with sqlite_workers.opened_app() as app:
        worker = sqlite_workers.start("--log-level", "debug", "--burst")
        job_id = await submitted(app, "tells", private="grandmother's recipe")
        (job,) = await ended(app, job_id)
        assert (job.status, job.result) == ("completed", "grandmother's recipe")
        assert await worker.end() == 0
        (line,) = worker.lines("telling")
        assert (line["name_"], line["message_"], line["args_"], line["event_"]) == ("cat", "inner", 3, "x")
        assert (line["job"], line["tool"]) == (job_id, "tells"), "whose line it is cannot be changed"
        assert f"told for {job_id}" in worker.text
        assert "grandmother" not in worker.text


async def test_a_payload_that_fitted_yesterdays_signature_is_a_clear_error_and_refunded(
    sqlite_workers: WorkerProcesses,
) -> None:
    async with sqlite_workers.opened_app():
        """Makes the database and the account."""
    yesterday = Ficha(sqlite_workers.url, plans=[Plan("all")])

    async def changed(job: Any, size: str, name: str) -> None: ...

    yesterday.tool(cost=7)(changed)
    async with yesterday:
        job_id = await submitted(yesterday, "changed", size="large", name="ana")
        worker = sqlite_workers.start("--burst")
        assert await worker.end() == 0
        job = await yesterday.job(job_id)
        assert (job.status, job.refunded) == ("failed", 7)
        for part in ("the payload does not fit tool changed", "size", "quality", "name"):
            assert part in job.error
        assert await balance(yesterday) == 1_000


async def test_a_tool_that_the_worker_does_not_know_is_left_to_others_with_one_warning(
    sqlite_workers: WorkerProcesses,
) -> None:
    async with sqlite_workers.opened_app():
        """Makes the database and the account."""
    newer = Ficha(sqlite_workers.url, plans=[Plan("all")])

    async def painted(job: Any) -> str:
        return "painted"

    newer.tool(cost=7)(painted)
    async with newer:
        jobs = [await submitted(newer, "painted") for _ in range(3)]
        worker = sqlite_workers.start("--burst")
        assert await worker.end() == 0
        for job_id in jobs:
            job = await newer.job(job_id)
            assert (job.status, job.attempts, job.recoveries, job.refunded) == ("queued", 0, 0, 0)
        warnings = [line for line in worker.lines() if line["level"] == "warning"]
        [warning] = warnings
        assert warning["event"] == "this worker has no tool painted; its jobs are left to other workers"


@pytest.mark.parametrize(
    ("app", "told"),
    [
        ("tests.worker.nowhere:app", "there is no module 'tests.worker.nowhere'"),
        ("tests.worker.application:missing", "the module 'tests.worker.application' has no 'missing'"),
        ("tests.worker.application:deed", "tests.worker.application:deed is a function, not a Ficha"),
    ],
)
def test_an_application_that_cannot_be_loaded_is_one_line_in_the_terminal(app: str, told: str, tmp_path: Path) -> None:
    command = [*COMMAND, "worker", "--app", app, "--database", f"sqlite:///{tmp_path / 'ficha.db'}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert " ".join(done.stderr.split()).startswith(f"error: {told}")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
