"""The soak: `python -m tests.soak --minutes 10 --report soak-report.md`.

Submitters in-process and over HTTP, workers and servers on one PostgreSQL, for so many minutes. Meanwhile processes of
every kind are killed at random, PostgreSQL is stopped as a crash would stop it, ended jobs are pruned all the time, and
in the middle a later release's additive migration is applied and all processes are restarted one by one beside each
other. At the end everything submitted must be at its end and `verify` clean. Memory, the working tables and connections
must be flat after a warm-up. The report says so, with the times of recovery. Ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import secrets
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import asyncpg
import httpx
from msgspec import Struct
from msgspec.structs import replace

from ficha import Refused, Retention
from ficha.operations import retention as retention_walk
from ficha.store.base import StoreError
from ficha.store.postgres import PostgresStore
from tests.chaos.actors import Habits
from tests.chaos.application import OPEN_ACCOUNTS, application
from tests.chaos.board import DRAIN, LEAVE
from tests.chaos.records import Record
from tests.chaos.servers import FragileServer, crash, fragile_server
from tests.chaos.supervisor import Load
from tests.soak.measures import Judged, Sample, judged, memory_mb
from tests.support.processes import ForkedProcess

KEPT_S: Final = 15.0
"""For how long ended jobs are kept."""
RECOVERED_S: Final = 60.0
"""How soon after a fault work must go on."""
TABLES: Final = ("accounts", "ready", "parked", "leases", "jobs", "checkpoints", "steps", "events")
"""Those whose rows leave again. The ledger and the idempotency keys stay longer than any soak."""
HABITS: Final = Habits(callers=3, accounts=OPEN_ACCOUNTS, pace_s=0.05, handler_s=0.02)
SERVERS: Final = 2
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")


class Outcome(Struct):
    minutes: float
    jobs: int = 0
    over_http: int = 0
    pruned: int = 0
    killed: int = 0
    crashed: int = 0
    restarted: int = 0
    recoveries_s: list[float] = []
    drained_s: float = 0.0
    figures: list[Judged] = []
    wrong: list[str] = []


class HttpServer:
    """One `ficha serve`, over all its lives."""

    def __init__(self, name: str, database: str, folder: Path, secret: str) -> None:
        self._log = folder / f"{name}.log"
        self._environment = {
            **os.environ,
            "FICHA_DATABASE_URL": database,
            "FICHA_SECRET": secret,
            "FICHA_FILES_URL": f"file:{folder / 'files'}",
            "FICHA_ACCOUNT_REQUESTS": "1000",
            "SOAK_FOLDER": str(folder),
        }
        self._process: ForkedProcess | None = None
        self._began = 0

    def start(self) -> None:
        self._began = self._log.stat().st_size if self._log.exists() else 0
        arguments = ["serve", "--app", "tests.soak.application:app", "--port", "0", "--log", "json"]
        with open(self._log, "ab") as log:
            self._process = ForkedProcess("ficha.cli", arguments, env=self._environment, stdout=log, stderr=log)

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def url(self) -> str | None:
        """Where this life of it listens, once it says so."""
        with open(self._log, "rb") as log:
            log.seek(self._began)
            found = _ADDRESS.search(log.read(20_000).decode(errors="replace"))
        return None if found is None else found[0]

    def send(self, sign: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(sign)

    def keep(self) -> None:
        if self.pid is None:
            self.start()

    def stop(self) -> None:
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)


class Soak:
    def __init__(self, server: FragileServer, folder: Path, minutes: float) -> None:
        self._server = server
        self._folder = folder
        self._seconds = minutes * 60
        self._choice = random.Random(time.time_ns())
        self._load = Load(server.url(), folder, habits=HABITS, submitters=2, workers=3)
        secret = secrets.token_urlsafe(32)
        self._https = [HttpServer(f"server-{n}", server.url(), folder, secret) for n in range(SERVERS)]
        self._samples: list[Sample] = []
        self._began_at = 0.0
        self._is_over = False
        self.outcome = Outcome(minutes)

    async def run(self) -> Outcome:
        await PostgresStore(self._server.url()).migrate()
        async with self._load:
            async with application(self._server.url(), Record(self._folder, "key", 0), sweep_by_itself=False) as app:
                key = (await app.create_api_key("soak", scope="service")).secret
            self._began_at = time.monotonic()
            beside = [
                asyncio.create_task(work)
                for work in (
                    self._keep(),
                    self._watch(),
                    self._prune(),
                    *(self._call(key, number) for number in range(2)),
                )
            ]
            try:
                await self._faults(beside)
                await self._finish(beside)
            finally:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                for http in self._https:
                    http.stop()
        self.outcome.figures = judged(self._samples)
        self.outcome.wrong += [
            f"{one.name} grew by {one.growth:.1f}, and {one.allowed:.1f} is allowed"
            for one in self.outcome.figures
            if not one.is_flat
        ]
        return self.outcome

    @property
    def _passed_s(self) -> float:
        return time.monotonic() - self._began_at

    # The load

    async def _keep(self) -> None:
        """Starts servers again; the load does so with its own processes."""
        while True:
            for http in self._https:
                http.keep()
            await asyncio.sleep(0.2)

    async def _call(self, key: str, caller: int) -> None:
        """Submits over HTTP, each key until it is answered, whichever server answers."""
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=10) as client:
            number = 0
            while not self._is_over:
                number += 1
                name = f"http.{caller}.{number}"
                asked = {"tool": "draw", "payload": {"number": number}, "account": OPEN_ACCOUNTS[caller]}
                while True:
                    url = self._choice.choice(self._https).url
                    with suppress(httpx.HTTPError):
                        if url is not None:
                            answer = await client.post(f"{url}/api/jobs", json={**asked, "idempotency_key": name})
                            if answer.status_code < 300:
                                self.outcome.over_http += 1
                                break
                            if answer.status_code not in (429, 500, 503):
                                self.outcome.wrong.append(
                                    f"{name} was answered {answer.status_code}: {answer.text[:200]}"
                                )
                                break
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.1)

    # What happens to it

    async def _faults(self, beside: list[asyncio.Task[None]]) -> None:
        """Kills all the time, a crash of the database every 40 s or so, the upgrade in the middle."""
        crash_at, is_upgraded = 20.0, False
        while self._passed_s < self._seconds:
            for task in beside:
                if task.done():
                    task.result()
            await asyncio.sleep(self._choice.uniform(1.0, 3.0))
            self._choice.choice([*self._load.actors, *self._https]).send(signal.SIGKILL)
            self.outcome.killed += 1
            if self._passed_s > crash_at:
                crash_at = self._passed_s + self._choice.uniform(25.0, 55.0)
                await crash(self._server, self._choice.uniform(0.0, 2.0))
                self.outcome.crashed += 1
                self.outcome.recoveries_s.append(await self._load.progress(20, RECOVERED_S))
            if not is_upgraded and self._passed_s > self._seconds / 2:
                is_upgraded = True
                await self._upgrade()

    async def _upgrade(self) -> None:
        """What a rolling upgrade does: the schema first, under load, then one process after the other."""
        connection = await asyncpg.connect(self._server.url())
        try:
            for statement in (
                "ALTER TABLE ficha.jobs ADD COLUMN soak text",
                "ALTER TABLE ficha.accounts ADD COLUMN soak text",
                "INSERT INTO ficha.migrations (version, name, works_from) VALUES (9001, 'soak', 1)",
            ):
                await connection.execute(statement)
        finally:
            await connection.close()
        await self._load.progress(20, RECOVERED_S)
        for process in (*self._load.actors, *self._https):
            process.send(signal.SIGKILL)
            self.outcome.restarted += 1
            await self._load.progress(5, RECOVERED_S)

    async def _prune(self) -> None:
        retention = Retention(jobs=KEPT_S / 86_400, by_itself=False)
        # In life a walk comes to a job a day later than its age, which is longer than any soak.
        retention_walk.LAG = 0  # type: ignore[misc]
        while True:
            await asyncio.sleep(5.0)
            # The database may be away just now: the next one does it.
            with suppress(Refused, StoreError, OSError):
                record = Record(self._folder, "pruner", 0)
                app = application(self._server.url(), record, sweep_by_itself=False)
                # Settings take an hour at least.
                app.policy = replace(app.policy, retention=retention)
                async with app:
                    report = await app.prune(max_seconds=4.0)
                    self.outcome.pruned += sum(one.count for one in report.jobs)

    async def _watch(self) -> None:
        query = """
            SELECT (SELECT sum(pg_total_relation_size(format('ficha.%I', name)::regclass))
                FROM unnest($1::text[]) AS t (name))::bigint,
                (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database())
        """
        while True:
            await asyncio.sleep(2.0)
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
                connection = await asyncpg.connect(self._server.url(), timeout=5)
                try:
                    size, connections = await connection.fetchrow(query, list(TABLES))
                finally:
                    await connection.close()
                pids = [one.pid for one in (*self._load.actors, *self._https) if one.pid is not None]
                self._samples.append(Sample(self._passed_s, memory_mb(pids), size / 2**20, connections))

    # The end

    async def _finish(self, beside: list[asyncio.Task[None]]) -> None:
        """No more faults, no more submits: everything must come to its end, and be right."""
        self._is_over = True
        began_at = time.monotonic()
        callers = beside[-2:]
        _, left = await asyncio.wait(callers, timeout=RECOVERED_S)
        if left:
            self.outcome.wrong.append("a submit over HTTP was not answered within a minute")
        self._load.board.phase = DRAIN
        for actor in self._load.submitters:
            while not await actor.left_in_order(RECOVERED_S):
                assert time.monotonic() < began_at + 2 * RECOVERED_S, f"{actor.order.name} has no answer"
                actor.start()
        await self._load._drained(time.monotonic() + RECOVERED_S)
        self.outcome.drained_s = time.monotonic() - began_at
        self._load.board.phase = LEAVE
        self.outcome.jobs = self._load.ended
        async with application(self._server.url(), Record(self._folder, "end", 0), sweep_by_itself=False) as app:
            self.outcome.wrong += await app.verify()
        if not self.outcome.pruned:
            self.outcome.wrong.append("nothing was pruned")


def report(outcome: Outcome) -> str:
    recoveries = outcome.recoveries_s or [0.0]
    lines = [
        f"# Soak, {outcome.minutes:g} minutes on PostgreSQL",
        "",
        f"- {outcome.jobs} jobs ended, {outcome.over_http} of them submitted over HTTP; {outcome.pruned} pruned",
        f"- {outcome.killed} kill -9 of workers, submitters and servers; {outcome.crashed} crashes of PostgreSQL;",
        f"  an additive migration under load, and {outcome.restarted} processes restarted one by one",
        f"- after a crash, 20 jobs had ended within {statistics.median(recoveries):.1f} s (median),"
        f" {max(recoveries):.1f} s (most)",
        f"- when the faults were over, everything was at its end after {outcome.drained_s:.1f} s",
        "",
        "| figure | mean | most | growth | allowed |",
        "|---|---|---|---|---|",
        *(f"| {f.name} | {f.mean:.1f} | {f.most:.1f} | {f.growth:+.1f} | {f.allowed:.1f} |" for f in outcome.figures),
        "",
        "Nothing was wrong, and `verify` is clean." if not outcome.wrong else "Wrong:",
        *(f"- {words}" for words in outcome.wrong[:40]),
    ]
    return "\n".join(lines) + "\n"


async def soak(minutes: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="ficha-soak-") as folder, fragile_server() as server:
        return await Soak(server, Path(folder), minutes).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--report", type=Path, help="a Markdown file to write")
    given = parser.parse_args()
    outcome = asyncio.run(soak(given.minutes))
    text = report(outcome)
    if given.report is not None:
        given.report.write_text(text)
    print(text)
    return int(bool(outcome.wrong))


if __name__ == "__main__":
    sys.exit(main())
