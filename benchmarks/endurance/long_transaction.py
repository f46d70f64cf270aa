"""A long transaction: one that is held open elsewhere keeps dead rows from being cleared away, and must not matter."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Final

import asyncpg

from ..databases import Kind, Postgres
from ..peer import Wrong
from ..processes import Child, child
from .application import application, migrate, open_accounts
from .findings import Findings, Measure, Plot, Say, Verdict
from .sizes import Size

MOST_LOSS: Final = 20.0
NO_LOSS: Final = 5.0
"""Two runs that should be alike differ by a few per cent."""
TABLES: Final = 6

Rates = list[float]
"""Lives per second, step by step."""


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            "One process submits, claims and finishes paid jobs as fast as it can, with a queue that stays short. "
            f"After {size.before_s:g} s another connection begins a REPEATABLE READ transaction, reads a row in it, "
            f"and holds it for {size.held_s:g} s of such work.",
            f"A control on a database of its own, with no such transaction, takes turns with it, {size.step_s:g} s "
            "each, so that whatever else happens on the machine, and the growth of the tables, happens to both. A loss "
            "is the median over a phase's turns of what is missing beside the control, against the first phase.",
        ]
    )
    for kind in kinds:
        if isinstance(kind, Postgres):
            control, held, dead = await _run(kind, size, say)
            _report(findings, control, held, size)
            findings.tables.append(("Rows of the database with the transaction", dead))
    return findings


async def _run(kind: Postgres, size: Size, say: Say) -> tuple[Rates, Rates, list[list[str]]]:
    control: Rates = []
    held: Rates = []
    async with kind.fresh() as quiet, kind.fresh() as url, AsyncExitStack() as stack:
        sides = []
        for each, rates in ((quiet, control), (url, held)):
            await migrate(each)
            async with application(each) as app:
                await open_accounts(app, size.accounts)
            sides.append(
                (await stack.enter_async_context(child(f"{__package__}.lives_side", each, str(size.accounts))), rates)
            )
        dead: list[dict[str, tuple[int, int]]] = []
        for name, seconds in (("before", size.before_s), ("held", size.held_s), ("after", size.after_s)):
            async with _held(url) if name == "held" else nullcontext():
                for number in range(round(seconds / size.step_s)):
                    for lives, rates in sides if number % 2 else reversed(sides):
                        rates.append(await _turn(lives, size.step_s))
                    say(f"{name}: {held[-1]:,.0f} lives/s, control {control[-1]:,.0f}")
                dead.append(await _dead_rows(url))
    header = ["", "live", "dead, before", "dead, at the end of the transaction", "dead, at the end"]
    most = sorted(dead[1], key=lambda table: -dead[1][table][1])[:TABLES]
    rows = [[table, f"{dead[-1][table][0]:,}", *(f"{rows[table][1]:,}" for rows in dead)] for table in most]
    return control, held, [header, *rows]


async def _turn(lives: Child, seconds: float) -> float:
    """Lives per second over a turn, less its first moments."""
    await lives.ask("start", finishing=True)
    await asyncio.sleep(seconds * 0.05)
    before = await lives.ask("counts")
    await asyncio.sleep(seconds * 0.95)
    after = await lives.ask("counts")
    await lives.ask("stop")
    rate: float = (after["finished"] - before["finished"]) / (after["at"] - before["at"])
    return round(rate, 1)


@asynccontextmanager
async def _held(url: str) -> AsyncIterator[None]:
    """A transaction that keeps everything since its beginning from being cleared away."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT * FROM ficha.pools LIMIT 1")
            if not await connection.fetchval(
                "SELECT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            ):
                raise Wrong("the transaction holds no snapshot")
            yield
    finally:
        await connection.close()


async def _dead_rows(url: str) -> dict[str, tuple[int, int]]:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(
            "SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables ORDER BY n_dead_tup DESC, relname"
        )
    finally:
        await connection.close()
    return {table: (live, dead) for table, live, dead in found}


def _report(findings: Findings, control: Rates, held: Rates, size: Size) -> None:
    until = size.before_s + size.held_s
    recovered = until + min(60, size.after_s / 2)
    phases: dict[str, tuple[float, float]] = {
        "before": (0, size.before_s),
        "held": (size.before_s, until),
        "held, the last third": (until - size.held_s / 3, until),
        "the minute after": (until, recovered),
        "a minute after": (recovered, until + size.after_s),
    }
    rows = [["", "control, lives/s", "with the transaction", "loss"]]
    losses: dict[str, float] = {}
    usual = 1.0
    for name, (begins, ends) in phases.items():
        turns = slice(round(begins / size.step_s), max(round(begins / size.step_s) + 1, round(ends / size.step_s)))
        ours, theirs = held[turns] or held[-1:], control[turns] or control[-1:]
        kept = statistics.median(mine / max(1.0, other) for mine, other in zip(ours, theirs, strict=True))
        usual = kept if name == "before" else usual
        losses[name] = (1 - kept / max(0.01, usual)) * 100
        rows.append(
            [name, f"{statistics.median(theirs):,.0f}", f"{statistics.median(ours):,.0f}", f"{losses[name]:+.1f} %"]
        )
    findings.tables.append(("Whole lives per second, medians of the turns", rows))
    for name, most, target in (
        ("held", MOST_LOSS, f"at most {MOST_LOSS:g} %"),
        ("held, the last third", MOST_LOSS, f"at most {MOST_LOSS:g} %"),
        ("a minute after", NO_LOSS, f"none (within {NO_LOSS:g} %)"),
    ):
        measured = f"{losses[name]:+.1f} %"
        findings.verdicts.append(Verdict(f"loss of throughput, {name}", target, measured, losses[name] <= most))
    lines = {
        name: [((turn + 1) * size.step_s, rate) for turn, rate in enumerate(rates)]
        for name, rates in (("a transaction held open", held), ("control", control))
    }
    title = "Whole lives beside a long transaction"
    span = (size.before_s, until, "held")
    findings.plots.append(Plot("long_transaction", title, "seconds of work", "jobs per second", lines, (span,)))
    findings.figures = {"control": control, "held": held, "losses": losses}


LONG: Final = Measure("long", "A long transaction elsewhere", take)
