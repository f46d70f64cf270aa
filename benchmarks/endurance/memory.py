"""Memory: little for an engine or a worker that is idle, and no more after a million jobs than before."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from ..databases import Kind
from ..peer import Wrong
from ..processes import ROOT, child
from .application import application, migrate, open_accounts
from .findings import Findings, Measure, Plot, Say, Verdict
from .idle_worker import idle_worker
from .sizes import Size

MOST_MB: Final = 60.0
MOST_GROWTH_MB: Final = 2.0
"""What memory may differ by over half of the jobs, for what allocators do by themselves: four bytes a job."""


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            "Resident memory of a fresh Python process: as it is, after `import ficha`, and with an application that "
            f"has been open for {size.idle_s:g} s; on PostgreSQL, the server is not counted.",
            "An idle worker is the command `ficha worker`, with one tool. After the same time it is watched for "
            f"{size.watched_s:g} s: its processor time in all threads, and the statements that it sends, beginnings "
            "and ends of transactions included. PostgreSQL's log counts them; in SQLite, a trace within the process.",
            f"Then one application lives through {size.lived:,} jobs of {size.lived_accounts:,} accounts: submitted, "
            "claimed and finished, a thousand at a time. The growth is the slope of a straight line through the last "
            "half of the points, times that half's jobs.",
        ]
    )
    idle_rows = [["", "bare Python, MB", "after `import ficha`", "open and idle"]]
    worker_rows = [["", "resident, MB", "of a core", "statements/s"]]
    lived_rows = [["", "first, MB", "half-way", "last", "growth over the last half, MB"]]
    lines: dict[str, list[tuple[float, float]]] = {}
    for kind in kinds:
        idle = await _idle(kind, size)
        say(f"{kind.name}: idle {idle['open']:.1f} MB")
        idle_rows.append([kind.name, *(f"{idle[stage]:.1f}" for stage in ("bare", "imported", "open"))])
        held = f"{idle['open']:.1f} MB"
        findings.verdicts.append(
            Verdict(f"{kind.name}: an idle engine", f"under {MOST_MB:g} MB", held, idle["open"] < MOST_MB)
        )
        worker = await idle_worker(kind, size)
        say(f"{kind.name}: an idle worker: {', '.join(worker.row())}")
        worker_rows.append([kind.name, *worker.row()])
        findings.verdicts += worker.verdicts(kind.name)
        points = lines[kind.name] = await _live(kind, size, say)
        growth = _growth(points)
        lived_rows.append(
            [kind.name, *(f"{points[i][1]:.1f}" for i in (0, len(points) // 2, -1)), f"{growth:+.2f}"],
        )
        what = f"{kind.name}: growth over the last half of {size.lived:,} jobs"
        findings.verdicts.append(
            Verdict(what, f"none (under {MOST_GROWTH_MB:g} MB)", f"{growth:+.2f} MB", growth < MOST_GROWTH_MB)
        )
        findings.figures[kind.name] = {
            "idle_mb": idle,
            "worker": asdict(worker),
            "lived_mb": points,
            "growth_mb": growth,
        }
    findings.tables = [
        ("An idle engine", idle_rows),
        ("An idle worker process", worker_rows),
        (f"{size.lived:,} jobs through one engine", lived_rows),
    ]
    findings.plots = [Plot("memory", "Resident memory of one process", "jobs lived through", "MB", lines)]
    return findings


async def _idle(kind: Kind, size: Size) -> dict[str, float]:
    async with kind.fresh() as url:
        await migrate(url)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", f"{__package__}.idle_side", url, str(size.idle_s)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        out, _ = await process.communicate()
    if process.returncode != 0:
        raise Wrong("the idle process failed")
    found: dict[str, float] = json.loads(out)
    return found


async def _live(kind: Kind, size: Size, say: Say) -> list[tuple[float, float]]:
    points = []
    async with kind.fresh() as url:
        await migrate(url)
        async with application(url) as app:
            await open_accounts(app, size.lived_accounts)
        async with child(f"{__package__}.lives_side", url, str(size.lived_accounts)) as lives:
            for lived in range(size.lived_step, size.lived + 1, size.lived_step):
                points.append((float(lived), await lives.ask("bulk", jobs=size.lived_step)))
                say(f"{kind.name}: {lived:,} jobs, {points[-1][1]:.1f} MB")
    return points


def _growth(points: list[tuple[float, float]]) -> float:
    half = points[len(points) // 2 :]
    jobs, held = [x for x, _ in half], [y for _, y in half]
    return statistics.linear_regression(jobs, held).slope * (jobs[-1] - jobs[0])


MEMORY: Final = Measure("memory", "Memory", take)
