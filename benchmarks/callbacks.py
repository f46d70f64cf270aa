"""`python -m benchmarks.callbacks`: providers' call-backs to one real server process, beside submits to the same one.

In each round as many jobs are submitted as are called back, and then every call-back comes again. The jobs await a
provider that signs; nobody collects their results meanwhile. The client has a part of the same cores.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import uvloop
from rich.console import Console

from . import machine
from .awaiting_jobs import AwaitingJobs
from .databases import Kind, databases
from .endurance.findings import Findings, Measure, percentile
from .endurance.report import _table, show
from .peer import Wrong
from .processes import postmaster, server_cpu_s
from .serving.application import TOOL, opened
from .serving.commands import serving
from .serving.throughput import Sample
from .serving.wire import Wire, connect, request
from .workload import ACCOUNTS, payload

CALLERS: Final = 64
TITLE: Final = "Call-backs"
PASSES: Final = {
    "submit": "`POST /api/jobs`, paid, with a key",
    "call-back": "`POST /api/webhooks/{provider}/{token}`, signed, the first of its job",
    "again": "the same call-back again",
}


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    is_busy = machine.is_busy()
    with databases(options.database) as kinds, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        facts = runner.run(machine.facts(kinds, "uvloop"))
        rounds = {kind.name: runner.run(_measured(kind, options.jobs, options.rounds)) for kind in kinds}
    figures = [figure for database, found in rounds.items() for figure in _figures(database, found)]
    table = _rows(figures)
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        result = {"machine": facts, "jobs": options.jobs, "callers": CALLERS, "figures": figures}
        (options.output / "callbacks.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        text = _markdown(facts, options, table, is_busy=is_busy)
        (options.output / "CALLBACKS.md").write_text(text, encoding="utf-8")
    findings = Findings(tables=[(TITLE, table)])
    show({Measure("callbacks", TITLE, _measured): findings}, Console(width=None if sys.stdout.isatty() else 200))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.callbacks", description="Measures providers' call-backs beside submits."
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    parser.add_argument("--database", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="where CALLBACKS.md and callbacks.json go")
    options = parser.parse_args(arguments)
    options.jobs, options.rounds = (80, 1) if options.quick else (1_000, 5)
    is_whole = not (options.quick or options.database)
    options.output = options.output or (Path(__file__).parent if is_whole else None)
    return options


async def _measured(kind: Kind, jobs: int, rounds: int) -> list[dict[str, Sample]]:
    async with opened(kind, waiting=0) as shop:
        total = jobs * (rounds + 1)
        awaiting = await AwaitingJobs.made(shop.url, total)
        await kind.settle(shop.url)
        pids = [await postmaster(shop.url)] if shop.url.startswith("postgresql:") else []
        found = []
        async with serving(shop.url, application="benchmarks.awaiting_jobs:app") as (server, port):
            for start in range(0, total, jobs):
                called = [awaiting.callback(number) for number in range(start, start + jobs)]
                submits = [_submit(number, shop.keys) for number in range(start, start + jobs)]
                passes = [("call-back", 200, called), ("again", 200, called)]
                # Every other round the other way round.
                passes.insert(0 if start // jobs % 2 else 2, ("submit", 201, submits))
                found.append({what: await _sample(port, [server.pid, *pids], *of) for what, *of in passes})
            if complaints := server.complaints():
                raise Wrong(f"the server complained: {complaints[0]}")
        await awaiting.check(submitted=total, callbacks=2)
        # The first one warms up.
        return found[1:]


def _submit(number: int, keys: Sequence[str]) -> bytes:
    body = json.dumps({"tool": TOOL, "payload": payload(number)}).encode()
    return request("/api/jobs", keys[number % ACCOUNTS], body, idempotency_key=f"key-{number}")


async def _sample(port: int, pids: Sequence[int], expected: int, asked: Sequence[bytes]) -> Sample:
    """Callers who each send the next request as soon as the last is answered, until all are sent."""
    wires = [await connect(port, Wire) for _ in range(min(CALLERS, len(asked)))]
    left, took_ms = iter(asked), list[float]()

    async def caller(wire: Wire) -> None:
        for one in left:
            asked_at = time.perf_counter()
            answer = await wire.ask(one)
            took_ms.append((time.perf_counter() - asked_at) * 1_000)
            if answer.status != expected:
                raise Wrong(f"{expected} was to be answered, not: {answer.text[:500]!r}")

    before, client_s, began = [server_cpu_s(pid) for pid in pids], time.process_time(), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for wire in wires:
            tasks.create_task(caller(wire))
    took_s, client_s = time.perf_counter() - began, time.process_time() - client_s
    used_us = [(server_cpu_s(pid) - was) * 1e6 / len(asked) for pid, was in zip(pids, before, strict=True)]
    for wire in wires:
        wire.close()
    return Sample(
        len(asked) / took_s, percentile(took_ms, 0.5), percentile(took_ms, 0.99),
        used_us[0], sum(used_us[1:]), client_s * 1e6 / len(asked),
    )  # fmt: skip


def _figures(database: str, rounds: list[dict[str, Sample]]) -> list[dict[str, Any]]:
    """A figure is the median of the rounds; a ratio is the median of the ratios within each round."""
    found = []
    for what in PASSES:
        figure: dict[str, Any] = {"database": database, "what": what}
        for name in Sample.__dataclass_fields__:
            figure[name] = round(statistics.median(getattr(one[what], name) for one in rounds), 1)
        ratio = statistics.median(one[what].per_second / one["submit"].per_second for one in rounds)
        figure["rounds"] = [round(one[what].per_second, 1) for one in rounds]
        found.append({**figure, "ratio": round(ratio, 2)})
    return found


def _rows(figures: list[dict[str, Any]]) -> list[list[str]]:
    return [
        ["", "requests/s", "beside submits", "p50 / p99 ms", "server, µs", "database, µs", "client, µs"],
        *(
            [
                f"{one['database']}: {PASSES[one['what']]}",
                f"{one['per_second']:,.0f} ({min(one['rounds']):,.0f} to {max(one['rounds']):,.0f})",
                f"{one['ratio']:.2f}",
                f"{one['p50_ms']:.1f} / {one['p99_ms']:.1f}",
                *(f"{one[name]:,.0f}" for name in ("server_us", "database_us", "client_us")),
            ]
            for one in figures
        ),
    ]


def _markdown(facts: dict[str, str], options: argparse.Namespace, table: list[list[str]], *, is_busy: bool) -> str:
    lines = [
        f"# {TITLE}",
        "",
        "Written by `python -m benchmarks.callbacks`. Absolute figures move from run to run and from machine to",
        "machine; compare within one run.",
        "",
        *(f"- {name}: {value}" for name, value in facts.items()),
        "",
        *_table(table),
        f"- {options.rounds} rounds of {options.jobs:,} requests of each kind, every other one with the submits first,",
        f"  over {CALLERS} connections, kept alive, each with the next request as soon as the last is answered, to one",
        f"  process of `ficha serve`; {ACCOUNTS} accounts. A figure is the median of the rounds; a ratio is the median",
        "  of the ratios within each round. In brackets are the slowest and the fastest round.",
        "- Each call-back is about another job, which awaits its provider (Replicate, signed by Standard Webhooks, a",
        "  body of about 900 bytes). No worker runs, so the job still awaits when the call-back comes again.",
        "- After the run each job has both call-backs in its history, found to be the provider's, and every invariant",
        "  holds. Anything but 200 ends the run.",
        "- There is no target: what a job costs is the sum of its submit, its start, its call-backs and its end.",
        "- Processor time is per request. Server, database and client share the cores.",
        *(["- Others used the machine meanwhile: rates and waits would be better without them."] if is_busy else []),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
