"""The benchmark of batches runs, and the others wait for less where a batch's jobs are spaced."""

from pathlib import Path

from benchmarks.batches import OTHERS, fairness, sizes


async def test_others_wait_less_where_a_batchs_jobs_are_spaced(tmp_path: Path) -> None:
    found = [
        await fairness(f"sqlite:///{tmp_path / f'{spacing_s}.db'}", 200, slots=5, spacing_s=spacing_s)
        for spacing_s in (0.0, 1.0)
    ]
    assert [len(one.waits_s) for one in found] == [OTHERS, OTHERS]
    at_once, spaced = (max(one.waits_s) for one in found)
    assert spaced < at_once / 2
    assert found[1].batch_done > 0


async def test_batches_are_submitted_again_and_again(tmp_path: Path) -> None:
    found = await sizes(f"sqlite:///{tmp_path / 'ficha.db'}", 50, rounds=3)
    assert len(found.seconds) == 3
