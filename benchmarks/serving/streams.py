"""Streams: thousands of them stay open and are told what happens, while submits come at a steady rate."""

from __future__ import annotations

import asyncio
import resource
import statistics
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from ..databases import Kind
from ..endurance.findings import Findings, Measure, Say, Verdict, about, percentile
from ..endurance.idle_side import resident_mb
from ..ficha_side import POOL
from ..processes import Child, child, cpu_s, postmaster, server_cpu_s
from ..workload import ACCOUNTS
from .application import Shop, opened
from .commands import Running, serving, working
from .sizes import Size

MOST_GROWTH_MB: Final = 2.0
"""What memory may differ by over the second half of the time, for what allocators do by themselves."""
SUSTAINED: Final = 0.99
"""The part of the rate that was at least answered: the last ones are under way when the time is up."""
HANDLERS: Final = 100
ARRIVES_S: Final = 60.0
"""What is not on its streams so long after it happened is taken for lost."""
LOOK_S: Final = 0.25
AT_A_TIME: Final = 100
"""Streams of jobs that are opened at once."""
SPARE_FILES: Final = 500


@dataclass(frozen=True)
class Party:
    """All who take part, each a process of its own; the database too, if it is one."""

    server: Running
    worker: Running
    load: Child
    followers: Child
    postmaster: int | None

    def cpu_s(self) -> dict[str, float]:
        """Processor time of each so far."""
        found = {} if self.postmaster is None else {"database": server_cpu_s(self.postmaster)}
        return {
            "server": cpu_s(self.server.pid),
            **found,
            "worker": cpu_s(self.worker.pid),
            "submitting": cpu_s(self.load.pid),
            "following": cpu_s(self.followers.pid),
        }


@dataclass(frozen=True)
class Run:
    """
    submits: what came of those that count; `failed` are of all, those of the warm-up too.
    memory_mb: the server's, at every look.
    cores: by process.
    seen, released: what the streams had brought when the time was up, and when the waiting jobs had been released.
    missing: events that they never brought.
    complaints: lines of the logs that are no mere information.
    """

    submits: dict[str, Any]
    failed: int
    memory_mb: list[float]
    cores: dict[str, float]
    seen: dict[str, Any]
    released: dict[str, Any]
    missing: int
    complaints: int


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            f"`ficha serve` in one process, `ficha worker` with a handler that does nothing, and two processes that "
            f"are the clients, all on this machine beside the database. {size.streams:,} streams are open: "
            f"{size.account_streams} follow an account each, the others a job that waits in a pool without workers.",
            f"Then `POST /api/jobs` is due {size.rate} times a second for {size.submit_s:g} s, after "
            f"{size.warm_up_s:g} s that do not count: paid, each under a key, spread over {ACCOUNTS} accounts, over "
            f"{size.lanes} connections. A submit's time counts from when it was due, so that a server that stands "
            "still cannot hide it. The worker finishes all of them, and every event goes over its account's stream.",
            "*Decided to arrived* is from an event's own time, before its commit, until the client had read it. At the "
            f"end the waiting jobs are finished, {size.released} a second, so that each of their streams has to tell "
            "its job's end. Every account's stream must have brought every event of its jobs, in order; then all "
            "invariants are checked, and what each account paid.",
            "Growth of memory is the slope of a straight line through the second half of the time, times that half.",
        ]
    )
    _allow_files(size.streams + SPARE_FILES)
    for kind in kinds:
        run = await _run(kind, size, about(kind.name, say))
        _report(findings, kind.name, run, size)
    return findings


def _allow_files(count: int) -> None:
    """Every stream is an open file at both its ends; processes started from here have the same limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SystemExit(f"{count} open files are needed and {hard} are allowed; raise `ulimit -Hn`")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def _run(kind: Kind, size: Size, say: Say) -> Run:
    async with opened(kind, size.streams - size.account_streams) as shop:
        async with _party(shop) as party:
            await _open(party, shop, size, say)
            warm = await _submit(party, size, size.warm_up_s)
            await party.followers.ask("set_clock")
            memory = [resident_mb(party.server.pid)]
            watching = asyncio.create_task(_watch(party.server.pid, memory, size.look_s))
            before, began_at = party.cpu_s(), time.monotonic()
            submits = await _submit(party, size, size.submit_s)
            after, took_s = party.cpu_s(), time.monotonic() - began_at
            watching.cancel()
            say(f"{submits['asked']:,} submits in {submits['took_s']:.1f} s, {submits['failed']} failed")
            created = [sum(both) for both in zip(warm["created"], submits["created"], strict=True)]
            seen = await _arrived(party, lambda found: not _missing(found, created, "completed"))
            await party.followers.ask("set_clock")
            await shop.release(size.released)
            all_jobs = [jobs + len(range(number, len(shop.waiting), ACCOUNTS)) for number, jobs in enumerate(created)]
            released = await _arrived(
                party,
                lambda found: found["whole"] == len(shop.waiting) and not _missing(found, all_jobs, "completed"),
            )
            complaints = party.server.complaints() + party.worker.complaints()
        failed = warm["failed"] + submits["failed"]
        if not failed:
            # A submit that failed may have made its job all the same.
            await shop.check(all_jobs)
    for words in (warm["failures"] + submits["failures"] + complaints)[:5]:
        say(words)
    cores = {name: (after[name] - before[name]) / took_s for name in after}
    missing = _missing(released, all_jobs, "submitted") + _missing(released, all_jobs, "completed")
    return Run(submits, failed, memory, cores, seen, released, missing, len(complaints))


@asynccontextmanager
async def _party(shop: Shop) -> AsyncIterator[Party]:
    database = await postmaster(shop.url) if shop.url.startswith("postgresql:") else None
    async with (
        serving(shop.url) as (server, port),
        working(shop.url, POOL, HANDLERS) as worker,
        child(f"{__package__}.load_side", str(port)) as load,
        child(f"{__package__}.streams_side", str(port)) as followers,
    ):
        yield Party(server, worker, load, followers, database)


async def _open(party: Party, shop: Shop, size: Size, say: Say) -> None:
    await party.load.ask("prepare", keys=shop.keys, jobs=[])
    bare_mb, began_at = resident_mb(party.server.pid), time.monotonic()
    jobs = [(job, shop.keys[number % ACCOUNTS]) for number, job in enumerate(shop.waiting)]
    for start in range(0, len(jobs), AT_A_TIME):
        await party.followers.ask("follow_jobs", jobs=jobs[start : start + AT_A_TIME])
    await party.followers.ask("follow_accounts", keys=shop.keys[: size.account_streams])
    took_s, more_mb = time.monotonic() - began_at, resident_mb(party.server.pid) - bare_mb
    say(f"{size.streams:,} streams opened in {took_s:.1f} s, for {more_mb * 1_024 / size.streams:.0f} KB each")


async def _submit(party: Party, size: Size, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = await party.load.ask("submit", rate=size.rate, seconds=seconds, lanes=size.lanes)
    return found


async def _watch(pid: int, memory: list[float], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        memory.append(resident_mb(pid))


async def _arrived(party: Party, is_all: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What the streams saw, once that is all, or when it is no use to wait any longer."""
    gives_up_at = time.monotonic() + ARRIVES_S
    while True:
        found: dict[str, Any] = await party.followers.ask("seen")
        if is_all(found) or time.monotonic() > gives_up_at:
            return found
        await asyncio.sleep(LOOK_S)


