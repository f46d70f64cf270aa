"""The benchmark of a provider's rate runs, and its busiest minute has no more requests than the rate."""

from pathlib import Path

from benchmarks.provider_rate import measure
from ficha.providers import Provider


async def test_a_few_jobs_keep_the_rate_and_the_number_at_once(tmp_path: Path) -> None:
    provider = Provider("slow", rate="20/m", at_once=2, timeout_s=5.0)
    found = await measure(f"sqlite:///{tmp_path / 'ficha.db'}", 30, processes=2, callers=3, provider=provider)
    assert found.sent >= 30
    assert 15 <= found.busiest_minute <= 20
    assert 1 <= found.most_at_once <= 2
    assert found.virtual_s > 60
