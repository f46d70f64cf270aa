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
PIPELINE = yaml.safe_load((ROOT / "examples/ci/gitlab-ci.yml").read_text())
SHA = "4f2c1d9a7b3e5f60812233445566778899aabbcc"
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


def submit(
    url: str, token: str, *arguments: str, expect: int = 0, shell: str = SH, **environment: str
) -> tuple[str, str]:
    done = subprocess.run(
        [shell, SCRIPT, *arguments],
        env={"PATH": os.environ["PATH"], "FICHA_URL": url, "FICHA_TOKEN": token, **environment},
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
    assert said.splitlines()[-1] == f"job {job['id']} completed"
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
    assert said.splitlines()[-1] == f"job {json.loads(failed)['id']} failed: the provider said no"
    with Client(server.url, token) as me:
        later = me.submit("upscale", {"image": "x"}, idempotency_key="k2", delay_s=600).job_id
        _, said = submit(server.url, token, "upscale", '{"image": "x"}', "k2", "0", expect=4)
        assert said.splitlines()[-1] == f"job {later} has not ended in time; it goes on by itself"
        me.cancel(later)
    submit(server.url, token, "upscale", '{"image": "x"}', "k2", expect=3)


def test_the_script_says_why_it_was_refused(server: Served) -> None:
    token = server.account("poor", credits=4)
    out, said = submit(server.url, token, "upscale", '{"image": "x"}', "k", expect=5)
    assert out == ""
    assert "INSUFFICIENT_CREDITS" in said
    assert token not in said
    _, said = submit(server.url, "ficha_user_nonsense", "upscale", "{}", "k", expect=6)
    assert "UNAUTHENTICATED" in said
    for tool, payload in (("upscale", "{}"), ("nothing", "{}"), ("upscale", "no json")):
        submit(server.url, token, tool, payload, "k", expect=2)


@pytest.mark.parametrize(
    ("status", "code", "expect"),
    [
        (402, "COST_LIMIT", 5),
        (429, "QUOTA_EXCEEDED", 5),
        (409, "ACTIVE_JOB_EXISTS", 5),
        (403, "FORBIDDEN", 6),
        (410, "ACCOUNT_CLOSED", 6),
        (429, "RATE_LIMITED", 7),
        (500, "INTERNAL", 7),
        (422, "IDEMPOTENCY_MISMATCH", 2),
    ],
)
def test_the_script_ends_by_the_kind_of_refusal(status: int, code: str, expect: int) -> None:
    problem = {"code": code, "detail": "not now", "success": False, "error": '100% "no"\n::error::not now'}
    with wire(http(status, json.dumps(problem, separators=(",", ":")).encode())) as server:
        out, said = submit(server.url, "t", "draw", "{}", "k", expect=expect, GITHUB_ACTIONS="true")
    assert (out, len(server.requests)) == ("", 1)
    # What others wrote begins no line, and so is no command to the build.
    assert said.splitlines()[1:] == [f'::error title=Ficha::100%25 "no"\\n::error::not now ({code})']


def test_a_build_without_a_server_says_so_and_ends_after_a_minute(tmp_path: Path) -> None:
    """Its pauses are as long as they are told, by a clock that does not wait."""
    (tmp_path / "sleep").write_text('#!/bin/sh\necho "$1" >> "$PAUSES"\n')
    (tmp_path / "sleep").chmod(0o755)
    pauses = tmp_path / "pauses"
    path = f"{tmp_path}:{os.environ['PATH']}"
    _, said = submit("http://127.0.0.1:9", "t", "draw", "{}", "k", expect=7, PATH=path, PAUSES=str(pauses))
    assert said.splitlines()[-1] == "the server at http://127.0.0.1:9 does not answer (000)"
    assert [int(line) for line in pauses.read_text().split()] == [1, 2, 4, 8, 16, 32]


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
    context = {"${{ vars.FICHA_URL }}": server.url, "${{ secrets.FICHA_TOKEN }}": token}
    for _ in range(2):
        said = run_workflow(tmp_path, context, GITHUB_SHA=SHA, GITHUB_REPOSITORY="me/site")
    with Client(server.url, token) as me:
        (job,) = me.jobs(include=["payload"]).items
        assert (job.status, me.account().balance) == ("completed", 15)
        assert job.payload["image"] == f"https://raw.githubusercontent.com/me/site/{SHA}/cover.png"
    assert f"::notice title=Ficha::job {job.id} completed\n" in said
    assert (tmp_path / "submit.output").read_text() == 2 * f"job_id={job.id}\n"
    [told] = WORKFLOW["jobs"].values()
    assert told["outputs"] == {"job_id": "${{ steps.submit.outputs.job_id }}"}
    summary = (tmp_path / "summary.md").read_text()
    assert summary.count("```json\n") == 2
    assert json.loads(summary.split("```json\n")[1].split("```")[0])["id"] == job.id


@pytest.mark.req("C5")
def test_the_pipeline_pays_once_for_a_commit_and_later_jobs_know_the_job(
    server: Served, worker: None, tmp_path: Path
) -> None:
    token = server.account("pipelines", credits=20)
    [told] = PIPELINE.values()
    reports = told["artifacts"]["reports"]
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples/ci").symlink_to(ROOT / "examples/ci")
    for _ in range(2):
        done = subprocess.run(
            [BASH, "-e", "-c", "\n".join(told["script"])],
            cwd=tmp_path,
            env={
                "PATH": os.environ["PATH"],
                "CI": "true",
                "GITLAB_CI": "true",
                "CI_PROJECT_URL": "https://gitlab.com/me/site",
                "CI_PROJECT_PATH": "me/site",
                "CI_COMMIT_SHA": SHA,
                "FICHA_URL": server.url,
                "FICHA_TOKEN": token,
                **told["variables"],
            },
            timeout=100,
            check=True,
            capture_output=True,
            text=True,
        )
    with Client(server.url, token) as me:
        (job,) = me.jobs(include=["payload"]).items
        assert (job.status, me.account().balance) == ("completed", 15)
        assert job.payload["image"] == f"https://gitlab.com/me/site/-/raw/{SHA}/cover.png"
    assert json.loads((tmp_path / "job.json").read_text())["id"] == job.id
    assert (tmp_path / reports["dotenv"]).read_text() == 2 * f"job_id={job.id}\n"
    [link] = json.loads((tmp_path / reports["annotations"]).read_text())["ficha"]
    assert link == {"external_link": {"label": f"job {job.id}: notice", "url": f"{server.url}/console/jobs/{job.id}"}}
    assert done.stderr.splitlines()[-1] == f"job {job.id} completed"


@pytest.mark.parametrize("shell", [SH, BASH])
def test_a_build_whose_job_fails_says_so_and_still_has_its_id(
    server: Served, worker: None, tmp_path: Path, shell: str
) -> None:
    token = server.account(f"annotated {shell}", credits=20)
    given = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path / "output")}
    out, said = submit(server.url, token, "broken", "{}", "me/site:1:x", expect=1, shell=shell, **given)
    job = json.loads(out)["id"]
    assert said.splitlines()[-1].startswith(f"::error title=Ficha::job {job} failed: ")
    assert (tmp_path / "output").read_text() == f"job_id={job}\n"


def run_workflow(folder: Path, context: dict[str, str], **environment: str) -> str:
    """Runs the steps as the runner of Actions does: each script with bash, in a check-out, with its variables. Returns
    all that they said."""
    said = ""
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
        done = subprocess.run(
            [BASH, "-e", script],
            cwd=checkout,
            env={
                "PATH": os.environ["PATH"],
                "CI": "true",
                "GITHUB_ACTIONS": "true",
                "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
                "GITHUB_OUTPUT": str(folder / f"{step.get('id', 'other')}.output"),
                **environment,
                **given,
            },
            timeout=100,
            check=True,
            capture_output=True,
            text=True,
        )
        said += done.stdout + done.stderr
    return said
