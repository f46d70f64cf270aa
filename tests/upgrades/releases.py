"""Releases that run side by side: their code in a folder each, and their servers, workers and commands as processes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.waiting import until_sync

ROOT = Path(__file__).parents[2]
GIT = shutil.which("git") or "git"
MIGRATIONS = "src/ficha/store/postgres/migrations"
SECRET = "dGVzdHMtb2YtdXBncmFkZXMtMDEyMzQ1Njc4OTAx"  # noqa: S105 (for the tests alone)
APPLICATION = """
import asyncio
from ficha import Ficha, FinalError, Plan

app = Ficha(plans=[Plan("open")], lease_s=10, heartbeat_s=1, sweep_s=0.5)

@app.tool(cost=3)
async def draw(job, n: int) -> dict:
    await job.checkpoint("begun", progress=10)
    await asyncio.sleep(0.01)
    if n % 5 == 3:
        raise FinalError("the third of five fails")
    return {"n": n}
"""
"""What both releases run; a job's end follows from its number."""


def git(*arguments: str) -> str:
    return subprocess.check_output([GIT, *arguments], cwd=ROOT, text=True, timeout=60).strip()


def previous() -> str:
    """The commit before the one that added the newest migration: the last state of the release before.

    That one must know ranges of versions. As long as it does not, the oldest commit that does is the release before.
    """
    added = git("log", "--diff-filter=A", "--format=%H", "--", f"{MIGRATIONS}/*.up.sql").splitlines()
    before = git("rev-parse", f"{added[0]}^")
    if "works_from" in git("show", f"{before}:src/ficha/store/migrations.py"):
        return before
    return git("log", "--reverse", "--format=%H", "-S", "works_from", "--", "src/ficha/store/migrations.py").split()[0]


def unpack(commit: str, folder: Path) -> Path:
    """The package as it was at a commit."""
    folder.mkdir()
    git("archive", "--output", str(folder / "release.tar"), commit, "src")
    shutil.unpack_archive(folder / "release.tar", folder)
    return folder / "src"


def newest(source: Path) -> int:
    """The number of the newest migration of a release."""
    files = (source / "ficha/store/postgres/migrations").glob("*.up.sql")
    return max(int(file.name[:4]) for file in files)


class Release:
    """One release at work on a database: its command, and processes that it starts.

    source: the folder that holds its package. folder: where its processes run.
    """

    def __init__(self, source: Path, folder: Path, database: str) -> None:
        self.source = source
        self.folder = folder
        self.newest = newest(source)
        self._database = database
        folder.mkdir(exist_ok=True)
        (folder / "app.py").write_text(APPLICATION)
        # Whatever is installed in this environment stays behind the release's own package.
        self._environment = os.environ | {
            "PYTHONPATH": str(source),
            "FICHA_DATABASE_URL": database,
            "FICHA_SECRET": SECRET,
            "FICHA_ATTEMPTS_PER_HOUR": "1000000",
            "FICHA_FILES_URL": f"file://{folder / 'files'}",
        }
        where = self._run("-c", "import ficha; print(ficha.__file__)").stdout
        assert where.startswith(str(source)), f"the release of {source} would run {where}"

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def command(self, *arguments: str) -> str:
        """Runs `ficha` to its end; what it printed."""
        done = self._run("-m", "ficha.cli", *arguments)
        assert done.returncode == 0, f"ficha {' '.join(arguments)}: {done.stderr}"
        return done.stdout + done.stderr

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        with self._process(name, "worker", "--name", name, "--concurrency", "8", "--log", "json"):
            yield

    @contextmanager
    def server(self, name: str) -> Iterator[str]:
        """A server; its address."""
        with self._process(name, "serve", "--port", "0") as log:
            found = until_sync(
                lambda: re.search(r"http://[\d.]+:\d+", log.read_text()), 100, what=f"{name} does not listen"
            )
            yield found[0]

    @contextmanager
    def _process(self, name: str, *arguments: str) -> Iterator[Path]:
        """A process that has to end well when it is asked to."""
        log = self.folder / f"{name}.log"
        with log.open("w") as out:
            command = [sys.executable, "-m", "ficha.cli", *arguments]
            process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, stdout=out, stderr=subprocess.STDOUT
            )
            try:
                yield log
                assert process.poll() is None, f"{name} ended by itself:\n{log.read_text()}"
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, f"{name} ended badly:\n{log.read_text()}"
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()


def copied(folder: Path) -> Path:
    """The present package in a folder of its own, to be added to."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder
