"""The benchmark of simulations runs, and a simulation predicts the waits of a real run."""

import pytest

from benchmarks.simulate import WITHIN, predict, week


def test_a_week_of_few_jobs_is_simulated() -> None:
    speed = week(2_000)
    assert speed.jobs == 2_000
    assert 0.7 < (speed.utilisation or 0) < 1


@pytest.mark.long
def test_the_waits_of_a_real_run_are_predicted() -> None:
    """Of a few jobs a percentile depends on chance (which of two comes first decides about seconds), so only the median
    of the plan that waits long is looked at; the benchmark looks at all of them."""
    free = predict(60.0, per_second=3.6, run_s=1.0, seed=3)[0]
    assert (free.plan, free.share) == ("free", 0.5)
    assert free.real_s > 1, "there was no queue to predict"
    assert free.error <= WITHIN