def _missing(found: dict[str, Any], jobs: Sequence[int], kind: str) -> int:
    """Events of one kind, one for each job of an account, that the accounts' streams have not brought."""
    return sum(max(0, count - kinds.get(kind, 0)) for kinds, count in zip(found["accounts"], jobs, strict=False))


def _report(findings: Findings, kind: str, run: Run, size: Size) -> None:
    took_ms, memory = run.submits["took_ms"], run.memory_mb
    per_s = (run.submits["asked"] - run.submits["failed"]) / run.submits["took_s"]
    growth_mb = _growth(memory)
    waits = {name: percentile(took_ms, share) for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1))}
    figures = {
        "per_second": per_s,
        "failed": run.failed,
        **waits,
        "alive": run.seen["alive"],
        "missing": run.missing,
        "account_lag": run.seen["account_lag"],
        "job_lag": run.released["job_lag"],
        "memory_mb": memory,
        "growth_mb": growth_mb,
        "cores": run.cores,
        "complaints": run.complaints,
    }
    findings.figures[kind] = figures
    findings.tables.append(
        (
            f"{kind}: {size.rate} submits a second beside {size.streams:,} streams",
            [
                ["", "measured"],
                ["submits answered, /s", f"{per_s:,.1f}"],
                ["a submit, p50 / p99 / longest, ms", _waits(waits)],
                ["account's stream, decided to arrived, p50 / p99 / longest, ms", _waits(run.seen["account_lag"])],
                ["waiting job's stream, the same when released", _waits(run.released["job_lag"])],
                ["events over the streams", f"{run.released['events']:,}"],
                ["least keep-alives on a waiting job's stream", f"{run.seen['keep_alives']}"],
                [
                    "server's memory at the start, in the middle, at the end, MB",
                    " / ".join(f"{memory[at]:.1f}" for at in (0, len(memory) // 2, -1)),
                ],
                *([f"cores of the {name} process", f"{cores:.2f}"] for name, cores in run.cores.items()),
            ],
        )
    )
    errors = run.failed + run.complaints
    lost = size.streams - run.seen["alive"]
    wrong = run.missing + run.released["disordered"] + size.streams - size.account_streams - run.released["whole"]
    findings.verdicts += [
        Verdict(
            f"{kind}: {size.rate} submits a second for {size.submit_s:g} s",
            f"at least {SUSTAINED:.0%} answered in time",
            f"{per_s:,.1f} /s",
            per_s >= size.rate * SUSTAINED,
        ),
        Verdict(f"{kind}: submits that failed, and complaints in the logs", "none", str(errors), errors == 0),
        Verdict(f"{kind}: streams lost, of {size.streams:,}", "none", str(lost), lost == 0),
        Verdict(f"{kind}: events that a stream missed or brought out of order", "none", str(wrong), wrong == 0),
        Verdict(
            f"{kind}: growth of the server's memory over the second half",
            f"none (under {MOST_GROWTH_MB:g} MB)",
            f"{growth_mb:+.2f} MB",
            growth_mb < MOST_GROWTH_MB,
        ),
    ]


def _waits(found: dict[str, float] | None) -> str:
    return "–" if found is None else " / ".join(f"{found[name]:,.1f}" for name in ("p50_ms", "p99_ms", "max_ms"))  # noqa: RUF001 (a dash, as in any table)


def _growth(memory_mb: Sequence[float]) -> float:
    half = memory_mb[len(memory_mb) // 2 :]
    return statistics.linear_regression(range(len(half)), half).slope * (len(half) - 1)


STREAMS: Final = Measure("streams", "Streams", take)
