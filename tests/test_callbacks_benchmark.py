"""The measure of call-backs runs and writes what it should; how fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.awaiting_jobs import AwaitingJobs, app
from benchmarks.callbacks import PASSES, _figures, _rows
from benchmarks.databases import Sqlite
from benchmarks.peer import Wrong
from benchmarks.serving.application import opened
from benchmarks.serving.throughput import Sample
from ficha.providers import ReceivedCallback

ROOT = Path(__file__).parent.parent


@pytest.mark.long
@pytest.mark.timeout(200)
@pytest.mark.parametrize(("database", "name"), [("postgres", "PostgreSQL"), ("sqlite", "SQLite")])
def test_a_quick_run_writes_results_that_do_not_name_the_machine(database: str, name: str, tmp_path: Path) -> None:
    arguments = ["--quick", "--database", database, "--output", str(tmp_path)]
    command = [sys.executable, "-m", "benchmarks.callbacks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "callbacks.json").read_text(encoding="utf-8"))["figures"]
    assert [(figure["database"], figure["what"]) for figure in figures] == [(name, what) for what in PASSES]
    assert all(figure["per_second"] > 0 and figure["ratio"] > 0 for figure in figures)
    text = (tmp_path / "CALLBACKS.md").read_text(encoding="utf-8")
    assert f"| {name}: the same call-back again |" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text


async def test_a_job_without_its_call_back_is_found(tmp_path: Path) -> None:
    async with opened(Sqlite(tmp_path), waiting=0) as shop:
        awaiting = await AwaitingJobs.made(shop.url, 2)
        await awaiting.check(submitted=0, callbacks=0)
        with pytest.raises(Wrong, match="has these call-backs: "):
            await awaiting.check(submitted=0, callbacks=1)
        with pytest.raises(Wrong, match="2 jobs were submitted instead of 3"):
            await awaiting.check(submitted=1, callbacks=0)


async def test_a_call_back_is_signed_as_the_provider_signs_and_goes_to_the_address_of_its_job() -> None:
    head, _, body = AwaitingJobs("", ["job-0", "job-1"]).callback(1).partition(b"\r\n\r\n")
    first, *lines = head.decode().splitlines()
    _, _, _, name, token = first.split(" ")[1].split("/")
    provider, job_id, attempt = app.check_callback(name, token)
    assert (job_id, attempt) == ("job-1", 0)
    headers = {key.lower(): value for key, value in (line.split(": ", 1) for line in lines)}
    callback = ReceivedCallback(headers, body, float(headers["webhook-timestamp"]))
    # It raises BadCallback where the signature does not fit.
    assert await provider.verify(app.provider_http(provider), callback) is not None
    assert provider.refs(callback) == "prediction-job-1"


def test_a_ratio_is_the_median_of_those_within_each_round() -> None:
    rounds = [
        {"submit": sample(submits), "call-back": sample(called), "again": sample(submits)}
        for submits, called in ((100, 10), (1_000, 300), (10, 9))
    ]
    submit, called, again = _figures("SQLite", rounds)
    assert (submit["ratio"], called["ratio"], again["ratio"]) == (1, 0.3, 1)
    assert (submit["per_second"], called["per_second"], called["server_us"]) == (100, 10, 3)
    _, row, *_ = _rows([called])
    assert row[1:4] == ["10 (9 to 300)", "0.30", "1.0 / 2.0"]


def sample(per_second: float) -> Sample:
    return Sample(per_second, p50_ms=1, p99_ms=2, server_us=3, database_us=4, client_us=5)
