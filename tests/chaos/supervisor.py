"""Starts the load, keeps it alive as a service manager would, and proves at the end that all is well."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import apsw
import asyncpg
from msgspec import Struct
from msgspec.structs import replace

from ficha.core.records import Leased
from ficha.store.base import GetJobs, GetState, GetStats, ListJobs, Store, StoreError
from ficha.store.connect import connect
from tests.chaos import actors
from tests.chaos.actors import Habits, Order
from tests.chaos.application import ACCOUNTS, CREDITS, LEASE_S, SWEEP_S, application
from tests.chaos.board import DRAIN, LEAVE, RUN, Board
from tests.chaos.crashes import Act, Point
from tests.chaos.oracle import contradictions
from tests.chaos.records import Record, lines

BOUND_S: Final = LEASE_S + 1.2 * SWEEP_S
"""How long work that a fault has stopped may lie still: the lease, and one sweep."""
SLACK_S: Final = 6.0
"""What a busy machine may add to that, and the backlog's own time."""
STILL_S: Final = 0.6
"""How long nothing may end before the load is said to stand still: many times a job's own time."""

# Processes come from a server that has imported everything: a restart then costs milliseconds, not half a second.
_processes: Final = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.chaos.actors"])


class Actor:
    """One process of the load, over all its lives."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.is_kept = True
        self.is_stopped = False
        self._process: ForkServerProcess | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self, crash: tuple[Point, Act, int] | None = None) -> None:
        self.order = replace(self.order, life=self.order.life + 1, crash=crash)
        self.is_stopped = False
        self._process = _processes.Process(target=actors.main, args=(self.order,), daemon=True)
        self._process.start()

    def send(self, sign: signal.Signals) -> None:
        if self._process is not None and self._process.is_alive() and self._process.pid is not None:
            self.is_stopped = sign == signal.SIGSTOP or (self.is_stopped and sign != signal.SIGCONT)
            os.kill(self._process.pid, sign)

    async def left_in_order(self, most_s: float) -> bool:
        """Whether the process ended by itself within that time, with all its work done."""
        return await self.gone(most_s) and self._process is not None and self._process.exitcode == 0

    async def gone(self, most_s: float) -> bool:
        """Whether the process ended within that time."""
        until = time.monotonic() + most_s
        while self.is_alive and time.monotonic() < until:  # noqa: ASYNC110 (it cannot tell of its own end)
            await asyncio.sleep(0.01)
        return not self.is_alive


class Verdict(Struct):
    """What came of a load under faults."""

    wrong: list[str]
    jobs: int
    recovered: int
    """How often a job had to be taken from a process that was lost."""
    recovery_s: float
    """From the end of the fault until everything submitted was at its end."""


class Load:
    """Submitters and workers on one database.

    database: what the processes open; through a proxy or a pooler, say.
    direct: the same database without detours, for the supervisor itself.
    """

    def __init__(
        self,
        database: str,
        folder: Path,
        *,
        direct: str | None = None,
        habits: Habits | None = None,
        submitters: int = 2,
        workers: int = 3,
        seed: int = 0,
    ) -> None:
        self.database = database
        self.direct = direct or database
        self.folder = folder
        self.choice = random.Random(seed)
        self.board = Board(folder / "board")
        self.board.phase = RUN
        names = [f"submitter-{n}" for n in range(submitters)] + [f"worker-{n}" for n in range(workers)]
        self.actors = [
            Actor(
                Order(
                    "submit" if name.startswith("submitter") else "work",
                    name,
                    slot,
                    0,
                    database,
                    str(folder),
                    habits or Habits(),
                )
            )
            for slot, name in enumerate(names)
        ]
        self.samples: list[tuple[float, int]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._store: Store | None = None

    def set_clocks_apart(self, seconds: int) -> None:
        """Before the start: each process has its own idea of the time, from so much behind to so much ahead."""
        for number, actor in enumerate(self.actors):
            ahead = seconds * (number % 3 - 1)
            actor.order = replace(actor.order, habits=replace(actor.order.habits, clock_ahead_s=ahead))

    @property
    def submitters(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.order.role == "submit"]

    @property
    def workers(self) -> list[Actor]:
        return [actor for actor in self.actors if actor.order.role == "work"]

    async def __aenter__(self) -> Self:
        async with application(self.direct, Record(self.folder, "supervisor", 0), sweep_by_itself=False) as app:
            for account, plan in ACCOUNTS.items():
                await app.open_account(account, plan=plan, credits=CREDITS)
        # Opened before the faults: a file that a stopped process has locked cannot be opened.
        self._store = await connect(self.direct)
        await self._store.open()
        for actor in self.actors:
            actor.start()
        self._keeper = asyncio.create_task(self._keep())
        await self.progress(5 * len(self.workers), 20.0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for actor in self.actors:
            actor.send(signal.SIGKILL)
        for actor in self.actors:
            await actor.gone(5.0)
        if self._store is not None:
            with suppress(StoreError):
                await self._store.close()
        self.board.close()

    async def _keep(self) -> None:
        """Starts again whoever has died, and counts."""
        while True:
            for actor in self.actors:
                is_wanted = self.board.phase == RUN or actor.order.role == "work"
                if actor.is_kept and is_wanted and not actor.is_alive:
                    actor.start()
            self.samples.append((time.monotonic(), self.ended))
            await asyncio.sleep(0.05)

    @property
    def ended(self) -> int:
        """How many jobs the workers were told to have ended, so far."""
        return self.board.counted(1, len(self.actors))

    @property
    def disk_faults(self) -> int:
        return self.board.counted(2, len(self.actors))

    def rates(self, since: float, width_s: float) -> list[tuple[float, float]]:
        """Every stretch of that width from a moment on: when it began, and how many jobs per second ended in it."""
        inside = [sample for sample in self.samples if sample[0] >= since]
        found = []
        last = 0
        for began_at, ended in inside:
            while last < len(inside) and inside[last][0] < began_at + width_s:
                last += 1
            if last == len(inside):
                break
            found.append((began_at, (inside[last][1] - ended) / (inside[last][0] - began_at)))
        return found

    async def progress(self, jobs: int, most_s: float) -> float:
        """Waits until so many more jobs were ended, and says how long that took."""
        began_at, target = time.monotonic(), self.ended + jobs
        while self.ended < target:
            if time.monotonic() > began_at + most_s:
                raise AssertionError(f"{jobs} jobs were not ended within {most_s} s\n{self.last_words()}")
            await asyncio.sleep(0.01)
        return time.monotonic() - began_at

    async def stands_still(self, most_s: float) -> bool:
        """Whether, within that time, the workers came to end nothing any more."""
        until = time.monotonic() + most_s
        while time.monotonic() < until:
            before = self.ended
            await asyncio.sleep(STILL_S)
            if self.ended == before:
                return True
        return False

    async def settled(self, most_s: float) -> float:
        """How long it takes from now until every job that is active now is at its end, under the same load."""
        began_at = time.monotonic()
        ids: tuple[str, ...] | None = None
        while time.monotonic() < began_at + most_s:
            with suppress(StoreError):
                if ids is None:
                    active = await self.store.read(ListJobs(statuses=("queued", "starting", "running"), limit=10_000))
                    ids = tuple(job.id for job in active)
                rows = await self.store.read(GetJobs(ids))
                if all(row.job.finished_at is not None for row in rows):
                    return time.monotonic() - began_at
            await asyncio.sleep(0.02)
        raise AssertionError(f"jobs that were active when the fault ended are so {most_s} s later")

    async def finish(self, most_s: float = BOUND_S + SLACK_S) -> Verdict:
        """No more faults, no more submits: everything must come to its end by itself, and be right."""
        began_at = time.monotonic()
        for actor in self.actors:
            if actor.is_stopped:
                actor.send(signal.SIGCONT)
        self.board.phase = DRAIN
        for actor in self.submitters:
            while not await actor.left_in_order(most_s):
                # One that was killed has a key whose answer it does not know: it is started a last time, to ask.
                assert time.monotonic() < began_at + most_s, f"{actor.order.name} has no answer\n{self.last_words()}"
                actor.start()
        await self._drained(began_at + most_s)
        recovery_s = time.monotonic() - began_at
        self.board.phase = LEAVE
        left = [actor.order.name for actor in self.workers if not await actor.gone(8.0)]
        state = await self.store.read(GetState(texts=True))
        wrong = contradictions(state, lines(self.folder))
        if left:
            wrong.append(f"{left} did not leave when told to")
        async with application(self.direct, Record(self.folder, "supervisor", 1), sweep_by_itself=False) as app:
            wrong += await app.verify()
        if self.direct.startswith("sqlite:"):
            wrong += _damage(self.direct.removeprefix("sqlite:///"))
        recovered = sum(job.recoveries for job in state.jobs.values())
        return Verdict(wrong, len(state.jobs), recovered, recovery_s)

    async def _drained(self, give_up_at: float) -> None:
        while True:
            by_status = {}
            with suppress(StoreError):
                by_status = (await self.store.read(GetStats(1_000))).by_status
                if not any(by_status.values()):
                    return
            if time.monotonic() > give_up_at:
                raise AssertionError(f"jobs are left that nothing ends: {by_status}\n{self.last_words()}")
            await asyncio.sleep(0.02)

    async def holds(self, worker: str) -> bool:
        """Whether a job is in the hands of that worker."""
        held = await self.store.read(ListJobs(statuses=("starting", "running"), limit=1_000))
        return any(isinstance(job.place, Leased) and job.place.worker == worker for job in held)

    async def is_locked(self) -> bool:
        """Whether a process that does not move keeps a transaction open; on PostgreSQL it is ended, and no more is."""
        await asyncio.sleep(0.15)
        if self.direct.startswith("sqlite:"):
            return await asyncio.to_thread(_cannot_write, self.direct.removeprefix("sqlite:///"))
        connection = await asyncpg.connect(self.direct)
        try:
            await connection.execute(_END_OPEN_TRANSACTIONS)
            return False
        finally:
            await connection.close()

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    def last_words(self) -> str:
        """The ends of the logs, for whoever has to find out what went wrong."""
        return "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-15:])
            for path in sorted(self.folder.glob("*.log"))
        )


_END_OPEN_TRANSACTIONS: Final = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '0.1 s'
"""


def _cannot_write(path: str) -> bool:
    db = apsw.Connection(path)
    try:
        db.set_busy_timeout(300)
        db.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return True
    else:
        return False
    finally:
        db.close()


def _damage(path: str) -> list[str]:
    db = apsw.Connection(path)
    try:
        found = [row[0] for row in db.execute("PRAGMA integrity_check")]
        found += [str(row) for row in db.execute("PRAGMA foreign_key_check")]
        return [words for words in found if words != "ok"]
    finally:
        db.close()
