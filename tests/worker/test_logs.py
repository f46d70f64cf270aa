"""The log: one line for each thing that becomes of a job, with the same fields, for programs and for people."""

import json
import re
import signal

import pytest

from tests.cli.terminals import terminal
from tests.support.waiting import until
from tests.worker.worker_processes import ROOT, WorkerProcesses, ended, submitted

FIELDS = {"worker", "job", "tool", "attempt", "status", "duration_s"}


@pytest.mark.req("B9")
async def test_every_line_about_a_job_has_its_fields_and_there_is_one_per_transition(workers: WorkerProcesses) -> None:
    async with workers.opened_app(sweep_s=0.05) as app:
        worker = workers.start("--grace", "0.2")
        good = await submitted(app, "count", number=1)
        bad = await submitted(app, "misbehaves", kind="secret")
        slow = await submitted(app, "hangs")
        stays = await submitted(app, "waits", gate="never")
        gone = await submitted(app, "waits", gate="never")
        await ended(app, good, bad, slow)
        await workers.did("began", gone)
        await workers.did("began", stays)
        await app.cancel(gone)
        await until(lambda: worker.lines("lost"))
        worker.signal(signal.SIGTERM)
        assert await worker.end() == 0

        told: dict[str, list[tuple[str, str]]] = {}
        for line in worker.lines():
            assert {"timestamp", "level", "logger", "event"} <= line.keys()
            if "job" in line:
                assert line.keys() >= FIELDS, line
                assert (line["worker"], line["attempt"]) == (worker.name, 1)
                assert line["duration_s"] >= 0
                told.setdefault(line["job"], []).append((line["event"], line["status"]))
        claimed = ("claimed", "running")
        assert told == {
            good: [claimed, ("completed", "completed")],
            bad: [claimed, ("failed", "failed")],
            slow: [claimed, ("failed", "failed")],
            gone: [claimed, ("lost", "cancelled")],
            stays: [claimed, (told[stays][-1][0], "queued")],
        }
        levels = {(line["event"], line["level"]) for line in worker.lines() if "job" in line}
        assert levels >= {("claimed", "info"), ("completed", "info"), ("failed", "warning")}
        assert ("failed", "info") not in levels
        (failed,) = [line for line in worker.lines("failed") if line["job"] == bad]
        assert failed["error"].startswith("401 for https://ana:[hidden]@")
        assert "ConnectionError" in failed["exception"]
        assert "hunter2" not in failed["exception"]
        (timed_out,) = [line for line in worker.lines("failed") if line["job"] == slow]
        assert timed_out["duration_s"] >= 1.0
        # Nothing else came out of it: every line is for a program.
        assert all(line.startswith("{") and json.loads(line) for line in worker.text.splitlines())


@pytest.mark.req("B9")
async def test_in_a_terminal_the_same_lines_are_for_people(
    sqlite_workers: WorkerProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sqlite_workers.opened_app() as app:
        job_id = await submitted(app, "count", number=1)
        failing = await submitted(app, "misbehaves", kind="secret")
    for name, value in sqlite_workers.environment.items():
        monkeypatch.setenv(name, value)
    command = ["worker", "--app", "tests.worker.application:app", "--database", sqlite_workers.url, "--burst"]
    with terminal(*command, cwd=ROOT) as screen:
        assert screen.end() == 0
        lines = [line for line in screen.shown.splitlines() if job_id in line]
        said = re.compile(r"\d\d:\d\d:\d\d \[info +\] (\w+) ")
        assert [said.match(line)[1] for line in lines] == ["claimed", "completed"]
        assert "tool=count" in lines[1]
        assert "status=completed" in lines[1]
        assert failing in screen.shown
        assert "hunter2" not in screen.shown
        assert "[hidden]" in screen.shown
        assert "{" not in lines[0]
        assert "\x1b[" in screen.raw, "with colours"


@pytest.mark.req("B9")
async def test_a_log_of_warnings_has_the_jobs_that_failed_and_no_others(workers: WorkerProcesses) -> None:
    async with workers.opened_app() as app:
        good = await submitted(app, "count", number=1)
        bad = await submitted(app, "misbehaves", kind="secret")
        worker = workers.start("--burst", "--log-level", "warning")
        await ended(app, good, bad)
        assert await worker.end() == 0
        assert {(line["event"], line.get("job")) for line in worker.lines()} == {("failed", bad)}


async def test_what_a_handler_logs_shows_no_secret_in_the_log_or_the_history(workers: WorkerProcesses) -> None:
    async with workers.opened_app() as app:
        job_id = await submitted(app, "logs_secrets")
        worker = workers.start("--burst")
        await ended(app, job_id)
        assert await worker.end() == 0
        [line] = [line for line in worker.lines() if line["event"].startswith("called")]
        assert line["event"] == "called https://api.example.com/?token=[hidden]"
        assert (line["password"], line["nested"], line["size"]) == ("[hidden]", {"api_key": "[hidden]", "n": 1}, 7)
        history = [event.data["text"] for event in await app.events(job=job_id) if event.kind == "log"]
        assert "hunter2" not in worker.text + str(history)
        assert "size=7" in history[0]
