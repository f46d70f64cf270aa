"""The measure of the console's pages runs on both databases; how fast anything is, no test says."""

import pytest

from benchmarks.console import PAGES, measured
from benchmarks.databases import databases


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
@pytest.mark.timeout(120)
async def test_every_page_is_measured(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.console.HOUR", 24 * 3_600_000_000)
    monkeypatch.setattr("benchmarks.console.SECOND", 60_000_000)
    with databases(database, drops=False) as [kind]:
        found = await measured(kind, 4_000, 1)
    assert [what for what, _, _ in found] == [*PAGES]
    assert all(len(took_ms) == 1 for _, took_ms, _ in found)
    assert all(size > 1_000 for what, _, size in found if what.startswith("overview"))
