"""The commands under measure, as anybody starts them: from when they say that they are ready until they have stopped
as they were told."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from ..peer import Wrong
from ..processes import ROOT

STARTS_S: Final = 60.0
ENDS_S: Final = 60.0
LOOK_S: Final = 0.02
_PORT: Final = re.compile(r"listening at http://127\.0\.0\.1:(\d+)\n")
_WORKS: Final = re.compile(r'"worker started"')
_COMPLAINT: Final = re.compile(r'^.*"level": "(?:warning|error|critical)".*$|^(?!\{|listening at ).+$', re.MULTILINE)


class Running:
    """A command that runs. Its log goes to a file, as it would in production: nobody here takes time to read it."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, said: str) -> None:
        self.pid = process.pid
        self.said = said
        """What it said when it was ready."""
        self._log = log

    def complaints(self) -> list[str]:
        """Lines of the log that are no mere information."""
        return _COMPLAINT.findall(_text(self._log))


@asynccontextmanager
async def serving(
    url: str, processes: int = 1, *, application: str = f"{__package__}.application:app"
) -> AsyncIterator[tuple[Running, int]]:
    """The server, and the port that it listens on."""
    arguments = ("serve", "--port", "0", "--processes", str(processes), "--app", application)
    async with _running(arguments, url, _PORT) as server:
        yield server, int(server.said)


@asynccontextmanager
async def working(url: str, pool: str, handlers: int) -> AsyncIterator[Running]:
    """A worker for one pool."""
    arguments = ("worker", "--pools", pool, "--concurrency", str(handlers), "--app", f"{__package__}.application:app")
    async with _running(arguments, url, _WORKS) as worker:
        yield worker


@asynccontextmanager
async def _running(arguments: tuple[str, ...], url: str, ready: re.Pattern[str]) -> AsyncIterator[Running]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with open(log, "w") as lines:  # noqa: ASYNC230 (nothing else goes on here yet)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "ficha.cli", *arguments, "--log", "json"),
                *("--database", url),
                env={**os.environ, "FICHA_SECRET": secrets.token_urlsafe(32)},
                stderr=lines,
                cwd=ROOT,
            )
        try:
            yield Running(process, log, await _said(process, log, ready))
            process.terminate()
            async with asyncio.timeout(ENDS_S):
                await process.wait()
            if process.returncode != 0:
                raise Wrong(f"`ficha {arguments[0]}` ended with {process.returncode}: {_text(log)[-2_000:]}")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _said(process: asyncio.subprocess.Process, log: Path, ready: re.Pattern[str]) -> str:
    async with asyncio.timeout(STARTS_S):
        while (found := ready.search(_text(log))) is None:
            if process.returncode is not None:
                raise Wrong(f"a command ended before it had started: {_text(log)}")
            await asyncio.sleep(LOOK_S)
    return found[found.re.groups]


def _text(log: Path) -> str:
    return log.read_text("utf-8")
