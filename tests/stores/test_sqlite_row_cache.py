"""What the SQLite store remembers is what the rows hold, and spares it the reading; whoever else writes is seen."""

import apsw
import pytest
from msgspec.structs import replace

from ficha.core import commands as c
from ficha.core.needs import Needs
from ficha.core.outcomes import AccountChanged, Claimed, Finished, Refusal
from ficha.core.snapshot import Changes, Snapshot
from ficha.store.base import Decision, StoreError
from ficha.store.sqlite import load, row_cache
from tests.stores.sqlite_setup import COMMITTER, StoreSetup, a_submit, job_id, opened, statements


async def claim(setup: StoreSetup) -> int:
    """Job 1, submitted and claimed; answers with the lease's epoch."""
    _, claimed = await setup.run(a_submit(1), c.Claim("w1", ("gpu",), 1))
    assert isinstance(claimed, Claimed)
    return claimed.leases[0].epoch


def finish(epoch: int) -> c.Finish:
    return c.Finish(job_id(1), c.Completed("{}"), epoch)


async def test_what_this_process_wrote_last_is_not_read_again(setup: StoreSetup) -> None:
    epoch = await claim(setup)
    seen = await statements(setup)
    (finished,) = await setup.run(finish(epoch))
    assert isinstance(finished, Finished)
    assert (finished.changed, finished.new_balance) == (True, 98)
    assert seen
    assert not {load.JOBS, load.ACCOUNTS} & set(seen)


async def test_a_job_that_ended_is_read(setup: StoreSetup) -> None:
    epoch = await claim(setup)
    await setup.run(finish(epoch))
    seen = await statements(setup)
    (again,) = await setup.run(finish(epoch))
    assert isinstance(again, Finished)
    assert not again.changed
    assert load.JOBS in seen


async def test_what_another_store_wrote_is_seen(setup: StoreSetup, path: str) -> None:
    epoch = await claim(setup)
    async with opened(path) as other:
        (cancelled,) = await other.run(c.CancelJob(job_id(1)))
        assert isinstance(cancelled, Finished)
        assert (cancelled.changed, cancelled.new_balance) == (True, 100)
        late, credited = await setup.run(finish(epoch), c.Credit("ana", 5, "grant"))
        assert isinstance(late, Finished)
        assert (late.status, late.changed) == ("cancelled", False)
        assert isinstance(credited, AccountChanged)
        assert credited.account.balance == 105
        (back,) = await other.run(c.Credit("ana", 1, "grant"))
        assert isinstance(back, AccountChanged)
        assert back.account.balance == 106


async def test_what_somebody_changed_by_hand_is_seen(setup: StoreSetup, path: str) -> None:
    epoch = await claim(setup)
    apsw.Connection(path).execute("UPDATE leases SET epoch = epoch + 1")
    (lost,) = await setup.run(finish(epoch))
    assert isinstance(lost, Refusal)
    assert lost.code == "LEASE_LOST"


async def test_a_commit_group_that_was_not_kept_is_not_remembered(setup: StoreSetup) -> None:
    def overdraw(snapshot: Snapshot) -> Decision:
        account = snapshot.accounts["ana"]
        assert account is not None
        return Changes(accounts=[replace(account, balance=1_000), replace(account, balance=-1)]), []

    await setup.run(c.Credit("ana", 1, "grant"))
    with pytest.raises(StoreError, match="CHECK constraint failed"):
        await setup.store.transact(COMMITTER, 90, Needs(accounts={"ana"}), overdraw)
    setup.number = 90
    (credited,) = await setup.run(c.Credit("ana", 1, "grant"))
    assert isinstance(credited, AccountChanged)
    assert credited.account.balance == 102


async def test_there_is_no_end_of_what_can_be_written(setup: StoreSetup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "MOST", 3)
    await setup.run(*(c.OpenAccount(f"account-{number}", "pro", 10) for number in range(10)))
    seen = await statements(setup)
    (credited,) = await setup.run(c.Credit("account-7", 1, "grant"))
    assert isinstance(credited, AccountChanged)
    assert credited.account.balance == 11
    assert load.ACCOUNTS in seen
