"""Real processes that start at the same instant.

The processes are kept between races; in each race every one of them opens the database anew. Orders and results travel
as lines of JSON. When anything goes wrong in a race, all processes are ended, and the next race starts fresh ones.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.support.processes import ForkedProcess

RACE_S = 60.0
"""No race comes near this."""


class RaceFailed(AssertionError):
    """A racer raised, logged an error, ended or hung."""


class RaceProcesses:
    def __init__(self) -> None:
        self._members: list[ForkedProcess] = []

    async def race(self, database: str, racers: list[dict[str, Any]], **settings: Any) -> list[Any]:
        """Sends out one process per racer, and returns what each one brought back.

        racers: each one's `role`, with what it is to be played with.
        settings: what the application is opened with.
        """
        return await asyncio.to_thread(self._race, database, racers, settings)

    def _race(self, database: str, racers: list[dict[str, Any]], settings: dict[str, Any]) -> list[Any]:
        while len(self._members) < len(racers):
            self._members.append(_start())
        members = self._members[: len(racers)]
        try:
            with tempfile.TemporaryDirectory(prefix="ficha-race-") as folder, Gates(Path(folder)) as gates:
                order = {"database": database, "settings": settings, "gates": folder, "seconds": RACE_S}
                for member, racer in zip(members, racers, strict=True):
                    _write(member, {**order, "racer": racer})
                return _results(members, gates)
        except BaseException:
            self.dismiss()
            raise

    def dismiss(self) -> None:
        """Ends the processes: they stop by themselves at the end of their input, or are killed if they hang."""
        members, self._members = self._members, []
        for member in members:
            assert member.stdin is not None
            with suppress(BrokenPipeError):
                member.stdin.close()
        for member in members:
            try:
                member.wait(timeout=2)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
            assert member.stdout is not None
            member.stdout.close()


class Gates:
    """Gates that are kept shut by locking a file for each, one ahead of the racers.

    A racer waits by asking for the lock too. When the lock is released, the system wakes all who wait at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened = 0
        self._shut = self._next()

    def _next(self) -> IO[str]:
        file = open(self._folder / str(self._opened), "w")  # noqa: SIM115 (it is shut for as long as it is open)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file

    def open(self) -> None:
        self._opened += 1
        now, self._shut = self._shut, self._next()
        now.close()

    def __enter__(self) -> Gates:
        return self

    def __exit__(self, *_: object) -> None:
        self._shut.close()


def _start() -> ForkedProcess:
    return ForkedProcess("tests.races.racer", (), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _write(member: ForkedProcess, order: dict[str, Any]) -> None:
    assert member.stdin is not None
    member.stdin.write(json.dumps(order) + "\n")
    member.stdin.flush()


def _results(members: list[ForkedProcess], gates: Gates) -> list[Any]:
    """Opens gate after gate, each when all have come to it, until all bring their results."""
    give_up_at = time.monotonic() + RACE_S + 10
    with ThreadPoolExecutor(len(members)) as readers:
        while True:
            try:
                lines = list(readers.map(_read, members, timeout=give_up_at - time.monotonic()))
            except BaseException:
                # Whoever still reads is let go by the end of the process.
                for member in members:
                    member.kill()
                raise
            for line in lines:
                if "trouble" in line:
                    raise RaceFailed(f"a racer was in trouble:\n{line['trouble']}")
            waiting = sum("gate" in line for line in lines)
            if waiting == 0:
                return [line["result"] for line in lines]
            if waiting < len(lines):
                raise RaceFailed(f"{waiting} of {len(lines)} racers wait at a gate that the others never come to")
            gates.open()


def _read(member: ForkedProcess) -> dict[str, Any]:
    assert member.stdout is not None
    line = member.stdout.readline()
    return json.loads(line) if line else {"trouble": f"it ended with code {member.wait()}"}
