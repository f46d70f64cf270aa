"""Processes under measure: started here, spoken to line by line, and looked at from outside through /proc."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg

from .peer import Wrong

ROOT: Final = Path(__file__).parent.parent
LONGEST_S: Final = 900.0
"""A process that takes longer to answer is given up: something hangs."""
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Child:
    """A process of ours that does what it is asked and answers with JSON."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def ask(self, command: str, **arguments: Any) -> Any:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        return await self.hear(command)

    async def hear(self, command: str) -> Any:
        """The next thing that it says, about what it was asked to do."""
        stdout = self._process.stdout
        assert stdout is not None
        async with asyncio.timeout(LONGEST_S):
            line = await stdout.readline()
        if not line:
            raise Wrong(f"the process that was to {command} ended without an answer")
        return json.loads(line)


@asynccontextmanager
async def child(module: str, *arguments: str) -> AsyncIterator[Child]:
    """A fresh Python process that runs a module; it ends with its input, or is ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", module, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        limit=2**26,
    )
    try:
        yield Child(process)
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(30):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def serve(**commands: Callable[..., Awaitable[Any]]) -> None:
    """The other side: answers each line of the input, until it ends."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command, arguments = json.loads(line)
        say(await commands[command](**arguments))


def say(answer: Any) -> None:
    print(json.dumps(answer), flush=True)


async def postmaster(url: str) -> int:
    """The process whose children are the server's."""
    connection = await asyncpg.connect(url)
    try:
        return int(_stat(await connection.fetchval("SELECT pg_backend_pid()"))[1])
    finally:
        await connection.close()


def server_cpu_s(postmaster_pid: int) -> float:
    """Processor time of a server so far: its own, that of its children, and that of those that have ended."""
    ticks = sum(map(int, _stat(postmaster_pid)[11:15]))
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = _stat(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended meanwhile.
            if int(stat[1]) == postmaster_pid:
                ticks += int(stat[11]) + int(stat[12])
    return ticks / TICKS_PER_S


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, in all its threads."""
    return sum(map(int, _stat(pid)[11:13])) / TICKS_PER_S


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; its name before them may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
