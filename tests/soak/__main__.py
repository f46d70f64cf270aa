"""The soak: `python -m tests.soak --minutes 10 --report soak-report.md`.

Submitters in-process and over HTTP, workers and servers on one database, for so many minutes: on PostgreSQL, then on
SQLite. Meanwhile processes of every kind are killed at random, PostgreSQL is stopped as a crash would stop it (on
SQLite the processes are killed all at once), ended jobs are pruned all the time, and in the middle a later release's
additive migration is applied and processes are restarted one by one beside each other. One process of each kind is left
alone and grows old: its memory is judged. At the end everything submitted must be at its end and `verify` clean.
Memory, the working tables and connections must be flat after a warm-up. The report says so, with the times of recovery.
Ends with 1 if anything was wrong.
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
from typing import Any, Final

import apsw
import asyncpg
import httpx
from msgspec import Struct
from msgspec.structs import replace

from ficha import Refused, Retention
from ficha.operations import retention as retention_walk
from ficha.store.base import StoreError
from ficha.store.connect import connect
from tests.chaos.actors import Habits
from tests.chaos.application import OPEN_ACCOUNTS, RecordedFicha, application
from tests.chaos.board import DRAIN, LEAVE
from tests.chaos.records import Record, lines
from tests.chaos.servers import fragile_server
from tests.chaos.supervisor import Actor, Load
from tests.soak.databases import SETTINGS, SoakedDatabase, SoakedPostgres, SoakedSqlite
from tests.soak.measures import Judged, Sample, judged, memory_mb
from tests.support.processes import ForkedProcess

KEPT_S: Final = 15.0
"""For how long ended jobs are kept."""
RECOVERED_S: Final = 60.0
"""How soon after a fault work must go on."""
HABITS: Final = Habits(callers=3, accounts=OPEN_ACCOUNTS, pace_s=0.05, handler_s=0.02, prunes=True)
DATABASES: Final = ("postgresql", "sqlite")
SERVERS: Final = 2
BATCH_EVERY: Final = 10
"""Every how many calls over HTTP one is a batch, and `CANCEL_EVERY`, is followed by a cancel."""
CANCEL_EVERY: Final = 7
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+")


class Outcome(Struct):
    database: str
    blow: str
    minutes: float
    jobs: int = 0
    over_http: int = 0
    pruned: int = 0
    killed: int = 0
    struck: int = 0
    restarted: int = 0
    resumed_s: list[float] = []
    """After each blow: until 20 more jobs had ended."""
    settled_s: list[float] = []
    """After each blow: until every job that was active then had ended."""
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
        self.name = name
        self.lives = 0

    def start(self) -> None:
        self.lives += 1
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
    def __init__(self, database: SoakedDatabase, folder: Path, minutes: float) -> None:
        self._database = database
        self._folder = folder
        self._seconds = minutes * 60
        self._choice = random.Random(time.time_ns())
        self._load = Load(database.url, folder, habits=HABITS, submitters=2, workers=3)
        secret = secrets.token_urlsafe(32)
        self._https = [HttpServer(f"server-{n}", database.url, folder, secret) for n in range(SERVERS)]
        self._spared: list[Actor | HttpServer] = [self._load.submitters[0], self._load.workers[0], self._https[0]]
        """One of each kind, which nobody kills: what leaks shows in a process that grows old."""
        self._others: list[Actor | HttpServer] = [one for one in self._all if one not in self._spared]
        self._samples: list[Sample] = []
        self._began_at = 0.0
        self._is_over = False
        self.outcome = Outcome(database.name, database.blow, minutes)

    @property
    def _all(self) -> list[Actor | HttpServer]:
        return [*self._load.actors, *self._https]

    async def run(self) -> Outcome:
        await (await connect(self._database.url)).migrate()
        async with self._load:
            async with self._application("key") as app:
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
        if not self._samples:
            self.outcome.wrong.append("nothing could be measured")
            return self.outcome
        self.outcome.figures = judged(self._samples)
        self.outcome.wrong += [
            f"{one.name} grew by {one.growth:.1f}, and {one.allowed:.1f} is allowed"
            for one in self.outcome.figures
            if not one.is_flat
        ]
        return self.outcome

    def _application(self, name: str) -> RecordedFicha:
        return application(self._database.url, Record(self._folder, name, 0), sweep_by_itself=False)

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
        """Submits over HTTP, each key until it is answered, whichever server answers: mostly jobs, some batches. Some
        jobs are cancelled, and all are asked for."""
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=10) as client:
            number = 0
            while not self._is_over:
                number += 1
                asked = {"account": OPEN_ACCOUNTS[caller], "idempotency_key": f"http.{caller}.{number}"}
                if number % BATCH_EVERY == 0:
                    items = [{"tool": "draw", "payload": {"number": each}} for each in range(5)]
                    await self._answered(client, "POST", "/api/batches", {**asked, "items": items})
                    self.outcome.over_http += len(items)
                else:
                    one = {"tool": "draw", "payload": {"number": number}, **asked}
                    told = await self._answered(client, "POST", "/api/jobs", one)
                    self.outcome.over_http += 1
                    if number % CANCEL_EVERY == 0:
                        await self._answered(client, "POST", f"/api/jobs/{told['job_id']}/cancel", {})
                    await self._answered(client, "GET", f"/api/jobs/{told['job_id']}", None)
                await asyncio.sleep(0.1)

    async def _answered(
        self, client: httpx.AsyncClient, method: str, path: str, body: dict[str, Any] | None
    ) -> dict[str, Any]:
        """What a server answers in the end; where one is killed, or cannot reach its database, one is asked again."""
        while True:
            url = self._choice.choice(self._https).url
            with suppress(httpx.HTTPError):
                if url is not None:
                    answer = await client.request(method, f"{url}{path}", json=body)
                    if answer.status_code < 300:
                        return dict(answer.json())
                    # By now the job may have ended, or have been pruned.
                    if answer.status_code in (404, 409) and path != "/api/jobs":
                        return {}
                    if answer.status_code not in (429, 500, 503):
                        raise AssertionError(f"{method} {path} was answered {answer.status_code}: {answer.text[:200]}")
            await asyncio.sleep(0.1)

    # What happens to it

    async def _faults(self, beside: list[asyncio.Task[None]]) -> None:
        """Kills all the time, a blow to everything every 40 s or so, the upgrade in the middle."""
        strike_at, is_upgraded = 20.0, False
        while self._passed_s < self._seconds:
            for task in beside:
                if task.done():
                    task.result()
            await asyncio.sleep(self._choice.uniform(1.0, 3.0))
            self._choice.choice(self._others).send(signal.SIGKILL)
            self.outcome.killed += 1
            if self._passed_s > strike_at:
                strike_at = self._passed_s + self._choice.uniform(25.0, 55.0)
                await self._database.strike(self._others, self._choice)
                self.outcome.struck += 1
                resumed_s, settled_s = await asyncio.gather(
                    self._load.progress(20, RECOVERED_S), self._load.settled(RECOVERED_S)
                )
                self.outcome.resumed_s.append(resumed_s)
                self.outcome.settled_s.append(settled_s)
            if not is_upgraded and self._passed_s > self._seconds / 2:
                is_upgraded = True
                await self._upgrade()

    async def _upgrade(self) -> None:
        """What a rolling upgrade does: the schema first, under load, then one process after the other ended and started
        anew. Those that are spared stay as they are, beside them."""
        await self._database.upgrade()
        await self._load.progress(20, RECOVERED_S)
        for process in self._others:
            process.send(signal.SIGTERM)
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
                app = self._application("pruner")
                # Settings take an hour at least.
                app.policy = replace(app.policy, retention=retention)
                async with app:
                    report = await app.prune(max_seconds=4.0)
                    self.outcome.pruned += sum(one.count for one in report.jobs)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(2.0)
            with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, apsw.Error, TimeoutError):
                pids = [one.pid for one in self._all if one.pid is not None]
                tables_mb, connections, wal_mb = await self._database.measured(pids)
                spared = [one.pid for one in self._spared if one.pid is not None]
                self._samples.append(Sample(self._passed_s, memory_mb(spared), tables_mb, connections, wal_mb))

    # The end

    async def _finish(self, beside: list[asyncio.Task[None]]) -> None:
        """No more faults, no more submits: everything must come to its end, and be right."""
        self._is_over = True
        began_at = time.monotonic()
        callers = beside[-2:]
        done, left = await asyncio.wait(callers, timeout=RECOVERED_S)
        for task in done:
            task.result()
        if left:
            self.outcome.wrong.append("a submit over HTTP was not answered within a minute")
        self._load.board.phase = DRAIN
        for actor in self._load.submitters:
            while not await actor.left_in_order(RECOVERED_S):
                assert time.monotonic() < began_at + 2 * RECOVERED_S, f"{actor.order.name} has no answer"
                actor.start()
        await self._load._drained(time.monotonic() + RECOVERED_S)
        self.outcome.drained_s = time.monotonic() - began_at
        self.outcome.wrong += [f"a process ended by itself: {words}" for words in self._ended_alone()]
        self._load.board.phase = LEAVE
        self.outcome.jobs = self._load.ended
        async with self._application("end") as app:
            self.outcome.wrong += await app.verify()
        if not self.outcome.pruned:
            self.outcome.wrong.append("nothing was pruned")

    def _ended_alone(self) -> list[str]:
        """Those that nobody killed and that had to be started again, with what they wrote down of it."""
        lives = {
            one.name if isinstance(one, HttpServer) else one.order.name: (
                one.lives if isinstance(one, HttpServer) else one.order.life
            )
            for one in self._spared
        }
        return [
            f"{name}: {[line['trouble'] for line in lines(self._folder, name) if 'trouble' in line]}"
            for name, count in lives.items()
            if count > 1
        ]


def report(outcome: Outcome) -> str:
    resumed, settled = outcome.resumed_s or [0.0], outcome.settled_s or [0.0]
    said = [
        f"# Soak, {outcome.minutes:g} minutes on {outcome.database}",
        "",
        f"- {outcome.jobs} jobs ended, {outcome.over_http} of them submitted over HTTP; {outcome.pruned} pruned",
        f"- {outcome.killed} kill -9 of workers, submitters and servers; {outcome.struck} {outcome.blow};",
        f"  an additive migration under load, and {outcome.restarted} processes restarted one by one",
        f"- after each of the {outcome.struck}, 20 more jobs had ended within {statistics.median(resumed):.1f} s"
        f" (median), {max(resumed):.1f} s (most);",
        f"  every job that was active then had ended within {statistics.median(settled):.1f} s (median),"
        f" {max(settled):.1f} s (most)",
        f"- when the faults were over, everything was at its end after {outcome.drained_s:.1f} s",
        "",
        "| figure | mean | most | growth | allowed |",
        "|---|---|---|---|---|",
        *(f"| {f.name} | {f.mean:.1f} | {f.most:.1f} | {f.growth:+.1f} | {f.allowed:.1f} |" for f in outcome.figures),
        "",
        "Nothing was wrong, and `verify` is clean." if not outcome.wrong else "Wrong:",
        *(f"- {words}" for words in outcome.wrong[:40]),
    ]
    return "\n".join(said) + "\n"


async def soak(database: str, minutes: float) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="ficha-soak-") as name:
        folder = Path(name)
        if database == "sqlite":
            return await Soak(SoakedSqlite(folder), folder, minutes).run()
        with fragile_server(settings=SETTINGS) as server:
            return await Soak(SoakedPostgres(server), folder, minutes).run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="on each database")
    parser.add_argument("--database", choices=DATABASES, action="append", help="only this one")
    parser.add_argument("--report", type=Path, help="a Markdown file to write")
    given = parser.parse_args()
    outcomes = []
    for database in given.database or DATABASES:
        outcomes.append(asyncio.run(soak(database, given.minutes)))
        print(report(outcomes[-1]), flush=True)
        if given.report is not None:
            given.report.write_text("\n".join(map(report, outcomes)))
    return int(any(outcome.wrong for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
