"""Polls: thousands who wait and ask where they stand cost next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..databases import Kind
from ..processes import Child, child, postmaster, server_cpu_s
from .filling import Contents, filled
from .findings import Findings, Measure, Say, Verdict, about
from .sizes import Size

MOST_CORES: Final = 0.1
WAYS: Final = {
    "nothing": ("being the clients", 1 / 4),
    "position": ("position alone: `app.position`", 1),
    "job": ("the whole job: `app.job`", 1 / 4),
}
"""What is asked, and for which share of the time: the longest has looks at the queue in it."""


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            f"{size.clients:,} clients ask once every {size.poll_every_s:g} s, evenly spread, while {size.polled:,} "
            f"jobs wait, for up to {size.poll_s:g} s. Cores are processor seconds per second, of the process that is "
            "asked and of the database server; what the same process takes for being the clients, and the server when "
            "nobody asks, is taken off. A look at the whole queue is taken every half minute or so.",
        ]
    )
    for kind in kinds:
        async with filled(kind, Contents(waiting=size.polled), size.accounts, say) as url:
            found = await _poll(url, size, about(kind.name, say))
        _report(findings, kind.name, found, size)
    return findings


async def _poll(url: str, size: Size, say: Say) -> dict[str, dict[str, Any]]:
    server = await postmaster(url) if url.startswith("postgresql:") else None
    found: dict[str, dict[str, Any]] = {}
    async with child(f"{__package__}.polls_side", url) as asked:
        await asked.ask("choose", clients=size.clients)
        for way in WAYS:
            # Once before: the first look at the queue, and the statements.
            await asked.ask("poll", way=way, every_s=size.poll_every_s, seconds=size.poll_s / 20)
            found[way] = await _cores(asked, server, way, size)
            say(f"{way}: {found[way]['process'] + found[way]['server']:.3f} cores")
    return found


async def _cores(asked: Child, server: int | None, way: str, size: Size) -> dict[str, Any]:
    before_s = 0.0 if server is None else server_cpu_s(server)
    found = await asked.ask("poll", way=way, every_s=size.poll_every_s, seconds=size.poll_s * WAYS[way][1])
    server_s = 0.0 if server is None else server_cpu_s(server) - before_s
    return {**found, "process": found["cpu_s"] / found["took_s"], "server": server_s / found["took_s"]}


def _report(findings: Findings, kind: str, found: dict[str, dict[str, Any]], size: Size) -> None:
    rows = [["", "answered/s", "process, cores", "server, cores", "both, less the idle ones", "p99 ms", "longest ms"]]
    idle = found["nothing"]["process"] + found["nothing"]["server"]
    for way, (words, _) in WAYS.items():
        one = found[way]
        cost = one["cores"] = one["process"] + one["server"] - idle
        rows.append(
            [
                words,
                f"{one['polls_per_s']:,.0f}",
                *(f"{cores:.3f}" for cores in (one["process"], one["server"], cost)),
                *(f"{one[name]:,.1f}" for name in ("p99_ms", "longest_ms")),
            ]
        )
    findings.tables.append((f"{kind}: {size.clients:,} clients, {size.polled:,} jobs", rows))
    findings.figures[kind] = found
    cores = found["position"]["cores"]
    what = f"{kind}: a position poll every {size.poll_every_s:g} s from each of {size.clients:,}"
    findings.verdicts.append(Verdict(what, f"under {MOST_CORES} cores", f"{cores:.3f} cores", cores < MOST_CORES))


POLLS: Final = Measure("polls", "Polls", take)
