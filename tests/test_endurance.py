"""The measures of endurance run and write what they should; what they find, no test says."""

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.databases import databases
from benchmarks.endurance.application import BIG, application
from benchmarks.endurance.filling import Contents, filled
from benchmarks.endurance.idle_worker import idle_worker
from benchmarks.endurance.sizes import QUICK

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("database", [pytest.param("postgres", marks=pytest.mark.long), "sqlite"])
async def test_a_filled_database_holds_what_was_asked_for_and_every_invariant(database: str) -> None:
    with databases(database) as (kind,):
        async with filled(kind, Contents(waiting=50, parked=40, finished=60), 7, print) as url, application(url) as app:
            assert await app.verify() == []
            big, *others = [await app.account(name) for name in (BIG, *(f"account-{n}" for n in range(7)))]
            assert (big.admitted, big.parked) == (10, 40)
            assert sum(account.admitted for account in others) == 50
            assert sum(account.submitted for account in others) == 50 + 60
            assert (await app.stats()).by_status == {"queued": 50 + 40 + 10}


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_quick_run_on_sqlite_writes_results_that_do_not_name_the_machine(tmp_path: Path) -> None:
    measures, text = quick_run(
        tmp_path, "--database", "sqlite", "--only", "flat", "--only", "polls", "--only", "memory"
    )
    targets = {key: [verdict["what"] for verdict in found["verdicts"]] for key, found in measures.items()}
    assert list(targets) == ["flat", "polls", "memory"]
    for call in ("submit", "claim 1", "claim 100", "finish", "finish, promotes", "submit, parked"):
        assert any(what.startswith(f"SQLite: p99 of a {call}, ") for what in targets["flat"])
    assert len(targets["polls"]) == 1
    worker = ["SQLite: an idle worker process"] * 3
    assert targets["memory"] == ["SQLite: an idle engine", *worker, "SQLite: growth over the last half of 800 jobs"]
    check_idle_worker(measures["memory"]["figures"]["SQLite"]["worker"])
    for private in (str(ROOT), "/tmp", "host="):  # noqa: S108 (looked for, not written to)
        assert private not in text + json.dumps(measures)


@pytest.mark.long
async def test_an_idle_worker_on_postgresql_is_watched() -> None:
    # Long enough for it to look by itself: else no statement would show that they are counted.
    with databases("postgres") as (kind,):
        found = await idle_worker(kind, replace(QUICK, watched_s=1.5))
    check_idle_worker(asdict(found))


def check_idle_worker(found: dict[str, float]) -> None:
    assert found["resident_mb"] > 10
    assert 0 <= found["of_a_core"] < 2
    assert found["statements_per_s"] > 0


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_quick_run_on_postgresql_writes_results_and_plots(tmp_path: Path) -> None:
    measures, text = quick_run(tmp_path, "--database", "postgres", "--only", "long", "--only", "scale")
    assert len(measures["long"]["verdicts"]) == 3
    runs = measures["scale"]["figures"]["one account"]
    assert runs.keys() == {"whole lives", "submits"}
    for run in (*runs["whole lives"].values(), *runs["submits"].values()):
        assert run["per_second"] > 0
        assert run["client_us"] > 0
        assert run["server_us"] > 0
    drawn = {plot.name for plot in (tmp_path / "plots").iterdir()}
    assert drawn == {"long_transaction.png", "scale_1.png"}
    assert all(f"(plots/{name})" in text for name in drawn)


def quick_run(folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    command = [sys.executable, "-m", "benchmarks.endurance", "--quick", "--output", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "endurance.json").read_text(encoding="utf-8"))
    return found["measures"], (folder / "ENDURANCE.md").read_text(encoding="utf-8")
