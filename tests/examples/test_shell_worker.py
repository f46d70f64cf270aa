"""The worker in shell, as its users run it: real processes that need nothing but HTTP, stopped and killed."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ficha import EventView
from ficha.client import Client, Wait
from tests.support.processes import ROOT
from tests.support.server_process import Served, served

SCRIPT = ROOT / "examples/shell_worker/worker.sh"
LEASE_MS = "3000"

Work = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path / 'ficha.db'}" if request.param == "sqlite" else request.getfixturevalue("migrated")
    application = ("--app", "examples.shell_worker.app:app")
    with served(url, *application, JOB_LOCK_TTL_MS=LEASE_MS, JOB_HEARTBEAT_INTERVAL_MS="1000") as server:
        yield server


@pytest.fixture
def work(server: Served, tmp_path: Path) -> Iterator[Work]:
    """Starts workers by name. What they say is kept in a file, as their children may outlive them by a second."""
    workers: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> "subprocess.Popen[bytes]":
        environment = {
            "PATH": os.environ["PATH"],
            "FICHA_URL": server.url,
            "FICHA_TOKEN": server.service,
            "WORKER_ID": name,
            "BEAT_S": "1",
        }
        with open(tmp_path / f"{name}.log", "ab") as log:
            workers.append(
                subprocess.Popen(["/bin/sh", SCRIPT], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            )
        return workers[-1]

    yield start
    for worker in workers:
        worker.kill()
        worker.wait(10)


@pytest.fixture
def me(server: Served, name: str) -> Iterator[Client]:
    with Client(server.url, server.account(name, plan="free")) as client:
        yield client


@pytest.fixture
def operator(server: Served) -> Iterator[Client]:
    """Who sees what a job's owner does not: which worker had it."""
    with Client(server.url, server.service) as client:
        yield client


def watch_until(me: Client, job_id: str, kind: str, after: int = 0) -> EventView:
    """Watches until this happens."""
    for happening in me.watch(job_id, after=after):
        if isinstance(happening, EventView) and happening.kind == kind:
            return happening
        assert isinstance(happening, EventView | Wait) or happening.finished_at is None
    raise AssertionError


@pytest.mark.long_on("postgresql")
@pytest.mark.req("B4")
def test_a_worker_in_shell_completes_jobs_and_keeps_its_leases_alive(
    server: Served, work: Work, me: Client, tmp_path: Path
) -> None:
    work("shell-1")
    jobs = [me.submit("count", {"upto": upto}).job_id for upto in (1, 5)]
    done = [me.wait(job_id, 60) for job_id in jobs]
    assert [job.result for job in done] == [{"counted": 1, "by": "shell-1"}, {"counted": 5, "by": "shell-1"}]
    assert {job.recoveries for job in done} == {0}, "five seconds of work under a lease of three"
    kinds = [event.kind for event in me.events(job=jobs[1])]
    assert kinds == ["submitted", "claimed", "started", *["checkpoint"] * 5, "completed"]
    assert server.service not in (tmp_path / "shell-1.log").read_text()


@pytest.mark.long
@pytest.mark.req("B4", "B10")
def test_a_killed_worker_loses_nothing_another_goes_on_where_it_was(work: Work, me: Client, operator: Client) -> None:
    first = work("shell-1")
    job_id = me.submit("count", {"upto": 4}).job_id
    second = watch_until(me, job_id, "checkpoint", after=watch_until(me, job_id, "checkpoint").number)
    first.kill()
    first.wait(10)
    work("shell-2")
    job = me.wait(job_id, 60)
    assert (job.status, job.result) == ("completed", {"counted": 4, "by": "shell-2"})
    assert (job.recoveries, job.charged, job.refunded) == (1, 2, 0)
    events = me.events(job=job_id)
    recovered = next(event for event in operator.events(job=job_id) if event.kind == "recovered")
    assert recovered.data["worker"] == "shell-1"
    saved = [event for event in events if event.kind == "checkpoint"]
    assert len(saved) == 4, "no second of work was done twice"
    assert second in saved


def test_a_worker_that_is_stopped_hands_its_job_back(work: Work, me: Client, operator: Client) -> None:
    first = work("shell-1")
    job_id = me.submit("count", {"upto": 3}).job_id
    watch_until(me, job_id, "checkpoint")
    first.send_signal(signal.SIGTERM)
    assert first.wait(30) == 0
    assert watch_until(operator, job_id, "returned").data["worker"] == "shell-1"
    work("shell-2")
    job = me.wait(job_id, 60)
    assert (job.status, job.result, job.recoveries) == ("completed", {"counted": 3, "by": "shell-2"}, 0)


@pytest.mark.req("B5")
def test_a_worker_whose_job_is_cancelled_lets_go_of_it_and_takes_the_next(work: Work, me: Client) -> None:
    work("shell-1")
    job_id = me.submit("count", {"upto": 500}).job_id
    watch_until(me, job_id, "checkpoint")
    me.cancel(job_id)
    following = me.submit("count", {"upto": 1}).job_id
    assert me.wait(following, 60).status == "completed"
    assert me.job(job_id).status == "cancelled"
