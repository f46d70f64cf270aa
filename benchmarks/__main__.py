"""`python -m benchmarks`: takes the measurements, peers in turn, and writes what came out."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console

from . import footprint, machine, report
from .awa_side import AwaSide
from .ceiling_side import CeilingSide
from .databases import Kind, databases
from .ficha_side import FichaSide
from .huey_side import HueySide
from .loops import LOOPS
from .measurements import SERVED, Measurement, measurements, sample
from .peer import Knob, Peer
from .pgqueuer_side import PgQueuerSide
from .procrastinate_side import ProcrastinateSide
from .recording import recorded
from .results import Results
from .workload import QUICK, Size

PEERS: Final[dict[str, list[type[Peer]]]] = {
    "PostgreSQL": [FichaSide, PgQueuerSide, AwaSide, ProcrastinateSide, CeilingSide],
    "SQLite": [FichaSide, HueySide],
}
BARE: Final[tuple[type[Peer], ...]] = (footprint.ManyAccounts, PgQueuerSide)
"""Whose bytes are counted."""
NAMES: Final = [peer.name for peers in PEERS.values() for peer in peers if peer is not FichaSide]


def main(arguments: list[str] | None = None) -> None:
    options = _options(arguments)
    size = _size(options)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    kinds_of = databases(options.only, drops=not options.quick)
    with kinds_of as kinds, asyncio.Runner(loop_factory=LOOPS[options.loop]) as runner:
        results = runner.run(_measure(kinds, size, options, console))
    if (folder := _folder(options)) is not None:
        report.write(results, folder)
    report.show(results, Console(width=None if sys.stdout.isatty() else 160))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measures Ficha and its peers.")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose figures mean nothing")
    parser.add_argument("--rounds", type=int, help="how often each measurement is taken")
    parser.add_argument("--seconds", type=float, help="how long callers submit in one measurement")
    parser.add_argument("--jobs", type=int, help="jobs in bulk, and in a queue that is emptied")
    parser.add_argument("--only", choices=["postgres", "sqlite"], help="one database instead of both")
    parser.add_argument("--measure", metavar="KEY", help="only measurements whose key starts so, as submit_64")
    parser.add_argument("--peer", action="append", choices=NAMES, help="only this one beside Ficha; may be repeated")
    parser.add_argument(
        "--loop", choices=list(LOOPS), default="uvloop", help="the event loop, for all peers (uvloop is PgQueuer's own)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written; a whole run's go to benchmarks/"
    )
    return parser.parse_args(arguments)


def _folder(options: argparse.Namespace) -> Path | None:
    """Where to write. A part of a run, or a quick one, must not take the place of a whole one's results."""
    is_whole = not (options.quick or options.only or options.measure or options.peer)
    return options.output or (Path(__file__).parent if is_whole else None)


def _size(options: argparse.Namespace) -> Size:
    given = {name: value for name in ("rounds", "seconds", "jobs") if (value := getattr(options, name)) is not None}
    if any(value <= 0 for value in given.values()):
        raise SystemExit("--rounds, --seconds and --jobs must be above zero")
    return replace(QUICK if options.quick else Size(), **given)


async def _measure(kinds: list[Kind], size: Size, options: argparse.Namespace, console: Console) -> Results:
    if machine.is_busy() and not options.quick:
        console.print("[yellow]the machine is busy with other work: do not trust absolute figures")
    chosen = tuple(m for m in measurements() if m.key.startswith(options.measure or ""))
    wants_bytes = footprint.KEY.startswith(options.measure or "")
    if not chosen and not wants_bytes:
        raise SystemExit(f"no measurement starts with {options.measure!r}")
    results = Results(await machine.facts(kinds, options.loop), size, chosen)
    for kind in kinds:
        peers = [peer for peer in PEERS[kind.name] if peer is FichaSide or peer.name in (options.peer or NAMES)]
        for peer in peers:
            with console.status(f"{kind.name}: getting {peer.name} ready"):
                await _get_ready(peer, kind, size, chosen, is_quick=options.quick)
            _introduce(peer, kind, results)
        for number in range(size.rounds):
            for measurement in chosen:
                # Every other round the other way round, so that nobody always comes first.
                for peer in peers if number % 2 == 0 else reversed(peers):
                    if measurement.key in peer.lacks or kind.name not in measurement.databases:
                        continue
                    with console.status(f"{kind.name}, round {number + 1}: {measurement.title}, {peer.name}"):
                        found = await sample(measurement, peer(), kind, size)
                    results.add(kind.name, peer.name, measurement.key, found)
        if wants_bytes and kind.name in SERVED:
            for peer in (side for side in BARE if side.name in {peer.name for peer in peers}):
                with console.status(f"{kind.name}: bytes of a finished life, {peer.name}"):
                    results.footprints[peer.name] = await footprint.footprint(peer(), kind, size)
    return results


async def _get_ready(
    peer: type[Peer], kind: Kind, size: Size, chosen: tuple[Measurement, ...], *, is_quick: bool
) -> None:
    """What a peer needs once, before the first round."""
    if issubclass(peer, CeilingSide):
        if any(m.key not in peer.lacks for m in chosen):
            peer.parts = await recorded(kind, size)
    elif peer.knob and not is_quick and any(m.takes_many for m in chosen):
        peer.setting = await _best(peer, peer.knob, kind, size)


async def _best(peer: type[Peer], knob: Knob, kind: Kind, size: Size) -> int:
    """A peer's best setting on this machine, by having its worker empty a smaller queue with each."""
    work = next(m for m in measurements() if m.key == "work")
    rates: dict[int, float] = {}
    for value in knob.values:
        peer.setting = value
        rates[value] = (await sample(work, peer(), kind, replace(size, jobs=-(-size.jobs // 2)))).per_second
    return max(rates, key=lambda value: rates[value])


def _introduce(peer: type[Peer], kind: Kind, results: Results) -> None:
    """What the report has to say of a peer."""
    if issubclass(peer, CeilingSide):
        return
    results.does[peer.name] = peer.does
    fact = results.facts.get(peer.name, version(peer.package))
    if peer.knob:
        name = "" if peer.knob.name in fact else f"{peer.knob.name}: "
        fact += f", {name}{peer.setting} on {kind.name}"
    results.facts[peer.name] = fact
    for m in results.measurements:
        if kind.name in m.databases and (why := peer.lacks.get(m.key)):
            results.remarks.append(f"**{peer.name}** has no figure for {m.title}: {why}.")
    if peer.share < 1:
        results.remarks.append(
            f"**{peer.name}** is slow to empty a queue, so it is given {peer.share:.0%} of the jobs to empty."
        )


if __name__ == "__main__":
    main()
