"""Submits from a build: the script and the workflow as they are in the examples, against a real server and worker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ficha.client import Client
from tests.client.scripted_server import HANG_UP, http, wire
from tests.support.processes import ROOT
from tests.support.server_process import Served, served

SCRIPT = ROOT / "examples/ci/submit.sh"
WORKFLOW = yaml.safe_load((ROOT / "examples/ci/github-actions.yml").read_text())
SH, BASH = "/bin/sh", "/bin/bash"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path_factory.mktemp('ci') / 'ficha.db'}") as server:
        yield server


@pytest.fixture
def worker(server: Served) -> Iterator[None]:
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ficha.cli", "worker", "--app", "tests.server.shop:app"),
            *("--database", server.database, "--log-level", "warning"),
        ],
        cwd=ROOT,
    )
    yield
    process.terminate()
    assert process.wait(60) == 0


def submit(url: str, token: str, *arguments: str, expect: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [SH, SCRIPT, *arguments],
        env={"PATH": os.environ["PATH"], "FICHA_URL": url, "FICHA_TOKEN": token},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


@pytest.mark.req("C5")
def test_the_script_submits_once_per_key_and_waits_for_the_result(server: Served, worker: None) -> None:
    token = server.account("script", credits=20)
    payload = '{"image": "status\\": \\"failed", "scale": 3}'
    first, said = submit(server.url, token, "upscale", payload, "cover-abc123")
    job = json.loads(first)
    assert (job["status"], job["result"]) == ("completed", {"image": 'status": "failed x3'})
    assert said.splitlines()[0] == f"job {job['id']} is submitted"
    assert said.splitlines()[-1] == f"job {job['id']} is completed"
    again, said = submit(f"{server.url}/", token, "upscale", payload, "cover-abc123")
    assert json.loads(again) == job
    assert said.splitlines()[0] == f"job {job['id']} was submitted before; nothing is charged now"
    other, _ = submit(server.url, token, "upscale", payload, "cover-def456")
    assert json.loads(other)["id"] != job["id"]
    with Client(server.url, token) as me:
        assert me.account().balance == 10


def test_the_script_ends_as_the_job_did(server: Served, worker: None) -> None:
    token = server.account("ends", credits=20)
    failed, said = submit(server.url, token, "broken", "{}", "k1", expect=1)
    assert json.loads(failed)["error"] == "the provider said no"
    assert said.splitlines()[-1].endswith("is failed")
    with Client(server.url, token) as me:
        later = me.submit("upscale", {"image": "x"}, idempotency_key="k2", delay_s=600).job_id
        _, said = submit(server.url, token, "upscale", '{"image": "x"}', "k2", "0", expect=4)
        assert said.splitlines()[-1] == f"job {later} has not ended in time; it goes on by itself"
        me.cancel(later)
    submit(server.url, token, "upscale", '{"image": "x"}', "k2", expect=3)


def test_the_script_says_why_it_was_refused(server: Served) -> None:
    token = server.account("poor", credits=4)
    out, said = submit(server.url, token, "upscale", '{"image": "x"}', "k", expect=2)
    assert out == ""
    assert "INSUFFICIENT_CREDITS" in said
    assert token not in said
    _, said = submit(server.url, "ficha_user_nonsense", "upscale", "{}", "k", expect=2)
    assert "UNAUTHENTICATED" in said


def test_the_script_asks_again_with_the_same_key_when_nobody_answers() -> None:
    receipt = b'{"success":true,"job_id":"j-1","status":"queued"}'
    ended = b'{"id":"j-1","account":"ana","status":"completed","payload":{"status":"failed"},"result":null}'
    with wire(HANG_UP, http(503), http(201, receipt), http(502), http(200, ended)) as server:
        out, said = submit(server.url, "secret-token", "draw", '{"a": [1, {"b": "c d"}]}', "k-1")
    assert out.encode() == ended + b"\n"
    assert [head.split(" ")[0] for head in server.requests] == ["POST", "POST", "POST", "GET", "GET"]
    assert all("Idempotency-Key: k-1\r\n" in head for head in server.requests[:3])
    assert len(set(server.bodies[:3])) == 1
    assert json.loads(server.bodies[0])["payload"] == {"a": [1, {"b": "c d"}]}
    assert said.count("does not answer") == 3


@pytest.mark.req("C5")
def test_the_workflow_pays_once_for_a_commit_however_often_it_is_built(
    server: Served, worker: None, tmp_path: Path
) -> None:
    token = server.account("builds", credits=20)
    sha = "4f2c1d9a7b3e5f60812233445566778899aabbcc"
    context = {"${{ vars.FICHA_URL }}": server.url, "${{ secrets.FICHA_TOKEN }}": token}
    for _ in range(2):
        run_workflow(tmp_path, context, GITHUB_SHA=sha, GITHUB_REPOSITORY="me/site")
    with Client(server.url, token) as me:
        (job,) = me.jobs(include=["payload"]).items
        assert (job.status, me.account().balance) == ("completed", 15)
        assert job.payload["image"] == f"https://raw.githubusercontent.com/me/site/{sha}/cover.png"
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("```json\n") == 2
    assert json.loads(summary.split("```json\n")[1].split("```")[0])["id"] == job.id


def run_workflow(folder: Path, context: dict[str, str], **environment: str) -> None:
    """Runs the steps as the runner of Actions does: each script with bash, in a check-out, with its variables."""
    checkout = folder / "checkout"
    (checkout / "examples").mkdir(parents=True, exist_ok=True)
    if not (checkout / "examples/ci").exists():
        (checkout / "examples/ci").symlink_to(ROOT / "examples/ci")
    [job] = WORKFLOW["jobs"].values()
    for step in job["steps"]:
        if "run" not in step:
            assert step["uses"].partition("@")[0] == "actions/checkout"
            continue
        script = folder / "step.sh"
        script.write_text(step["run"])
        given: dict[str, Any] = {name: context[value] for name, value in step.get("env", {}).items()}
        subprocess.run(
            [BASH, "-e", script],
            cwd=checkout,
            env={
                "PATH": os.environ["PATH"],
                "CI": "true",
                "GITHUB_ACTIONS": "true",
                "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
                **environment,
                **given,
            },
            timeout=100,
            check=True,
        )
