"""`ficha jobs --search`, `dead groups`, `batch list` and the filters of lists, from a terminal."""

import asyncio
from collections.abc import Callable

import pytest

from ficha import Ficha
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")


def test_jobs_are_searched_and_dead_letters_grouped(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    async def fail(error: str) -> str:
        async with shop() as app:
            receipt = await app.submit("draw", {"prompt": "x"}, account="ana")
            [lease] = await app.claim(app.tools["draw"].pool, worker="w1")
            await app.fail(lease, error, final=False)
            return receipt.job_id

    ficha("account", "create", "ana", "--credits", "20")
    assert ficha("dead", "groups").err == "no dead letters\n"
    assert ficha("jobs", "--search", "state:failed").err == "no jobs\n"
    first, second = (asyncio.run(fail(f"timed out after {n} s")) for n in (5, 6))
    assert [row[0] for row in ficha("jobs", "--search", 'error:"AFTER 5"').rows] == [first]
    found = ficha("jobs", "--search", "dead:yes account:ana", "--json").items
    assert [job["id"] for job in found] == [second, first]
    wrong = ficha("jobs", "--search", "state:faild", expect=1)
    assert '"state:faild" at 1' in wrong.err
    both = ficha("jobs", "--search", "state:failed", "--tool", "draw", expect=2)
    assert "write it into the search" in " ".join(both.err.split())
    [group] = ficha("dead", "groups", "--json").items
    assert (group["count"], group["error"], group["job_id"]) == (2, "timed out after … s", second)
    assert ficha("dead", "groups").rows[0][:2] == ["2", "draw"]


def test_batches_accounts_and_audit_lines_are_listed(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    async def submit() -> None:
        async with shop() as app:
            await app.submit_batch([("draw", {"prompt": "x"}), ("draw", {"prompt": "y"})], account="ana")

    for name in ("ana", "anton", "bob"):
        ficha("account", "create", name, "--credits", "20")
    assert ficha("batch", "list").err == "no batches\n"
    asyncio.run(submit())
    [batch] = ficha("batch", "list", "--json").items
    assert (batch["account"], batch["total"], batch["progress"]) == ("ana", 2, 0)
    assert [row[:3] for row in ficha("batch", "list", "--account", "ana").rows] == [[batch["id"], "ana", "2"]]
    assert ficha("batch", "list", "--account", "bob").rows == []
    assert [row[0] for row in ficha("account", "list", "--search", "an").rows] == ["ana", "anton"]
    found = ficha("audit", "--target", "account anton", "--json").items
    assert [line["act"] for line in found] == ["open_account"]
    assert ficha("audit", "--target", "account anton", "--actor", "nobody").rows == []
    assert len(ficha("audit", "--actor", found[0]["actor"], "--json").items) == 3
