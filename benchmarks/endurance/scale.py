"""Scale: more processes, and one account, some or many; and what the time goes to where more no longer helps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import asyncpg

from ..databases import Kind, Postgres
from ..processes import TICKS_PER_S, Child, child, postmaster, server_cpu_s
from .application import application, migrate, open_accounts
from .findings import Findings, Measure, Plot, Say
from .sizes import Size

SAMPLE_S: Final = 0.02
EVENTS: Final = 4
WAITS: Final = """
SELECT CASE
    WHEN state LIKE 'idle in transaction%' THEN 'its client'
    WHEN wait_event IS NULL THEN 'nothing: it runs'
    ELSE wait_event_type || ' ' || wait_event
END, count(*)
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid() GROUP BY 1
"""


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            "Processes on one PostgreSQL, each with 256 callers that submit one job at a time; in *whole lives* each "
            "process also claims and finishes as many as it submitted, from the one queue that all share.",
            "The processor time of the client processes and of the server is given per job. What server processes "
            "inside a transaction wait for was looked at every 20 ms: the mean number of them at a time.",
        ]
    )
    for kind in kinds:
        if isinstance(kind, Postgres):
            for owners in size.owners:
                await _owned_by(kind, owners, size, say, findings)
    return findings


async def _owned_by(kind: Postgres, owners: int, size: Size, say: Say, findings: Findings) -> None:
    lines: dict[str, list[tuple[float, float]]] = {}
    accounts = "one account" if owners == 1 else f"{owners:,} accounts"
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as app:
            await open_accounts(app, owners)
        await kind.settle(url)
        # All whole lives first: they leave no queue behind.
        for what, finishing in (("whole lives", True), ("submits", False)):
            rows = [["", "per second", "clients, µs each", "server, µs each", "machine busy", "waiting, on average"]]
            for processes in size.processes:
                found = await _measured(url, processes, owners, size, finishing=finishing)
                lines.setdefault(what, []).append((processes, found["per_second"]))
                rows.append(_row(processes, found))
                findings.figures.setdefault(accounts, {}).setdefault(what, {})[processes] = found
                say(f"{accounts}, {what}, {processes} processes: {found['per_second']:,.0f}/s")
            findings.tables.append((f"{accounts}: {what}", rows))
    findings.plots.append(Plot(f"scale_{owners}", f"Processes: {accounts}", "processes", "jobs per second", lines))


async def _measured(url: str, processes: int, owners: int, size: Size, *, finishing: bool) -> dict[str, Any]:
    server = await postmaster(url)
    waits: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        sides = [
            await stack.enter_async_context(child(f"{__package__}.lives_side", url, str(owners)))
            for _ in range(processes)
        ]
        await asyncio.gather(*(side.ask("start", finishing=finishing) for side in sides))
        await asyncio.sleep(size.scale_s / 4)
        before, server_s, busy_s = await _counts(sides), server_cpu_s(server), _busy_s()
        looks = await _sample(url, size.scale_s, waits)
        after, server_s, busy_s = await _counts(sides), server_cpu_s(server) - server_s, _busy_s() - busy_s
        await asyncio.gather(*(side.ask("stop") for side in sides))
    name = "finished" if finishing else "submitted"
    done = [one[name] - other[name] for one, other in zip(after, before, strict=True)]
    took_s = [one["at"] - other["at"] for one, other in zip(after, before, strict=True)]
    cpu_s = sum(one["cpu_s"] - other["cpu_s"] for one, other in zip(after, before, strict=True))
    jobs = max(1, sum(done))
    return {
        "per_second": sum(count / seconds for count, seconds in zip(done, took_s, strict=True)),
        "client_us": cpu_s / jobs * 1_000_000,
        "server_us": server_s / jobs * 1_000_000,
        "busy_cores": busy_s / max(took_s),
        "waits": {event: count / looks for event, count in waits.most_common()},
    }


async def _counts(sides: list[Child]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(side.ask("counts") for side in sides)))


async def _sample(url: str, seconds: float, waits: Counter[str]) -> int:
    """Looks at what server processes wait for until the time is up, and says how often it looked."""
    connection = await asyncpg.connect(url)
    looks = 0
    try:
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            waits.update({event: count for event, count in await connection.fetch(WAITS)})
            looks += 1
            await asyncio.sleep(SAMPLE_S)
    finally:
        await connection.close()
    return looks


def _busy_s() -> float:
    """Processor seconds of the whole machine that went to anything."""
    user, nice, system, _idle, _iowait, irq, softirq = Path("/proc/stat").read_text().split()[1:8]
    return sum(map(int, (user, nice, system, irq, softirq))) / TICKS_PER_S


def _row(processes: int, found: dict[str, Any]) -> list[str]:
    waits = "; ".join(f"{event} {mean:.1f}" for event, mean in list(found["waits"].items())[:EVENTS])
    return [
        f"{processes} processes" if processes > 1 else "1 process",
        *(f"{found[name]:,.0f}" for name in ("per_second", "client_us", "server_us")),
        f"{found['busy_cores']:.1f} cores",
        waits,
    ]


SCALE: Final = Measure("scale", "Scale", take)
