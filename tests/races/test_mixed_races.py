"""Everything at once."""

import time
from collections import Counter

import pytest

from ficha import Ficha
from tests.races.application import SLOTS, application
from tests.races.history import most_slots_held, whole
from tests.races.mixture import ACCOUNTS, OPERATIONS, POOLS
from tests.races.race_processes import RaceProcesses

SHORT = {"lease_s": 0.1, "sweep_s": 0.05}
"""So that leases run out, and are recovered by whichever process sweeps, while their holders still use them."""


@pytest.mark.long_on("sqlite")
@pytest.mark.req("A1", "A5", "A6", "A7", "B3", "B4", "B5", "D1")
async def test_random_operations_from_six_processes_keep_every_invariant(
    processes: RaceProcesses, database: str
) -> None:
    async with application(database) as app:
        for account in ACCOUNTS:
            await app.open_account(account, plan="pro", credits=100)

    meddlers = [{"role": "meddle", "seed": seed, "callers": 3, "operations": 100} for seed in range(6)]
    *called, found = await processes.race(database, [*meddlers, {"role": "observe", "looks": 12}], **SHORT)

    assert found == []
    in_all = sum(map(Counter, called), Counter())
    assert in_all.total() == 6 * 3 * 100
    assert in_all.keys() == OPERATIONS.keys()
    async with application(database, **SHORT) as app:
        assert most_slots_held(await whole(app), "gpu") <= SLOTS
        await _drain(app)
        state = await whole(app)
    assert [job.id for job in state.jobs.values() if job.place is not None] == []


async def _drain(app: Ficha) -> None:
    """After the load every job comes to its end: by a worker, by its provider, or because its time is up."""
    give_up_at = time.monotonic() + 15
    while any([(await app.account(account)).active for account in ACCOUNTS]):
        assert time.monotonic() < give_up_at, "jobs are left that nothing ends"
        await app.sweep()
        # Leases are short here: one that was lost while others were being finished is claimed again.
        await app.finish_many((lease, {"images": 1}) for lease in await app.claim(POOLS, limit=100, worker="drain"))
        for job in (await app.jobs(statuses=("running",), limit=1_000)).items:
            if job.provider_ref is not None:
                await app.finish_job(job.id, app.completed({"images": 1}))
        await app.wait_for_work(POOLS, 0.02)
