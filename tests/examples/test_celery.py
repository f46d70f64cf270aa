"""The Celery example, as its users run it: a real Celery worker process, killed in the middle of a task."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ficha import Ficha

EXAMPLE = Path("examples/celery").resolve()


@pytest.mark.long
@pytest.mark.req("E7")
def test_a_celery_task_goes_on_after_its_process_died_and_pays_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    url = f"sqlite:///{tmp_path}/quotes.db"
    environment = os.environ | {
        "FICHA_DATABASE_URL": url,
        "CELERY_BROKER_URL": "filesystem://",
        "CELERY_FOLDER": str(tmp_path / "queue"),
        "QUOTES_LOG": str(tmp_path / "quotes.log"),
        "CRASH_ONCE": str(tmp_path / "crashed"),
    }
    celery = [
        sys.executable,
        "-m",
        "celery",
        "-A",
        "tasks",
        "worker",
        "-P",
        "solo",
        "--without-gossip",
        "--loglevel=warning",
    ]
    workers = [subprocess.Popen(celery, cwd=EXAMPLE, env=environment)]
    try:
        asked = subprocess.Popen(
            [sys.executable, "submit.py", "lamp", "chair"],
            cwd=EXAMPLE,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        workers.append(asked)
        assert workers[0].wait(60) == 1
        # The folder that plays the broker has lost the message with the process; a real one gives it out again.
        resend = "import sys; from tasks import process_quote; process_quote.delay(sys.argv[1])"
        (job_id,) = [line.split(":")[0] for line in [asked.stdout.readline()]]
        workers.append(subprocess.Popen(celery, cwd=EXAMPLE, env=environment))
        subprocess.run([sys.executable, "-c", resend, job_id], cwd=EXAMPLE, env=environment, check=True, timeout=60)
        assert asked.wait(60) == 0
        assert asked.stdout.read().startswith("completed")
    finally:
        for process in workers:
            process.kill()
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
    asyncio.run(look(url, job_id))
    assert (tmp_path / "quotes.log").read_text().split() == ["lamp", "chair"]


async def look(url: str, job_id: str) -> None:
    async with Ficha(url) as app:
        job = await app.job(job_id)
        assert (job.status, job.result) == ("completed", {"prices": {"lamp": 4, "chair": 5}})
        assert (job.recoveries, job.progress, (await app.account("ana")).balance) == (1, 100, 97)
        assert await app.verify() == []
