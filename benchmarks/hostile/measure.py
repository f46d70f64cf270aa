"""Honest accounts submit at a steady rate, alone and then beside each attack; what they feel is compared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ..databases import Kind
from ..endurance.findings import Findings, Say, Verdict, about, percentile
from ..processes import Child, child, cpu_s, postmaster, server_cpu_s
from ..serving.commands import serving
from .application import opened
from .attacks import ATTACKS
from .sizes import Size

LEAST_RATE: Final = 0.8
MOST_P99_MS: Final = 50.0
HEADER: Final = (
    *("", "submits/s", "p50 / p99 / longest, ms", "attacks/s, answered", "cores: server", "database"),
    *("attacker", "submitting"),
)


async def take(kinds: Sequence[Kind], size: Size, say: Say, only: Sequence[str] = ()) -> Findings:
    findings = Findings(
        notes=[
            f"`ficha serve` in one process. {size.rate} submits a second are due, spread over 200 honest accounts and "
            f"{size.lanes} connections, first alone for {size.alone_s:g} s, then beside each attack for "
            f"{size.attack_s:g} s. A submit's time counts from when it was due; *submits/s* are those that were "
            "answered with 201, divided by the time until the last answer.",
            "An attack is an account of its own with one key, from one process with 2 to 64 connections, each with its "
            "next request as soon as the last is answered. Its requests are made beforehand.",
            "Server, database, honest clients and attacker share the cores of one machine. The attacker's process has "
            "the lowest priority (nice 19), so that what it uses itself is taken from nobody; what the server and the "
            "database do for it has the priority of all that they do.",
            f"The targets: at least {LEAST_RATE:.0%} of the rate alone, and a p99 below {MOST_P99_MS:g} ms.",
        ]
    )
    for kind in kinds:
        await _measure(findings, kind, size, about(kind.name, say), only or tuple(ATTACKS))
    return findings


async def _measure(findings: Findings, kind: Kind, size: Size, say: Say, names: Sequence[str]) -> None:
    rows: list[list[str]] = [[*HEADER]]
    figures: dict[str, Any] = {}
    async with opened(kind, {name: ATTACKS[name].plan for name in names}) as prey:
        database = await postmaster(prey.url) if prey.url.startswith("postgresql:") else None
        async with (
            serving(prey.url, application="benchmarks.hostile.application:app") as (server, port),
            child("benchmarks.serving.load_side", str(port)) as load,
            child(f"{__package__}.attacker_side", str(port)) as attacker,
        ):
            await load.ask("prepare", keys=prey.keys, jobs=[])
            await load.ask("submit", rate=size.rate, seconds=size.warm_up_s, lanes=size.lanes)
            pids = {"server": server.pid, "attacker": attacker.pid, "submitting": load.pid}
            alone = await _felt(load, size.alone_s, size, pids, database)
            say(_words("alone", alone))
            rows.append(_row("alone", alone, None))
            figures["alone"] = alone
            for name in names:
                told, felt = await asyncio.gather(
                    attacker.ask("attack", name=name, key=prey.hostile[name], seconds=size.attack_s + 0.5),
                    _felt(load, size.attack_s, size, pids, database, after_s=0.5),
                )
                say(_words(name, felt) + f"; {told['statuses']}")
                attack = ATTACKS[name]
                rows.append(_row(attack.what, felt, told))
                figures[name] = {**felt, "answers": told["statuses"]}
                if attack.is_target:
                    _judge(findings, f"{kind.name}: beside {attack.what}", alone, felt)
                await asyncio.sleep(size.pause_s)
    findings.tables.append((kind.name, rows))
    findings.figures[kind.name] = figures


async def _felt(
    load: Child, seconds: float, size: Size, pids: dict[str, int], database: int | None, *, after_s: float = 0.0
) -> dict[str, Any]:
    """What the honest accounts felt, and who used the processors meanwhile."""
    await asyncio.sleep(after_s)
    before = _used(pids, database)
    found = await load.ask("submit", rate=size.rate, seconds=seconds, lanes=size.lanes)
    used = {name: _used(pids, database)[name] - was for name, was in before.items()}
    took_ms = found["took_ms"] or [seconds * 1_000]
    return {
        "per_second": (found["asked"] - found["failed"]) / found["took_s"],
        "failed": found["failed"],
        "failures": found["failures"],
        "p50_ms": percentile(took_ms, 0.5),
        "p99_ms": percentile(took_ms, 0.99),
        "max_ms": max(took_ms),
        "cores": {name: seconds_used / found["took_s"] for name, seconds_used in used.items()},
    }


def _used(pids: dict[str, int], database: int | None) -> dict[str, float]:
    used = {name: server_cpu_s(pid) if name == "server" else cpu_s(pid) for name, pid in pids.items()}
    return used if database is None else {**used, "database": server_cpu_s(database)}


def _words(name: str, felt: dict[str, Any]) -> str:
    text = f"{name}: {felt['per_second']:.1f} /s, p50 {felt['p50_ms']:.1f}, p99 {felt['p99_ms']:.1f} ms"
    return text + (f", {felt['failed']} failed: {felt['failures'][:1]}" if felt["failed"] else "")


def _row(what: str, felt: dict[str, Any], told: dict[str, Any] | None) -> list[str]:
    answers = "" if told is None else f"{sum(told['statuses'].values()) / told['took_s']:,.0f}"
    return [
        what,
        f"{felt['per_second']:.1f}",
        f"{felt['p50_ms']:.1f} / {felt['p99_ms']:.1f} / {felt['max_ms']:.1f}",
        answers + ("" if told is None else f" ({', '.join(told['statuses'])})"),
        *(f"{felt['cores'].get(name, 0.0):.2f}" for name in ("server", "database", "attacker", "submitting")),
    ]


def _judge(findings: Findings, what: str, alone: dict[str, Any], felt: dict[str, Any]) -> None:
    share = felt["per_second"] / alone["per_second"] if alone["per_second"] else 0.0
    findings.verdicts.append(
        Verdict(
            what,
            f"{LEAST_RATE:.0%}, {MOST_P99_MS:g} ms",
            f"{share:.0%}, {felt['p99_ms']:.1f} ms",
            share >= LEAST_RATE and felt["p99_ms"] < MOST_P99_MS,
        )
    )
