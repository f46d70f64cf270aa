"""Attackers against a live server while honest clients measure: `python -m tests.attack --seconds 60`.

On each database, one after the other: a server of two processes and a worker; honest clients that submit at a steady
rate, follow their accounts and cancel; and each attacker for its share of the time. In the end every job must come to
its end, and the checker reads what the honest clients were told. Prints what they felt. Ends with 1 if anything did
not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from benchmarks.endurance.findings import percentile
from benchmarks.processes import Child, child
from ficha import Ficha
from tests.attack.attack import Attack
from tests.attack.attackers import ATTACKERS, FAULTS
from tests.attack.checker import contradictions
from tests.attack.site import Site, site
from tests.chaos.records import lines
from tests.support.postgres import server_folder
from tests.support.postgres_databases import migrated_database

ACCOUNTS: Final = 4
CREDITS: Final = 1_000_000
RATE: Final = 50
LEAST_S: Final = 2.0
"""The least that each attacker gets, however many they are."""
STALL_S: Final = 10.0
BACK_S: Final = 60.0
"""No honest submit may take so long, with everything that it has to repeat; and while processes are killed."""
ENDS_S: Final = 90.0
KEPT: Final = 0.8
P99_MS: Final = 50.0
"""What honest clients should keep of their rate, and how long 99 of 100 may wait."""


class Felt(Struct):
    """What honest clients felt while one attacker was at work, what it got, and what did not hold."""

    name: str
    per_second: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    worst_ms: float = 0.0
    errors: dict[str, int] = {}
    got: dict[str, int] = {}
    wrong: list[str] = []

    def row(self, alone: Felt) -> str:
        meets = self.per_second >= KEPT * alone.per_second and self.p99_ms < P99_MS
        cells = [
            self.name,
            f"{self.per_second:.0f}",
            f"{self.p50_ms:.1f}",
            f"{self.p99_ms:.0f}",
            f"{self.worst_ms:.0f}",
        ]
        cells += ["yes" if meets else "no", _counts(self.errors), _counts(self.got)]
        return f"| {' | '.join([*cells, f'WRONG: {len(self.wrong)}' if self.wrong else 'held'])} |"


HEAD: Final = [
    f"- honest: {RATE} submits a second, each timed from when it was due until it was answered",
    f"- target: at least {KEPT:.0%} of the rate alone, and 99 of 100 within {P99_MS:g} ms",
    "- repeated: what honest clients had to ask again, and why",
    "",
    "| attack | honest/s | p50, ms | p99, ms | worst, ms | target | repeated | attacker got | |",
    "|---|---|---|---|---|---|---|---|---|",
]


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items())) or "nothing"


async def feel(honest: Child, under: Site, name: str, seconds: float, rate: int) -> Felt:
    """One attacker at work beside the honest clients; without a name, nobody."""
    felt = Felt(name or "nobody")
    measuring = asyncio.create_task(honest.ask("submit", rate=rate, seconds=seconds))
    attack = Attack(under, seconds)
    try:
        if name:
            # An attacker that goes on beyond its time has met something that never ends.
            async with asyncio.timeout(seconds + 2 * BACK_S):
                await ATTACKERS[name](attack)
    except Exception as error:
        attack.wrong.append(f"the attacker itself failed: {_words(error)}")
    measured = await measuring
    took_ms = measured["took_ms"]
    felt.per_second, felt.errors = measured["per_second"], measured["errors"]
    felt.p50_ms, felt.p99_ms, felt.worst_ms = percentile(took_ms, 0.5), percentile(took_ms, 0.99), max(took_ms)
    felt.got, felt.wrong = dict(attack.got), attack.wrong
    if felt.worst_ms > (BACK_S if name in FAULTS else STALL_S) * 1_000:
        felt.wrong.append(f"an honest submit took {felt.worst_ms / 1_000:.1f} s")
    felt.wrong += [f"honest clients got {status}" for status in felt.errors if status.startswith(("5", "4")) and
                   status not in ("503", "429")]  # fmt: skip
    return felt


def _words(error: BaseException) -> str:
    inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
    frame = traceback.extract_tb(inner.__traceback__)[-1]
    return f"{type(inner).__name__}: {inner} ({Path(frame.filename).name}:{frame.lineno})"


async def run(under: Site, folder: Path, chosen: list[str], options: argparse.Namespace) -> list[Felt]:
    """All attackers on one server, and then the check of everything that the honest clients were told."""
    keys = {}
    for number in range(ACCOUNTS):
        name = f"honest-{number}"
        keys[name] = await asyncio.to_thread(under.server.account, name, credits=CREDITS)
    each_s = max(LEAST_S, options.seconds / len(chosen))
    async with child("tests.attack.honest_side", str(under.port), str(folder)) as honest:
        os.nice(5)
        await honest.ask("prepare", keys=keys, credits=CREDITS)
        await honest.ask("submit", rate=options.rate, seconds=1.0)
        alone = await feel(honest, under, "", max(each_s, 3.0), options.rate)
        found = [alone]
        print(alone.row(alone), flush=True)
        for name in chosen:
            found.append(await feel(honest, under, name, each_s, options.rate))
            print(found[-1].row(alone), flush=True)
        counts = await honest.ask("finish", within_s=ENDS_S)
    wrong = contradictions(lines(folder))
    async with Ficha(under.server.database, sweep_by_itself=False) as app:
        wrong += await app.verify()
    found.append(Felt("the history, and `ficha verify`", got=counts, wrong=wrong))
    verdict = f"WRONG: {len(wrong)}" if wrong else "held"
    print(f"\nchecked: {counts['jobs']} jobs and {counts['streams']} streams, and `ficha verify`: {verdict}\n")
    return found


@contextmanager
def databases(only: str | None) -> Iterator[Iterator[tuple[str, str]]]:
    """The databases to attack, by name, one after the other."""
    with ExitStack() as stack:

        def made() -> Iterator[tuple[str, str]]:
            if only in (None, "sqlite"):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ficha-attack-"))
                yield "SQLite", f"sqlite:///{folder}/ficha.db"
            if only in (None, "postgresql"):
                server = stack.enter_context(server_folder())
                server.start()
                yield "PostgreSQL", stack.enter_context(migrated_database(server))

        yield made()


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    chosen = [name for name in ATTACKERS if any(part in name for part in options.only or [""])]
    if not chosen:
        raise SystemExit(f"no attacker is called so; there are: {', '.join(ATTACKERS)}")
    wrong: list[str] = []
    with databases(options.database) as found:
        for kind, url in found:
            print("\n".join([f"# {kind}", "", *HEAD]), flush=True)
            with tempfile.TemporaryDirectory(prefix="ficha-attack-") as folder, site(url) as under:
                for felt in asyncio.run(run(under, Path(folder), chosen, options)):
                    wrong += [f"{kind}, {felt.name}: {words}" for words in felt.wrong]
    print("\n".join(f"- {words}" for words in wrong) or "Everything held.")
    return int(bool(wrong))


def _options(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=60.0,
        help=f"for all attackers together, on each database; each gets {LEAST_S:g} s in any case",
    )  # fmt: skip
    parser.add_argument("--rate", type=int, default=RATE, help="honest submits a second")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="one database instead of both")
    parser.add_argument("--only", action="append", help="attackers whose name contains this; may be repeated")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
