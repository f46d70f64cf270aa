"""What works with a database alone; and that a command changes nothing by being run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ficha import Ficha, Plan, Pool
from tests.cli.running import Run

pytestmark = pytest.mark.long_on("postgresql")


@pytest.fixture
async def job_id(url: str) -> str:
    """A queued job in a database whose application is not here; its default pool has two slots and is not resized."""
    app = Ficha(url, plans=[Plan("gold", max_running=1)], pools=[Pool("default", slots=2)], sweep_by_itself=False)
    app.tool(name="draw", cost=5)(lambda job: None)
    async with app:
        await app.open_account("ana", credits=100)
        return (await app.submit("draw", account="ana")).job_id


def test_a_database_alone_is_enough_and_is_left_as_it_is(ficha: Run, url: str, job_id: str) -> None:
    pools = ficha("pools", "list", "--json").items
    assert [(pool["name"], pool["slots"], pool["ready"]) for pool in pools] == [("default", 2, 1)]
    for arguments in (
        ("jobs",),
        ("job", job_id),
        ("account", "show", "ana"),
        ("account", "list"),
        ("ledger", "ana"),
        ("stats",),
        ("stuck",),
        ("dead", "list"),
        ("idempotency",),
        ("reservations",),
    ):
        done = ficha(*arguments)
        assert "note: " not in done.err
    assert ficha("pools", "list", "--json").items == pools


def test_an_act_that_goes_by_settings_says_that_they_are_the_standard_ones(
    ficha: Run, url: str, job_id: str, folder: Path
) -> None:
    why = f"note: there is no module 'app' in {folder} or among the installed packages, so the standard settings"
    assert ficha("recover").err.startswith(why)
    assert ficha("account", "create", "bob", "--json").err.startswith(why)
    assert ficha("cancel", job_id).err.splitlines()[1] == f"job {job_id} is cancelled; 5 credits refunded"
    assert ficha("account", "grant", "ana", "5").err == "ana has 105 credits, on plan gold\n"
    refused = ficha("submit", "draw", "--account", "ana", expect=1)
    assert refused.err == (
        f"error: there is no module 'app' in {folder} or among the installed packages; "
        "name your application with --app module:attribute or FICHA_APP [APPLICATION]\n"
    )


def test_pools_are_paused_and_resized(ficha: Run, url: str, job_id: str) -> None:
    assert ficha("pools", "pause", "default").err == "pool default is paused\n"
    assert ficha("job", job_id, "--json").data["waiting_for"] == "pool_paused"
    assert ficha("jobs").rows[0][6] == "position 1, the pool default is paused"
    resumed = ficha("pools", "resume", "default", "--json").data
    assert resumed == {"name": "default", "slots": 2, "declared": 2, "paused": False}
    assert ficha("pools", "resize", "default", "7").err == "pool default has 7 slots\n"
    assert ficha("pools", "resize", "default", "declared").err == "pool default has 2 slots\n"
    assert ficha("pools", "list").rows == [["default", "2", "0", "1", "0", "no"]]
    assert ficha("pools", "pause", "gpu", expect=1).err.endswith("[NOT_FOUND]\n")
    for wrong in ("-1", "many", "1.5"):
        assert ficha("pools", "resize", "default", "--", wrong, expect=2).out == ""
    assert ficha("pools", "resize", "default", "1000001", expect=1).err.endswith("[INVALID_ARGUMENT]\n")


def test_looking_makes_no_database_and_writing_does(ficha: Run, folder: Path) -> None:
    for arguments in (("jobs",), ("stats",), ("recover",), ("account", "grant", "ana", "5")):
        assert "run `ficha migrate up`" in ficha(*arguments, expect=1).err
        assert not list(folder.iterdir())
    ficha("account", "create", "ana")
    assert (folder / "ficha.db").exists()


def test_the_database_is_the_applications_unless_another_is_named(
    ficha: Run, folder: Path, shop: Callable[[], Ficha], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "market.py").write_text(
        "from ficha import Ficha, Plan\nstall = Ficha('sqlite:///own.db', plans=[Plan('x')])\n"
    )
    monkeypatch.setenv("FICHA_DATABASE_URL", "sqlite:///named.db")
    ficha("account", "create", "a", "--app", "market:stall")
    monkeypatch.setenv("FICHA_APP", "market:stall")
    assert ficha("account", "list").rows[0][:2] == ["a", "x"]
    ficha("account", "create", "b", "--database", "sqlite:///other.db")
    assert ficha("account", "list", "--database", "sqlite:///other.db").rows[0][:2] == ["b", "x"]
    assert ficha("migrate", "status", "--json").data["version"] > 0
    assert not (folder / "named.db").exists()
    monkeypatch.delenv("FICHA_APP")
    ficha("account", "create", "c")
    assert (folder / "named.db").exists()


def test_a_memory_database_is_refused(ficha: Run) -> None:
    assert "exists only in its process" in ficha("jobs", "--database", "memory:", expect=1).err


def test_a_setting_that_makes_no_sense_is_named(ficha: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOB_LOCK_TTL_MS", "soon")
    assert ficha("jobs", expect=1).err == (
        "error: JOB_LOCK_TTL_MS must be a whole number of milliseconds, not 'soon' [APPLICATION]\n"
    )
