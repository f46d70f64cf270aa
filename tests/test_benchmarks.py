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
from tests.support.postgres import Server

ROOT = Path(__file__).parent.parent
SUBMITS = ["submit_1", "submit_64", "submit_512"]
WORK = ["work", "work_apart_1", "work_apart_2"]
WAITS = ["latency", "latency_apart"]
MEASUREMENTS = [*SUBMITS, "life_1", "life_64", "life_512", "bulk", "claim_finish", *WORK, *WAITS]
SERVED = ["work_apart_2", "latency_apart"]
LIVES = [f"life_{n}_to_submit_{n}" for n in (1, 64, 512)]
BY_WORKER = [key for key in MEASUREMENTS if key != "claim_finish"]
SIDES = {
    ("PostgreSQL", "Ficha"): MEASUREMENTS,
    ("PostgreSQL", "PgQueuer"): MEASUREMENTS,
    ("PostgreSQL", "awa"): [key for key in BY_WORKER if "apart" not in key],
    ("PostgreSQL", "Procrastinate"): [key for key in BY_WORKER if "work_apart" not in key],
    ("PostgreSQL", "raw ceiling"): ["bulk", "claim_finish"],
    ("SQLite", "Ficha"): [key for key in MEASUREMENTS if key not in SERVED],
    ("SQLite", "huey"): [key for key in BY_WORKER if key not in ("bulk", *SERVED)],
}
TARGETS = 12
PLOTS = ["postgresql-waits.svg", "postgresql.svg", "sqlite-waits.svg", "sqlite.svg"]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_quick_run_measures_every_peer_and_writes_results_that_do_not_name_the_machine(tmp_path: Path) -> None:
    # One test for all of it, because a run takes a while and the workers of a parallel run share no fixtures.
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    assert "submit, 64 callers" in done.stdout
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    check_figures(found)
    check_ratios(found["ratios"])
    check_targets(found["targets"])
    assert [(limit["key"], limit["p50_ms"] > 0) for limit in found["limits"]] == [("latency", True)]
    check_bytes(found)
    check_words(found["machine"], (tmp_path / "RESULTS.md").read_text(encoding="utf-8"))
    check_plots(tmp_path / "plots")


def check_bytes(found: dict[str, Any]) -> None:
    assert list(found["bytes"]) == ["Ficha", "PgQueuer"]
    assert all(figures["log"] > 0 for figures in found["bytes"].values())
    assert [limit["what"] for limit in found["byte_limits"]] == ["storage", "log"]


def check_figures(found: dict[str, Any]) -> None:
    assert {(database, peer) for database, peers in found["databases"].items() for peer in peers} == set(SIDES)
    for (database, peer), keys in SIDES.items():
        figures = found["databases"][database][peer]
        assert list(figures) == keys
        for figure in figures.values():
            assert figure["per_second"] > 0
            assert figure["cpu_us"] > 0
            assert len(figure["rounds"]) == found["size"]["rounds"]
        for key in {*SUBMITS, *WAITS} & set(keys):
            assert 0 < figures[key]["p50_ms"] <= figures[key]["p99_ms"]


def check_ratios(ratios: dict[str, Any]) -> None:
    expected = {side: {*keys, *LIVES} for side, keys in SIDES.items() if side[1] not in ("Ficha", "raw ceiling")}
    expected["PostgreSQL", "fastest peer"] = {*MEASUREMENTS, *LIVES}
    # The rows of many callers' submits share transactions like those of a bulk, and have the same ceiling.
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
    assert "| SQLite: submit to handler, one process, p50 |" in text
    assert "**huey** has no figure for submit in bulk: it has no way" in text
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text + str(machine)


def check_plots(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == PLOTS
    for name in PLOTS:
        text = (folder / name).read_text(encoding="utf-8")
        assert "Ficha" in text
        assert str(ROOT) not in text


@pytest.mark.parametrize(
    "peer",
    [pytest.param(peer, marks=[] if peer.name == "Ficha" else pytest.mark.long) for peer in PEERS["PostgreSQL"]],
    ids=lambda peer: peer.name,
)
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
    assert found["limits"] == []
    results.samples["PostgreSQL"]["Ficha"]["claim_finish"] = [Sample(259.0, 1.0)] * 3
    assert [t["reached"] for t in results.as_json()["targets"]] == [True, True, False]


def test_a_wait_is_judged_by_its_p50_beside_the_better_of_those_named_and_by_its_limit() -> None:
    results = Results({}, QUICK, measurements())
    waits_ms = {
        ("PostgreSQL", "Ficha"): [2.0, 1.0, 4.0],
        ("PostgreSQL", "PgQueuer"): [2.0, 1.5, 4.2],
        ("PostgreSQL", "Procrastinate"): [3.0, 3.0, 3.0],
        ("PostgreSQL", "awa"): [0.1, 0.1, 0.1],
        ("SQLite", "Ficha"): [0.5, 0.9, 1.1],
    }
    for (database, peer), values in waits_ms.items():
        for value in values:
            results.add(database, peer, "latency", Sample(1_000 / value, 1.0, value, value))
    found = results.as_json()
    assert [(t["peer"], t["ratio"], t["reached"]) for t in found["targets"]] == [("PgQueuer", 1.05, True)]
    assert found["fastest"]["PostgreSQL"] == {"latency": "awa"}
    assert [(limit["p50_ms"], limit["reached"]) for limit in found["limits"]] == [(0.9, True)]
    results.samples["PostgreSQL"]["Ficha"]["latency"][0] = Sample(1_000 / 2.1, 1.0, 2.1, 2.1)
    results.samples["PostgreSQL"]["Ficha"]["latency"][2] = Sample(1_000 / 4.3, 1.0, 4.3, 4.3)
    results.samples["SQLite"]["Ficha"]["latency"][0] = Sample(1_000, 1.0, 1.0, 1.0)
    found = results.as_json()
    assert [t["reached"] for t in found["targets"]] == [False]
    assert [limit["reached"] for limit in found["limits"]] == [False]
