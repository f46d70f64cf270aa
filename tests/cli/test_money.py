"""The money path by the command alone, on both databases: accounts, jobs, refunds, dead letters, recovery."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from ficha import Ficha, Lease, Plan
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")

Shop = Callable[[], Ficha]


def test_the_installed_command_goes_from_an_account_to_a_refund(process: Run, url: str, shop: Shop) -> None:
    opened = process("account", "create", "ana", "--credits", "12")
    assert (opened.out, opened.err) == ("", "ana has 12 credits, on plan free\n")
    submitted = process("submit", "draw", "-", "--account", "ana", "--key", "k1", given='{"prompt": "çat"}')
    job_id = submitted.out.strip()
    assert submitted.err == "the job is queued at position 1; 5 credits, 7 left\n"
    listed = process("jobs")
    assert (listed.rows[0][:5], listed.err) == ([job_id, "queued", "draw", "ana", "5"], "")
    assert process("cancel", job_id, "--json").data["refunded"] == 5
    lines = process("ledger", "ana", "--json").items
    assert [(line["kind"], line["amount"]) for line in lines] == [("refund", 5), ("charge", -5), ("grant", 12)]


@pytest.mark.req("D1")
def test_credits_are_granted_once_per_key_and_never_spent_twice(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "ana", "--plan", "pro")
    for repeat in (False, True):
        granted = ficha("account", "grant", "ana", "9", "--reason", "promo", "--key", "pay:1/2", "--json").data
        assert (granted["balance"], granted["plan"], granted["entry"]) == (9, "pro", 1)
        assert granted["idempotent_hit"] is repeat
    told = ficha("account", "grant", "ana", "9", "--key", "pay:1/2").err
    assert told == "ana has 9 credits, on plan pro; the key was used before, for entry 1, so nothing was changed\n"
    assert "open already" in ficha("account", "create", "ana", "--credits", "5", expect=1).err
    assert ficha("account", "create", "ana", "--credits", "5", "--exist-ok").err == "ana has 9 credits, on plan pro\n"
    first = ficha("submit", "draw", "--account", "ana", "--key", "k1", "--field", "prompt=cat", "--json").data
    again = ficha("submit", "draw", "--account", "ana", "--key", "k1", "--field", "prompt=cat")
    assert (again.out, first["new_balance"]) == (f"{first['job_id']}\n", 4)
    assert again.err.endswith("position 1; nothing was charged now\n")
    refused = ficha("submit", "draw", "--account", "ana", "--field", "prompt=cat", "--json", expect=1)
    assert (refused.out, refused.error["code"], refused.error["retryable"]) == ("", "INSUFFICIENT_CREDITS", False)
    assert refused.error["details"] == {"have": 4, "need": 5}
    words = ficha("submit", "draw", "--account", "ana", "--field", "prompt=cat", expect=1)
    assert words.err.endswith("Add credits first. [INSUFFICIENT_CREDITS]\n")
    assert ficha("account", "adjust", "ana", "-4", "--reason", "mistake").err == "ana has 0 credits, on plan pro\n"
    assert ficha("account", "adjust", "ana", "-1", "--reason", "mistake", expect=1).out == ""
    assert ficha("account", "plan", "ana", "free", "--json").data["plan"] == "free"
    assert "no plan 'gold'" in ficha("account", "plan", "ana", "gold", expect=1).err
    assert ["balance", "0"] in ficha("account", "show", "ana").rows
    assert [row[:3] for row in ficha("account", "list").rows] == [["ana", "free", "0"]]
    assert ficha("verify", "--json").data["ok"]


def test_a_job_that_ended_is_refunded_once(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "ana", "--credits", "12")
    job_id = ficha("submit", "draw", "--account", "ana", "--field", "prompt=cat").out.strip()
    assert "Cancel it" in ficha("refund", job_id, "--reason", "early", expect=1).err
    ficha("cancel", job_id)
    late = ficha("refund", job_id, "--reason", "late").err
    assert late == f"job {job_id}: nothing was given back; 5 credits of it had been refunded before\n"
    assert "--reason" in ficha("refund", job_id, expect=2).err
    assert ficha("refund", job_id, "--reason", "x", "--json").data["changed"] is False


@pytest.mark.req("C1")
def test_a_key_is_kept_no_longer_than_allowed(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "ana", "--credits", "100")
    asked = ("submit", "draw", "--account", "ana", "--field", "prompt=cat", "--key")
    ficha(*asked, "month", "--key-hours", "720")
    refused = ficha(*asked, "longer", "--key-hours", "720.01", "--json", expect=1)
    assert (refused.error["code"], refused.error["details"]) == ("INVALID_ARGUMENT", {"limit": 720})


@pytest.mark.req("C7")
async def test_keys_and_reservations_can_be_looked_at(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "a/b", "--credits", "100")
    jobs = [
        ficha("submit", "draw", "--account", "a/b", "--field", "prompt=x", "--key", key).out.strip()
        for key in ("k1", "k2", "k3")
    ]
    assert [row[:4] for row in ficha("idempotency").rows] == [
        ["a/b", key, "submit", job] for key, job in zip(("k1", "k2", "k3"), jobs, strict=True)
    ]
    page = ficha("idempotency", "--limit", "2", "--account", "a/b")
    assert (len(page.rows), page.err) == (2, "there may be more: --after a/b/k2/submit\n")
    assert [key["key"] for key in ficha("idempotency", "--after", "a/b/k2/submit", "--json").items] == ["k3"]
    assert "ACCOUNT/KEY/SCOPE" in ficha("idempotency", "--after", "k2", expect=2).err

    async with shop() as app:
        holds = [await app.reserve("a/b"), await app.reserve("a/b")]
        await app.release(holds[0].id)
    assert [row[:3] for row in ficha("reservations").rows] == [
        [holds[1].id, "active", "a/b"],
        [holds[0].id, "released", "a/b"],
    ]
    used = ficha("submit", "broken", "--account", "a/b", "--reservation", holds[1].id, "--json").data["job_id"]
    assert (
        ficha("reservations", "--limit", "1", "--json").items[0] | {"state": "consumed", "job_id": used}
        == (ficha("reservations", "--limit", "1", "--json").items[0])
    )
    assert ficha("reservations", "--account", "nobody").err == "no reservations\n"


@pytest.mark.req("B6")
async def test_a_dead_letter_is_looked_at_run_again_and_put_away(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "ana", "--credits", "10")
    job_id = ficha("submit", "broken", "--account", "ana").out.strip()
    async with shop() as app:
        await app.run_worker(burst=True)
    (dead,) = ficha("dead", "list").rows
    assert [*dead[:4], dead[5]] == [job_id, "broken", "ana", "3", r"the provider said\n\x1b[31mno"]
    mixed = ficha("dead", "requeue", job_id, "nonsense", expect=1)
    again = mixed.out.strip()
    assert mixed.err == f"job {job_id} is requeued\nerror: there is no job 'nonsense': an id is a UUID. [NOT_FOUND]\n"
    assert ficha("job", again, "--json").data["requeue_of"] == job_id
    assert ficha("dead", "requeue", job_id, "--json", expect=1).error["code"] == "INVALID_STATE"
    async with shop() as app:
        await app.run_worker(burst=True)
    assert ficha("dead", "discard", again).err == f"job {again} is discarded\n"
    assert ficha("dead", "discard", again, "--json").data == {"job_id": again, "changed": False}
    assert ficha("dead", "list").err == "no dead letters\n"
    assert ficha("account", "show", "ana", "--json").data["balance"] == 10
    history = ficha("job", job_id, "--history", "--json").data["history"]
    assert [event["kind"] for event in history][-2:] == ["failed", "requeued"]
    assert ficha("job", job_id, "--history").rows[-1][1:] == ["requeued", f'{{"as_job":"{again}"}}']


@pytest.mark.req("E4", "E5")
async def test_a_lost_job_is_found_and_recovered(ficha: Run, url: str, shop: Shop) -> None:
    ficha("account", "create", "ana", "--credits", "10")
    jobs = [ficha("submit", "images", "--account", "ana").out.strip() for _ in range(2)]
    await _lose(url)
    assert ficha("stats", "--json").data["by_status"] == {"starting": 2}
    assert ["starting", "2"] in ficha("stats").rows
    told = ficha("stats", "--range", "1h")
    assert ["submitted", "2"] in told.rows
    assert ["credits granted", "10 credits"] in told.rows
    assert ficha("stats", "--range", "1h", "--json").data["range"] == "1h"
    assert ficha("stats", "--range", "1y", "--json", expect=1).error["code"] == "INVALID_ARGUMENT"
    assert ficha("stuck").err == "no held job is without a heartbeat for over 10 min\n"
    assert ficha("recover", jobs[0]).err == f"job {jobs[0]}: requeued\n"
    assert ficha("recover", jobs[0], "--json").data == {"job_id": jobs[0], "act": "nothing", "refunded": 0}
    assert ficha("recover").err == "1 jobs requeued\n"
    assert ficha("recover", "--json").data == {"jobs": {}, "reservations": 0, "keys": 0, "files": 0, "sessions": 0}
    assert ficha("recover").err == "nothing was due\n"
    assert {job["status"] for job in ficha("jobs", "--json").items} == {"queued"}
    async with Ficha(url, plans=[Plan("free")], unused_file_s=0.001, sweep_by_itself=False) as app:
        await app.upload("ana", "a.txt", b"a")
    assert ficha("recover").err == "2 files swept\n", "it is removed, and then its bytes are deleted"


async def _lose(url: str) -> list[Lease]:
    """A worker claims everything, under leases that are over at once, and is never heard of again."""
    app = Ficha(url, lease_s=0.001)
    async with app:
        pass  # It has declared its pool.
    async with app.separate_operations(sweeps=False) as operations:
        return await operations.claim("default", worker="gone", limit=10)


@pytest.mark.req("E6")
async def test_a_batch_goes_in_whole_and_is_followed_resumed_and_cancelled(
    ficha: Run, url: str, shop: Shop, folder: Path
) -> None:
    ficha("account", "create", "ana", "--credits", "20")
    (folder / "jobs.jsonl").write_text('{"tool": "broken"}\n\n{"tool": "images", "payload": {"n": 2}}\n')
    batch = ficha("batch", "submit", "jobs.jsonl", "--account", "ana").out.strip()
    assert ["total", "2"] in ficha("batch", "status", batch).rows
    assert "by_checkpoint" not in ficha("batch", "status", batch).out
    assert ficha("batch", "status", batch, "--by-checkpoint", "--json").data["by_checkpoint"] == {"": 2}
    async with shop() as app:
        await app.run_worker(burst=True)
    assert ficha("batch", "status", batch, "--json").data["by_status"] == {"completed": 1, "failed": 1}
    assert ficha("watch", batch, expect=1).err.startswith("100 % of 2 jobs ended: ")
    assert ficha("batch", "resume", batch).err == "1 jobs were resumed; left as they are: 1 completed\n"
    assert ficha("batch", "cancel", batch, "--json").data == {"batch_id": batch, "cancelled": 1}
    assert len(ficha("jobs", "--batch", batch).rows) == 3
    assert ficha("watch", batch, "--json", expect=3).data["progress"] == 100

    split = ficha("submit", "images", "--field", "n=10", "--account", "ana")
    assert split.err.startswith("3 jobs, the first is queued")
    listing = ("jobs", "--batch", split.out.strip(), "--status", "queued", "--json")
    assert ficha(*listing, "--include", "payload,result").items[0]["payload"] == {"n": 3}
    assert "payload" not in ficha(*listing).items[0]
    assert "include must be" in ficha(*listing, "--include", "everything", expect=1).err
    poor = ficha("batch", "submit", "jobs.jsonl", "--tool", "images", "--account", "ana", expect=1)
    assert "[INVALID_PAYLOAD]" in poor.err, "with --tool each line is a payload"
    assert ficha("batch", "status", "nonsense", expect=1).err.endswith("[NOT_FOUND]\n")


def test_a_batch_is_submitted_from_csv_and_exported(ficha: Run, url: str, shop: Shop, folder: Path) -> None:
    ficha("account", "create", "ana", "--plan", "free", "--credits", "12")
    with gzip.open("jobs.csv.gz", "wt") as file:
        file.write("prompt,size\n1,4\n2,\n3,2\n")
    assert ficha("batch", "submit", "jobs.csv.gz", "--tool", "draw", "--account", "ana", expect=1).out == ""
    options = ("--tool", "draw", "--account", "ana", "--as-far-as-credits")
    told = ficha("batch", "submit", "jobs.csv.gz", *options)
    assert "1 jobs were left out; of 2 jobs" in told.err
    batch = told.out.strip()
    lines = [json.loads(line) for line in ficha("batch", "export", batch, "--payload").out.splitlines()]
    assert [line["payload"] for line in lines] == [{"prompt": "1", "size": 4}, {"prompt": "2"}]
    ficha("batch", "export", batch, "--output", "results.csv")
    assert (folder / "results.csv").read_text().splitlines()[0] == "job_id,tool,status,cost,error,result"
    assert "exists" in ficha("batch", "export", batch, "--output", "results.csv", expect=2).err
    (folder / "cut.csv.part").touch()
    assert "or one was killed; then remove it" in ficha("batch", "export", batch, "--output", "cut.csv", expect=2).err
    assert "cannot be written" in ficha("batch", "export", batch, "--output", "none/x.csv", expect=2).err
    for where in ((), ("--output", "none.csv")):
        missing = ficha("batch", "export", str(uuid4()), "--format", "csv", *where, expect=1)
        assert (missing.out, "[NOT_FOUND]" in missing.err) == ("", True)
    assert [*folder.glob("none*")] == [], "nothing is left that looks like an export"
    (folder / "bad.csv").write_text("prompt,size\nx,two\n")
    assert "line 2, column size" in ficha("batch", "submit", "bad.csv", *options, expect=2).err
