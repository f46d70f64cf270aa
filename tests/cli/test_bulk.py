"""`ficha bulk`: acts on all jobs that a search finds, from a terminal."""

import asyncio
from collections.abc import Callable

import pytest

from ficha import Ficha
from ficha.worker import BulkRunner
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")


def test_a_bulk_act_is_begun_done_by_a_worker_and_shown(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    ficha("account", "create", "ana", "--credits", "20")
    jobs = [ficha("submit", "draw", "--account", "ana", "--field", "prompt=cat").out.strip() for _ in range(2)]
    assert ficha("bulk", "list").err == "no bulk acts\n"
    counted = ficha("bulk", "cancel", "--search", "state:queued", "--reason", "a mistake", "--dry-run")
    assert (counted.out, counted.err) == ("", "2 jobs match, 10 credits together; nothing was changed\n")
    assert ficha("bulk", "list").err == "no bulk acts\n"
    begun = ficha("bulk", "cancel", "--search", "state:queued", "--reason", "a mistake")
    act = begun.out.strip()
    assert begun.err.startswith("cancel of 2 jobs, 10 credits together, has begun")

    async def work() -> None:
        async with shop() as app:
            await BulkRunner(app).drain()

    asyncio.run(work())
    shown = ficha("bulk", "show", act, "--json").data
    assert (shown["state"], shown["done"], shown["failed"], shown["reason"]) == ("done", 2, 0, "a mistake")
    assert ["state", "done"] in ficha("bulk", "show", act).rows
    again = ficha("bulk", "requeue", "--search", jobs[0], "--reason", "oops", "--json").data["id"]
    asyncio.run(work())
    told = ficha("bulk", "show", again)
    assert [jobs[0], "INVALID_STATE"] in [row[:2] for row in told.rows]
    assert [row[:3] for row in ficha("bulk", "list").rows] == [[again, "requeue", "done"], [act, "cancel", "done"]]
    assert ficha("bulk", "stop", act).err == "the bulk act is done after 2 jobs, 0 failed\n"
    for verb in ("discard", "refund"):
        assert ficha("bulk", verb, "--search", "dead:yes", "--reason", "x", "--json").data["total"] == 0
    assert "at 1" in ficha("bulk", "cancel", "--search", "state:faild", "--reason", "x", expect=1).err
    assert "--reason" in ficha("bulk", "cancel", "--search", "dead:yes", expect=2).err
    assert "there is no bulk act" in ficha("bulk", "show", "none", expect=1).err


def test_a_refund_of_a_part_says_before_what_it_would_cost(ficha: Run, url: str, shop: Callable[[], Ficha]) -> None:
    ficha("account", "create", "ana", "--credits", "20")
    jobs = [ficha("submit", "draw", "--account", "ana", "--field", "prompt=cat").out.strip() for _ in range(3)]

    async def work() -> None:
        async with shop() as app:
            while leases := await app.claim("gpu", worker="w", limit=3):
                for lease in leases:
                    await app.finish(lease, {})
            await BulkRunner(app).drain()

    asyncio.run(work())
    asked = ("bulk", "refund", "--search", "state:completed", "--reason", "slow")
    for part, back in (((), 15), (("--amount", "3"), 9), (("--amount", "9"), 15), (("--share", "0.1"), 4)):
        told = ficha(*asked, *part, "--dry-run")
        assert told.err == (
            f"3 jobs match, 15 credits together; at most {back} credits would be given back; nothing was changed\n"
        )
    assert ficha(*asked, "--share", "0.5", "--dry-run", "--json").data["refunded_at_most"] == 10
    one = ("refund", jobs[0], "--reason", "slow")
    assert "at most 5" in ficha(*one, "--amount", "6", expect=1).err
    assert "not both" in ficha(*one, "--amount", "1", "--share", "0.5", expect=1).err
    assert "at most 1" in ficha(*asked, "--share", "50", "--dry-run", expect=1).err
    assert ficha(*one, "--share", "0.5").err == f"job {jobs[0]}: 3 credits refunded\n"
    again = "nothing was given back; 3 credits of it had been refunded before"
    assert ficha(*one, "--share", "0.5").err == f"job {jobs[0]}: {again}\n"
    begun = ficha(*asked, "--amount", "2")
    assert begun.err.startswith("refund of 3 jobs, 15 credits together, at most 2 credits of each, has begun")
    asyncio.run(work())
    shown = ficha("bulk", "show", begun.out.strip(), "--json").data
    assert (shown["done"], shown["failed"], shown["amount"], shown["share"]) == (2, 1, 2, None)
    assert ficha("account", "show", "ana", "--json").data["balance"] == 20 - 15 + 3 + 2 * 2
