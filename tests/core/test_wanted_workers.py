"""How many workers have work: what an autoscaler makes of a pool's queue."""

import pytest

from ficha.core.pools import wanted_workers, work_of
from ficha.core.records import Pool


@pytest.mark.parametrize(
    ("pool", "occupied", "running", "ready", "wanted"),
    [
        (Pool("gpu"), 0, 0, 0, 0),
        (Pool("gpu"), 0, 0, 1, 1),
        (Pool("gpu"), 0, 0, 20, 1),
        (Pool("gpu"), 0, 0, 21, 2),
        (Pool("gpu"), 15, 15, 5, 1),
        (Pool("gpu"), 15, 15, 6, 2),
        # Workers are for the slots that are left, however many jobs wait.
        (Pool("gpu", 40), 0, 0, 1_000, 2),
        (Pool("gpu", 40), 30, 30, 1_000, 2),
        (Pool("gpu", 40, 60), 0, 0, 1_000, 3),
        (Pool("gpu", 0), 0, 0, 1_000, 0),
        # An operator has taken slots away from jobs that run.
        (Pool("gpu", 40, 10), 30, 30, 1_000, 2),
        # What a provider has takes a slot, and no worker.
        (Pool("gpu", 40), 40, 0, 1_000, 0),
        (Pool("gpu", 40), 39, 0, 1_000, 1),
        # A paused pool keeps the workers that still run its jobs.
        (Pool("gpu", None, None, True), 0, 0, 1_000, 0),
        (Pool("gpu", None, None, True), 21, 21, 1_000, 2),
    ],
)
def test_workers_are_wanted_for_what_runs_and_what_could_start(
    pool: Pool, occupied: int, running: int, ready: int, wanted: int
) -> None:
    assert wanted_workers(work_of(pool, occupied=occupied, running=running, ready=ready), 20) == wanted
