"""The benchmark of an operator's pages asks every route, and each answers."""

from pathlib import Path

from benchmarks.operator_pages import OTHERS, SEARCHES, fill, measure


async def test_each_page_is_asked_for(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ficha.db'}"
    await fill(url, 4_000)
    lines = await measure(url, 1)
    assert len(lines) == 2 * len(SEARCHES) + len(OTHERS)
    assert all(line.first_ms > 0 and line.usual_ms > 0 for line in lines)
