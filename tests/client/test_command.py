"""The `ficha` command with a server instead of a database: the same words, for those who only have a key."""

import asyncio
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.cli.conftest import FICHA, ficha, folder, process
from tests.cli.running import Run
from tests.cli.test_watch import lines_until
from tests.client.scripted_server import http, wire
from tests.support.server_process import Served

pytestmark = pytest.mark.long_on("postgresql")

__all__ = ["ficha", "folder", "process"]

UNKNOWN = "0190f2c4-0000-7000-8000-000000000001"


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says nothing of a server, unless the test does."""
    for variable in ("FICHA_URL", "FICHA_TOKEN"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def admin(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of somebody who operates the server."""
    monkeypatch.setenv("FICHA_URL", server.url)
    monkeypatch.setenv("FICHA_TOKEN", server.admin)


@pytest.fixture
def user(server: Served, name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment of somebody with an account and a key for it."""
    key = server.account(name, credits=12)
    monkeypatch.setenv("FICHA_URL", server.url)
    monkeypatch.setenv("FICHA_TOKEN", key)
    return key


@pytest.mark.req("C1", "D2")
def test_a_persons_walk_with_the_installed_command(
    process: Run, server: Served, admin: None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = process("account", "create", name, "--plan", "pro")
    assert (opened.out, opened.err) == ("", f"{name} has 0 credits, on plan pro\n")
    first, again = (process("account", "grant", name, "12", "--reason", "bought", "--key", "pay-1") for _ in range(2))
    assert first.err == f"{name} has 12 credits, on plan pro\n"
    repeat = "; the key was used before, for entry 1, so nothing was changed"
    assert again.err == f"{name} has 12 credits, on plan pro{repeat}\n"
    key = process("apikey", "create", "laptop", "--account", name, "--ttl-hours", "1").out.strip()
    monkeypatch.setenv("FICHA_TOKEN", key)
    submitted = process("submit", "upscale", "-", "--key", "k1", given='{"image": "çat"}')
    job_id = submitted.out.strip()
    assert submitted.err.endswith("5 credits, 7 left\n")
    assert process("submit", "upscale", '{"image": "çat"}', "--key", "k1").out.strip() == job_id
    listed = process("jobs")
    assert (listed.rows[0][:5], listed.err) == ([job_id, "queued", "upscale", name, "5"], "")
    assert process("cancel", job_id, "--json").data["refunded"] == 5
    assert process("watch", job_id, expect=3).err == "cancelled: no reason given; 5 credits refunded\n"
    lines = process("ledger", "--json").items
    assert [(line["kind"], line["amount"]) for line in lines] == [("refund", 5), ("charge", -5), ("grant", 12)]
    assert ["balance", "12"] in process("account", "show").rows


async def test_a_watched_submit_shows_what_happens_and_prints_the_result(
    server: Served, user: str, folder: Path
) -> None:
    watching = await asyncio.create_subprocess_exec(
        *(FICHA, "submit", "paint", '{"prompt": "x"}', "--watch"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert watching.stderr is not None
        first, named, *_ = await lines_until("queued: ", watching.stderr)
        assert "3 credits, 9 left" in first
        lease = await asyncio.to_thread(server.take, named.split()[1])
        async with httpx.AsyncClient(
            base_url=f"{server.url}/api/worker/", headers={"Authorization": f"Bearer {server.service}"}, trust_env=False
        ) as worker:
            told = await worker.post("report", json={**lease, "progress": 40, "partial": ["a line"]})
            assert told.status_code == 200, told.text
            lines = await lines_until("so far: ", watching.stderr)
            assert (lines[-2:]) == ["running: 40 %", 'so far: ["a line"]']
            told = await worker.post("finish", json={**lease, "outcome": "completed", "result": {"picture": 1}})
            assert told.status_code == 200, told.text
        out, err = await asyncio.wait_for(watching.communicate(), 30)
        assert (watching.returncode, out) == (0, b'{"picture":1}\n')
        assert err.decode().splitlines()[-1].startswith("completed in ")
    finally:
        with suppress(ProcessLookupError):
            watching.kill()


def test_a_user_needs_no_account_and_a_service_says_which(
    ficha: Run, server: Served, user: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ficha("account", "show", "--json").data["id"] == name
    assert ficha("account", "show", name, "--json").data["id"] == name
    mine = ficha("submit", "embed", "--field", f"text={name}", "--json").data
    assert (mine["cost"], mine["new_balance"]) == (2, 10)
    assert ficha("submit", "embed", "--field", "text=x", "--account", "other", expect=1).err.endswith("[FORBIDDEN]\n")
    assert "FORBIDDEN" in ficha("account", "list", expect=1).err
    monkeypatch.setenv("FICHA_TOKEN", server.service)
    assert "your key is for all accounts" in ficha("submit", "embed", "--field", "text=x", expect=1).err
    assert ficha("submit", "embed", "--field", f"text=y{name}", "--account", name, "--json").data["new_balance"] == 8
    assert ficha("ledger", name, "--limit", "1", "--json").items[0]["amount"] == -2


def test_a_batch_and_a_list_in_parts(ficha: Run, user: str, folder: Path) -> None:
    lines = [json.dumps({"tool": "embed", "payload": {"text": f"{folder} {number}"}}) for number in range(5)]
    (folder / "jobs.jsonl").write_text("\n".join(lines))
    batch = ficha("batch", "submit", "jobs.jsonl", "--key", "b").out.strip()
    assert ficha("batch", "status", batch, "--json").data["by_status"] == {"queued": 5}
    part = ficha("jobs", "--batch", batch, "--limit", "3", "--json")
    assert len(part.items) == 3
    after = part.err.removeprefix("there may be more: --after ").strip()
    rest = ficha("jobs", "--batch", batch, "--after", after, "--json")
    assert len({job["id"] for job in [*part.items, *rest.items]}) == 5
    assert rest.err == ""
    assert ficha("jobs", "--batch", batch, "--after", UNKNOWN, expect=1).err.endswith("[INVALID_ARGUMENT]\n")
    assert ficha("batch", "cancel", batch).err == "5 jobs were cancelled\n"
    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(ficha, "watch", batch, expect=3)
        assert watching.result(30).err.startswith("100 % of 5 jobs ended: 5 cancelled\n")


@pytest.mark.req("C7", "E5")
def test_whoever_operates_a_server_has_the_same_commands(ficha: Run, server: Served, admin: None, name: str) -> None:
    server.account(name)
    assert ficha("account", "adjust", name, "-1", "--reason", "mistake").err == f"{name} has 99 credits, on plan open\n"
    assert ficha("account", "plan", name, "pro", "--json").data["plan"] == "pro"
    job_id = ficha("submit", "broken", "--account", name, "--key", "dead").out.strip()
    lease = server.take(job_id)
    with server.client(server.service) as worker:
        assert worker.post("/api/worker/finish", json={**lease, "outcome": "failed", "error": "no"}).status_code == 200
    assert ficha("dead", "list", "--account", name).rows[0][0] == job_id
    again = ficha("dead", "requeue", job_id).out.strip()
    assert ficha("job", again, "--json", "--history").data["history"][0]["kind"] == "submitted"
    assert ficha("dead", "discard", again).err == f"job {again} was not on the list\n"
    assert ficha("pools", "resize", "gpu", "7", "--json").data == {"name": "gpu", "slots": 7, "paused": False}
    assert ficha("pools", "resize", "gpu", "declared").err == "pool gpu has 3 slots\n"
    assert "gpu" in {row[0] for row in ficha("pools", "list").rows}
    assert ficha("recover", again).err == f"job {again}: nothing was due\n"
    assert "jobs" in ficha("recover", "--json").data
    assert ficha("stats", "--json").data["stuck"] == 0
    assert "gpu" in {pool["name"] for pool in ficha("top", "--json").data["pools"]}
    assert "last minute:" in ficha("top", "--once").out
    assert "needs the database" in ficha("doctor", expect=3).err
    assert ficha("stuck").err == "no held job is without a heartbeat for too long\n"
    assert ficha("idempotency", "--account", name).rows[0][:2] == [name, "dead"]
    assert ficha("reservations", "--account", name).err == "no reservations\n"
    assert {row[0] for row in ficha("workers").rows} >= {"tests"}
    assert ["upscale", "gpu", "5", "image, scale"] in ficha("tools").rows
    assert {tool["name"]: tool["cost"] for tool in ficha("tools", "--json").items}["images"] is None
    assert {line["act"] for line in ficha("audit", "--json").items if name in line["target"]} >= {
        "adjust",
        "change_plan",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("job", UNKNOWN),
        ("job", "nonsense"),
        ("batch", "status", UNKNOWN),
        ("dead", "requeue", UNKNOWN),
        ("pools", "pause", "nowhere"),
        ("account", "show", "nobody"),
        ("account", "grant", "nobody", "5", "--reason", "x"),
        ("account", "create", ""),
        ("cancel", UNKNOWN, "nonsense", "--json"),
        ("ledger", "nobody", "--json"),
    ],
    ids=" ".join,
)
def test_errors_read_the_same_as_at_the_database(
    ficha: Run, server: Served, admin: None, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    far = ficha(*arguments, expect=1)
    monkeypatch.delenv("FICHA_URL")
    near = ficha(*arguments, "--database", server.database, expect=1)
    assert far.out == near.out
    assert [line for line in far.err.splitlines() if not line.startswith("note: ")] == [
        line for line in near.err.splitlines() if not line.startswith("note: ")
    ]


class TestWithoutAServer:
    """Where the command is told of none, of one that is not there, or of one where it needs the database."""

    def test_a_server_that_is_away_is_named(self, ficha: Run) -> None:
        with wire() as gone:
            pass
        away = ficha("jobs", "--url", gone.url, "--json", expect=1)
        assert (away.error["code"], away.error["retryable"]) == ("SERVER", True)
        assert gone.url in away.error["message"]

    def test_something_else_that_answers_is_named(self, ficha: Run) -> None:
        with wire(http(200, b"<h1>hello</h1>", "text/html")) as other:
            assert "is it a Ficha server" in ficha("jobs", "--url", other.url, expect=1).err

    def test_what_is_no_url_is_refused(self, ficha: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FICHA_URL", "ficha.example.com")
        told = ficha("jobs", expect=1).err
        assert told == "error: a server's URL begins with https:// or http://, unlike 'ficha.example.com' [SERVER]\n"

    @pytest.mark.parametrize("arguments", [("verify",), ("migrate", "up"), ("migrate", "status")], ids=" ".join)
    def test_what_needs_the_database_says_so(self, ficha: Run, arguments: tuple[str, ...], monkeypatch) -> None:
        words = "http://ficha.test is a server, but this command needs the database; name it with --database"
        assert words in ficha(*arguments, "--url", "http://ficha.test", expect=1).err
        monkeypatch.setenv("FICHA_URL", "http://ficha.test")
        assert words in ficha(*arguments, expect=1).err
        assert "sqlite:///here.db is at version" in ficha("migrate", "up", "--database", "sqlite:///here.db").err
        assert ficha("verify", "--database", "sqlite:///here.db").err.endswith("all is well\n")

    @pytest.mark.parametrize("command", ["worker", "serve", "dev"])
    def test_what_runs_the_application_says_so(self, ficha: Run, folder: Path, command: str) -> None:
        (folder / "app.py").write_text("from ficha import Ficha\napp = Ficha()\n")
        assert "this command needs the database" in ficha(command, "--url", "http://ficha.test", expect=1).err

    def test_what_is_typed_stands_above_the_environment(self, ficha: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FICHA_URL", "http://ficha.test")
        ficha("account", "create", "ana", "--database", "sqlite:///here.db")
        assert ficha("account", "list", "--database", "sqlite:///here.db").rows[0][0] == "ana"

    def test_at_a_database_the_account_is_needed(self, ficha: Run) -> None:
        for arguments in (("submit", "draw"), ("batch", "submit", "x"), ("account", "show"), ("ledger",)):
            assert "error: Missing " in ficha(*arguments, expect=2).err
