"""Flat: a call costs the same however many jobs wait, whoever owns them, and however many ended before."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from ..databases import Kind
from ..processes import Child, child
from .application import BIG_AT_ONCE
from .filling import Contents, filled
from .findings import Findings, Measure, Say, Verdict, about, percentile
from .sizes import Size

MOST: Final = 1.5
OTHERS: Final = {"stall": "event loop stood still", "memory": "process's memory, MB"}
"""What is not a call."""
Times = dict[str, list[float]]


async def take(kinds: Sequence[Kind], size: Size, say: Say) -> Findings:
    findings = Findings(
        notes=[
            "Two databases of one kind, the short one and the long one, each with a process of its own that makes one "
            f"call at a time. They take turns, {size.round_cycles} of each call at a turn, until each call was made "
            f"{size.cycles:,} times. What is claimed is finished, and submitted anew by the same account.",
            "A finish that *promotes* and a submit that is *parked* are those of the account that owns most of the "
            f"queue and may have {BIG_AT_ONCE} jobs at once.",
        ]
    )
    for kind in kinds:
        for name, short, long in _scenes(size):
            async with filled(kind, short, size.accounts, say) as small, filled(kind, long, size.accounts, say) as big:
                times = await _side_by_side(small, big, size, about(f"{kind.name}, {name}", say))
            _report(findings, kind.name, name, *times)
    return findings


def _scenes(size: Size) -> list[tuple[str, Contents, Contents]]:
    short = Contents(waiting=size.small)
    # What one account has too many of is parked; of the others, as many wait as a queue of this length leaves them.
    others = max(size.small, size.large - size.owned)
    return [
        (f"{size.large:,} waiting against {size.small:,}", short, Contents(waiting=size.large)),
        (
            f"one account owns {size.owned:,} of {size.large:,}",
            Contents(waiting=size.small, parked=size.small),
            Contents(waiting=others, parked=size.owned),
        ),
        (f"{size.history:,} ended against none", short, Contents(waiting=size.small, finished=size.history)),
    ]


async def _side_by_side(small: str, big: str, size: Size, say: Say) -> tuple[Times, Times]:
    short: Times = defaultdict(list)
    long: Times = defaultdict(list)
    accounts = str(size.accounts)
    async with (
        child(f"{__package__}.flat_side", small, accounts) as one,
        child(f"{__package__}.flat_side", big, accounts) as other,
    ):
        sides = [(one, short), (other, long)]
        await asyncio.gather(*(side.ask("cycles", number=size.warm_up) for side, _ in sides))
        for done in range(0, size.cycles, size.round_cycles):
            # Every other turn the other way round, so that neither always comes first.
            for side, times in sides if done // size.round_cycles % 2 == 0 else reversed(sides):
                await _turn(side, times, min(size.round_cycles, size.cycles - done))
            if done % 500 == 0:
                say(f"{done:,} of {size.cycles:,} cycles; p99 long : short is {_line(short, long)}")
    return short, long


async def _turn(side: Child, times: Times, cycles: int) -> None:
    for name, took in (await side.ask("cycles", number=cycles)).items():
        times[name] += took


def _line(short: Times, long: Times) -> str:
    return ", ".join(f"{name} {_ratio(short[name], took):.2f}" for name, took in long.items() if short[name])


def _ratio(short: list[float], long: list[float], share: float = 0.99) -> float:
    return percentile(long, share) / percentile(short, share)


def _report(findings: Findings, kind: str, scene: str, short: Times, long: Times) -> None:
    rows = [["", "short p50 / p99 ms", "long p50 / p99 ms", "p50 ratio", "p99 ratio", "longest, short / long"]]
    figures: dict[str, Any] = {}
    for name, took in long.items():
        before = short[name]
        if name in OTHERS:
            continue
        p50, p99 = _ratio(before, took, 0.5), _ratio(before, took)
        rows.append(
            [name, _pair(before), _pair(took), f"{p50:.2f}", f"{p99:.2f}", f"{max(before):,.0f} / {max(took):,.0f}"]
        )
        figures[name] = {"short": _summary(before), "long": _summary(took), "p50_ratio": p50, "p99_ratio": p99}
        what = f"{kind}: p99 of a {name}, {scene}"
        findings.verdicts.append(Verdict(what, f"at most {MOST} times", f"{p99:.2f} times", p99 <= MOST))
    for name, words in OTHERS.items():
        rows.append([words, "", "", "", "", f"{max(short[name]):,.0f} / {max(long[name]):,.0f}"])
        figures[name] = {"short": max(short[name]), "long": max(long[name])}
    findings.tables.append((f"{kind}: {scene}", rows))
    findings.figures.setdefault(kind, {})[scene] = figures


def _pair(took: list[float]) -> str:
    return f"{percentile(took, 0.5):.2f} / {percentile(took, 0.99):.2f}"


def _summary(took: list[float]) -> dict[str, float]:
    return {
        "calls": len(took),
        "p50_ms": round(percentile(took, 0.5), 3),
        "p99_ms": round(percentile(took, 0.99), 3),
        "max_ms": round(max(took), 3),
    }


FLAT: Final = Measure("flat", "Flat", take)
