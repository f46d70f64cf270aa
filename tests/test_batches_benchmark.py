"""The benchmark of batches runs: others wait for less where a batch's jobs are spaced, and memory stays flat."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from benchmarks.batches import OTHERS, fairness, sizes
from tests.support.postgres import new_database

ROOT = Path(__file__).parent.parent
SIZES = """
import asyncio, json, sys
from benchmarks.batches import sizes

found = asyncio.run(sizes(sys.argv[1], 10_000, rounds=8))
print(json.dumps([found.grown_mib, found.mib, found.seconds]))
"""
FLAT_MIB = 14
"""The bare items of four batches of 10,000, if they stayed, would take 19."""

Fresh = Callable[[], AbstractAsyncContextManager[str]]


@pytest.fixture(params=["sqlite", "postgresql"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Fresh:
    """Gives empty databases."""
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        return lambda: new_database(server)

    numbers = count()

    @asynccontextmanager
    async def file() -> AsyncIterator[str]:
        yield f"sqlite:///{tmp_path / f'{next(numbers)}.db'}"

    return file


async def test_others_wait_less_where_a_batchs_jobs_are_spaced(fresh: Fresh) -> None:
    found = []
    for spacing_s in (0.0, 1.0):
        async with fresh() as url:
            found.append(await fairness(url, 200, slots=5, spacing_s=spacing_s))
    assert [len(one.waits_s) for one in found] == [OTHERS, OTHERS]
    at_once, spaced = (max(one.waits_s) for one in found)
    assert spaced < at_once / 2
    assert found[1].batch_done > 0


async def test_batches_are_submitted_again_and_again(fresh: Fresh) -> None:
    async with fresh() as url:
        found = await sizes(url, 50, rounds=3)
    assert [len(found.seconds), len(found.worked), len(found.mib)] == [3, 3, 3]


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_batches_of_ten_thousand_leave_no_memory_behind(fresh: Fresh) -> None:
    """In a process of its own: what other tests gave back would hide it here."""
    async with fresh() as url:
        command = [sys.executable, "-c", SIZES, url]
        done = await asyncio.to_thread(
            subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=800, check=False
        )
    assert done.returncode == 0, done.stderr
    grown_mib, *_ = json.loads(done.stdout)
    assert grown_mib < FLAT_MIB, done.stdout
