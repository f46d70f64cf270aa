"""`ficha schedules`: recurring jobs in a terminal; one idempotency key, and reservations by state and count."""

import sys
from collections.abc import Callable
from pathlib import Path

from ficha import Ficha
from tests.cli.running import Run

CRON = """

@app.cron("0 9 * * 1-5", tz="America/Sao_Paulo", name="report")
async def report(job: JobContext) -> None: ...
"""


def test_schedules_are_listed_paused_resumed_and_run(ficha: Run, shop: Callable[[], Ficha], folder: Path) -> None:
    ficha("migrate", "up")
    assert (ficha("schedules", "list").out, ficha("schedules", "list").err) == ("", "no schedules\n")
    (folder / "app.py").write_text((folder / "app.py").read_text() + CRON)
    sys.modules.pop("app")
    (row,) = ficha("schedules", "list").rows
    assert row[:6] == ["report", "0 9 * * 1-5", "America/Sao_Paulo", "report", "free", "active"]
    assert ficha("schedules", "pause", "report").err == "schedule report is paused\n"
    made = ficha("schedules", "run", "report", "--key", "k1", "--json").data
    again = ficha("schedules", "run", "report", "--key", "k1").err
    assert again == f"schedule report: job {made['job_id']} (again)\n"
    assert ficha("schedules", "resume", "report").err.startswith("schedule report is active; next at ")
    (shown,) = ficha("schedules", "list", "--json").items
    assert (shown["fired"], shown["last"]["job_id"], shown["state"]) == (1, made["job_id"], "active")
    assert "no schedule 'other'" in ficha("schedules", "pause", "other", expect=1).err


async def test_one_key_and_reservations_by_state_and_count(ficha: Run, shop: Callable[[], Ficha]) -> None:
    ficha("migrate", "up")
    async with shop() as app:
        await app.open_account("ana", credits=100)
        for key in ("k1", "k2"):
            await app.submit("images", {"n": 1}, account="ana", idempotency_key=key)
        holds = [await app.reserve("ana") for _ in range(2)]
        await app.release(holds[0].id)
    assert [row[1] for row in ficha("idempotency", "--account", "ana", "--key", "k2").rows] == ["k2"]
    assert "name the account too" in ficha("idempotency", "--key", "k2", expect=1).err
    assert [row[0] for row in ficha("reservations", "--state", "active").rows] == [holds[1].id]
    assert ficha("reservations", "--count", "--json").data == {
        "active": 1,
        "consumed": 0,
        "released": 1,
        "expired": 0,
    }
    assert "state must be one of" in ficha("reservations", "--state", "open", expect=1).err


HOOK = """

@app.on("completed", tool="draw")
async def tell(job) -> None: ...
"""


async def test_hooks_are_listed_and_one_that_is_gone_is_forgotten(
    ficha: Run, shop: Callable[[], Ficha], folder: Path
) -> None:
    ficha("migrate", "up")
    assert ficha("hooks", "list").err == "no hooks\n"
    (folder / "app.py").write_text((folder / "app.py").read_text() + HOOK)
    sys.modules.pop("app")
    async with shop():
        pass
    (row,) = ficha("hooks", "list").rows
    assert row[:4] == ["tell", "declared", "completed", "draw"]
    assert "a running process declares the hook tell" in ficha("hooks", "forget", "tell", expect=1).err
    assert "there is no hook 'other'" in ficha("hooks", "forget", "other", expect=1).err
