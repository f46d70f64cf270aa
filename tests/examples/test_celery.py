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
        # The folder that plays the broker has lost the message with the process. Nobody sends it again but Ficha, when
        # it takes the job back.
        job_id = asked.stdout.readline().split(":")[0]
        workers.append(subprocess.Popen(celery, cwd=EXAMPLE, env=environment))
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
