"""The benchmarks run and write what they should; how fast anything is, no test says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import PEERS
from benchmarks.ceiling_side import CeilingSide
from benchmarks.databases import Kind, Postgres, Sqlite
from benchmarks.measurements import Sample, Trial, measurements
from benchmarks.peer import Peer, Wrong
from benchmarks.recording import recorded
from benchmarks.results import Results
from benchmarks.workload import QUICK, Numbers
from tests.postgres import Server

ROOT = Path(__file__).parent.parent
SUBMITS = ["submit_1", "submit_64", "submit_512"]
MEASUREMENTS = [*SUBMITS, "life_1", "life_64", "life_512", "bulk", "claim_finish", "work"]
LIVES = [f"life_{n}_to_submit_{n}" for n in (1, 64, 512)]
BY_WORKER = [key for key in MEASUREMENTS if key != "claim_finish"]
SIDES = {
    ("PostgreSQL", "Ficha"): MEASUREMENTS,
    ("PostgreSQL", "PgQueuer"): MEASUREMENTS,
    ("PostgreSQL", "awa"): BY_WORKER,
    ("PostgreSQL", "Procrastinate"): BY_WORKER,
    ("PostgreSQL", "raw ceiling"): ["bulk", "claim_finish"],
    ("SQLite", "Ficha"): MEASUREMENTS,
    ("SQLite", "huey"): [key for key in BY_WORKER if key != "bulk"],
}
TARGETS = 8
PLOTS = ["postgresql-waits.svg", "postgresql.svg", "sqlite-waits.svg", "sqlite.svg"]


@pytest.mark.timeout(300)  # Some fifty fresh databases, which a busy disk takes its time for.
def test_a_quick_run_measures_every_peer_and_writes_results_that_do_not_name_the_machine(tmp_path: Path) -> None:
    # One test for all of it, because a run takes a while and the workers of a parallel run share no fixtures.
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    assert "submit, 64 callers" in done.stdout
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    check_figures(found)
    check_ratios(found["ratios"])
    check_targets(found["targets"])
    check_words(found["machine"], (tmp_path / "RESULTS.md").read_text(encoding="utf-8"))
    check_plots(tmp_path / "plots")


def check_figures(found: dict[str, Any]) -> None:
    assert {(database, peer) for database, peers in found["databases"].items() for peer in peers} == set(SIDES)
    for (database, peer), keys in SIDES.items():
        figures = found["databases"][database][peer]
        assert list(figures) == keys
        for figure in figures.values():
            assert figure["per_second"] > 0
            assert figure["cpu_us"] > 0
            assert len(figure["rounds"]) == found["size"]["rounds"]
        for key in set(SUBMITS) & set(keys):
            assert 0 < figures[key]["p50_ms"] <= figures[key]["p99_ms"]


def check_ratios(ratios: dict[str, Any]) -> None:
    expected = {side: {*keys, *LIVES} for side, keys in SIDES.items() if side[1] not in ("Ficha", "raw ceiling")}
    expected["PostgreSQL", "fastest peer"] = {*MEASUREMENTS, *LIVES}
    # The rows of many callers' submits are written in batches like those of a bulk, and have the same ceiling.
    expected["PostgreSQL", "raw ceiling"] = {"submit_64", "submit_512", "bulk", "claim_finish"}
    assert {(database, peer): set(found) for database, by in ratios.items() for peer, found in by.items()} == expected
    assert all(ratio >= 0 for by in ratios.values() for found in by.values() for ratio in found.values())


def check_targets(targets: list[dict[str, Any]]) -> None:
    assert len(targets) == TARGETS
    for target in targets:
        assert target["ours_per_second"] > 0
        assert target["theirs_per_second"] > 0


def check_words(machine: dict[str, str], text: str) -> None:
    assert {"date", "cores", "PostgreSQL", "SQLite", "PgQueuer", "awa", "Procrastinate", "huey"} <= machine.keys()
    assert "| submit, 512 callers |" in text
    for title in ("Targets", "PostgreSQL: jobs per second", "SQLite: how many times as fast Ficha is", "Plots"):
        assert f"## {title}\n" in text
    assert "**huey** has no figure for submit in bulk: it has no way" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text + str(machine)


def check_plots(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == PLOTS
    for name in PLOTS:
        text = (folder / name).read_text(encoding="utf-8")
        assert "Ficha" in text
        assert str(ROOT) not in text


@pytest.mark.parametrize("peer", PEERS["PostgreSQL"], ids=lambda peer: peer.name)
async def test_a_peer_on_postgresql_has_to_prove_what_it_did(peer: type[Peer], postgres_server: Server) -> None:
    await check_proof(peer, Postgres(postgres_server))


@pytest.mark.parametrize("peer", PEERS["SQLite"], ids=lambda peer: peer.name)
async def test_a_peer_on_sqlite_has_to_prove_what_it_did(peer: type[Peer], tmp_path: Path) -> None:
    await check_proof(peer, Sqlite(tmp_path))


async def check_proof(peer_class: type[Peer], kind: Kind) -> None:
    """What was done passes; a job fewer or an end more than was done does not."""
    if issubclass(peer_class, CeilingSide):
        peer_class.parts = await recorded(kind, QUICK)
    peer = peer_class()
    async with kind.fresh(peer) as url:
        await peer.open(url)
        try:
            trial = Trial(peer, kind, url, QUICK, Numbers())
            await trial.full_queue()
            await peer.check(trial.numbers.used, trial.finished)
            assert 0 < trial.finished < trial.numbers.used
            for submitted, finished in ((1, 0), (0, 1), (1, 1)):
                with pytest.raises(Wrong):
                    await peer.check(trial.numbers.used + submitted, trial.finished + finished)
        finally:
            await peer.close()


def test_ratios_are_taken_within_rounds_and_targets_beside_the_fastest_peer() -> None:
    results = Results({}, QUICK, measurements())
    rates = {
        "Ficha": {"submit_64": [400, 900, 800], "bulk": [700, 700, 700], "claim_finish": [300, 300, 300]},
        "PgQueuer": {"submit_64": [100, 200, 100], "work": [200, 200, 200]},
        "awa": {"submit_64": [50, 50, 150]},
        "raw ceiling": {"bulk": [1000, 2000, 1000]},
    }
    for peer, by_key in rates.items():
        for key, values in by_key.items():
            for value in values:
                results.add("PostgreSQL", peer, key, Sample(value, 1.0))
    found = results.as_json()
    assert found["fastest"]["PostgreSQL"] == {"submit_64": "PgQueuer", "work": "PgQueuer"}
    assert found["ratios"]["PostgreSQL"] == {
        "PgQueuer": {"submit_64": 4.5},
        "awa": {"submit_64": 8.0},
        "fastest peer": {"submit_64": 4.5},
        "raw ceiling": {"submit_64": 0.45, "bulk": 0.7},
    }
    assert [(t["key"], t["peer"], t["ratio"], t["reached"]) for t in found["targets"]] == [
        ("submit_64", "PgQueuer", 4.5, True),
        ("bulk", "raw ceiling", 0.7, True),
        ("claim_finish", "PgQueuer", 1.5, True),
    ]
    results.samples["PostgreSQL"]["Ficha"]["claim_finish"] = [Sample(299.0, 1.0)] * 3
    assert [t["reached"] for t in results.as_json()["targets"]] == [True, True, False]
