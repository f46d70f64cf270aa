"""Throughput: what a submit over HTTP costs beside a request that does nothing, on the same server within one run."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..databases import Kind
from ..endurance.findings import Findings, Measure, Say, Verdict, about, percentile
from ..processes import Child, child, postmaster, server_cpu_s
from .application import opened
from .commands import serving
from .sizes import Size

ROUTES: Final = {
    "no-op": "`GET /healthz`, the no-op route",
    "guarded": "`GET /api/tools`, the cheapest with a key",
    "look": "`GET /api/jobs/{id}` with `If-None-Match`, 304",
    "submit": "`POST /api/jobs`, paid, with a key",
}
MOST_OF_THE_SERVER: Final = 0.5
"""What the clients may take beside the server for the no-op route: beyond it, they would be what is measured."""


@dataclass(frozen=True)
class Sample:
    """One round of one route: requests per second, waits, and processor time per request."""

    per_second: float
    p50_ms: float
    p99_ms: float
    server_us: float
    database_us: float
    client_us: float


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            f"{size.callers} connections, kept alive, each with the next request as soon as the last is answered, "
            f"from one client process. Routes take turns, {size.round_s:g} s at a time, {size.rounds} rounds, every "
            "other one the other way round. A figure is the median of the rounds; a ratio is the median of the ratios "
            "within each round.",
            "Processor time is per request, of all processes of the server, of the database server, and of the "
            "client. With as many processes as there are cores, server, database and client share them: a rate is "
            "then that of the machine.",
        ]
    )
    for kind in kinds:
        for processes in size.processes:
            words = f"{kind.name}, {processes} server process{'es' if processes > 1 else ''}"
            samples = await _rounds(kind, processes, size, about(words, say))
            _report(findings, words, samples)
    return findings


async def _rounds(kind: Kind, processes: int, size: Size, say: Say) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = defaultdict(list)
    async with opened(kind, waiting=size.callers) as shop:
        database = await postmaster(shop.url) if shop.url.startswith("postgresql:") else None
        async with (
            serving(shop.url, processes) as (server, port),
            child(f"{__package__}.load_side", str(port)) as load,
        ):
            await load.ask("prepare", keys=shop.keys, jobs=shop.waiting)
            pids = [server.pid, *([] if database is None else [database])]
            for route in ROUTES:
                # Once before: connections to the database, and the statements.
                await _sample(load, pids, route, size.round_s / 3, size.callers)
            for number in range(size.rounds):
                for route in ROUTES if number % 2 == 0 else reversed(ROUTES):
                    samples[route].append(await _sample(load, pids, route, size.round_s, size.callers))
                say(", ".join(f"{route} {found[-1].per_second:,.0f} /s" for route, found in samples.items()))
    return {route: samples[route] for route in ROUTES}


async def _sample(load: Child, pids: Sequence[int], route: str, seconds: float, callers: int) -> Sample:
    before = [server_cpu_s(pid) for pid in pids]
    found = await load.ask("loop", route=route, seconds=seconds, callers=callers)
    used_s = [server_cpu_s(pid) - was for pid, was in zip(pids, before, strict=True)]
    took_ms = found["took_ms"]
    server_us, *database_us = (one * 1e6 / len(took_ms) for one in used_s)
    return Sample(
        per_second=len(took_ms) / found["took_s"],
        p50_ms=percentile(took_ms, 0.5),
        p99_ms=percentile(took_ms, 0.99),
        server_us=server_us,
        database_us=sum(database_us),
        client_us=found["cpu_s"] * 1e6 / len(took_ms),
    )


def _report(findings: Findings, words: str, samples: dict[str, list[Sample]]) -> None:
    rows = [["", "requests/s", "beside the no-op", "p50 / p99 ms", "server, µs", "database, µs", "client, µs"]]
    figures: dict[str, Any] = {}
    for route, found in samples.items():
        one = {name: statistics.median(getattr(s, name) for s in found) for name in Sample.__dataclass_fields__}
        one["ratio"] = statistics.median(
            s.per_second / noop.per_second for s, noop in zip(found, samples["no-op"], strict=True)
        )
        one["rounds"] = [round(s.per_second, 1) for s in found]
        figures[route] = one
        rows.append(
            [
                ROUTES[route],
                f"{one['per_second']:,.0f}",
                f"{one['ratio']:.2f}",
                f"{one['p50_ms']:.1f} / {one['p99_ms']:.1f}",
                *(f"{one[name]:,.0f}" for name in ("server_us", "database_us", "client_us")),
            ]
        )
    findings.tables.append((words, rows))
    findings.figures[words] = figures
    noop = figures["no-op"]
    # In a smoke run the clock may not have moved.
    share = noop["client_us"] / noop["server_us"] if noop["server_us"] else 0.0
    findings.verdicts.append(
        Verdict(
            f"{words}: what the client takes beside the server, no-op",
            f"at most {MOST_OF_THE_SERVER:.0%}",
            f"{share:.0%}",
            share <= MOST_OF_THE_SERVER,
        )
    )


THROUGHPUT: Final = Measure("throughput", "Throughput", take)
