"""`ficha dev` as a server: where it listens, who may reach it, and the keys that it hands out."""

import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest

from ficha import Ficha
from ficha.cli.backend import operator
from ficha.server.routes.web_pages import is_console_built
from tests.cli.running import Run
from tests.support.processes import ForkedProcess

pytestmark = pytest.mark.long_on("postgresql")

Said = dict[str, list[str]]


@contextmanager
def developing(folder: Path, *arguments: str, kill: bool = False) -> Iterator[Said]:
    """What it printed, by the word that each line begins with; stopped by Ctrl-C, or killed."""
    dev = ForkedProcess(None, ["dev", *arguments], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        assert dev.stderr is not None
        said: Said = {}
        while "worker started" not in (line := dev.stderr.readline()):
            assert line, said
            said.setdefault(line.split()[0], []).append(line.rstrip("\n"))
        yield said
        if kill:
            return
        dev.send_signal(signal.SIGINT)
        assert dev.wait(20) == 0
        assert "Traceback" not in dev.stderr.read()
    finally:
        dev.kill()
        dev.communicate()


def status(said: Said, key: str) -> int:
    [server] = said["server"]
    return httpx.get(
        f"{server.split()[1]}/api/account", headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ).status_code


def lifetime(key: dict[str, str]) -> timedelta:
    return datetime.fromisoformat(key["expires_at"]) - datetime.fromisoformat(key["created_at"])


def test_its_keys_end_with_it_and_those_of_a_run_that_was_killed_end_with_the_next(
    ficha: Run, shop: Callable[[], Ficha], url: str, folder: Path
) -> None:
    named = ("--database", url)
    with developing(folder, "--port", "0", *named, kill=True) as said:
        first = [line.split()[1] for line in said["token"]]
        assert [key.startswith("ficha_user_") for key in first] == [True, True]
        assert [status(said, key) for key in first] == [200, 200]
        [admin] = [line.split()[1] for line in said["admin"]]
        assert admin.startswith("ficha_admin_")
    keys = ficha("apikey", "list", "--json", *named).items
    assert {(key["name"], key["state"]) for key in keys} == {
        (f"dev {name}", "live") for name in ("free", "pro", "admin")
    }
    assert all(timedelta(0) < lifetime(key) <= timedelta(hours=8) for key in keys), (
        "killed, it leaves them for no longer"
    )
    with developing(folder, "--port", "0", *named) as said:
        assert [status(said, key) for key in first] == [401, 401]
        assert [status(said, line.split()[1]) for line in said["token"]] == [200, 200]
    keys = ficha("apikey", "list", "--json", *named).items
    assert [key["state"] for key in keys] == ["revoked"] * 6

    lines = ficha("audit", "--json", *named).items
    assert {line["actor"] for line in lines} == {operator()}
    acts = Counter(line["act"] for line in lines)
    assert acts == {"open_account": 2, "create_api_key": 6, "revoke_api_key": 6}


def test_no_database_is_written_to_that_the_command_line_does_not_name(
    ficha: Run, shop: Callable[[], Ficha], url: str, folder: Path
) -> None:
    """The environment names one, and the application another."""
    if url.startswith("sqlite"):
        ficha("migrate", "up")
    text = (folder / "app.py").read_text()
    (folder / "app.py").write_text(text.replace("Ficha(", "Ficha('sqlite:///theirs.db', ", 1))
    with developing(folder, "--port", "0") as said:
        [note] = said["note:"]
        assert "throw-away SQLite file" in note
        [data] = said["data"]
        file = Path(data.split()[1].removeprefix("sqlite:///"))
        assert file.exists()
        assert [status(said, line.split()[1]) for line in said["token"]] == [200, 200]
        assert ficha("account", "list", "--json", "--database", url).items == []
    assert not file.parent.exists()
    assert not (folder / "theirs.db").exists()
    assert ficha("account", "list", "--json", "--database", url).items == []
    assert ficha("apikey", "list", "--json", "--database", url).items == []


def test_it_serves_the_console_and_prints_the_key_that_signs_in_there(shop: Callable[[], Ficha], folder: Path) -> None:
    with (folder / "app.py").open("a") as source:  # A free schedule has a plan of Ficha's own, which nobody else is on.
        source.write('\n\n@app.cron("@yearly")\nasync def tidy(job): ...\n')
    with developing(folder, "--port", "0") as said:
        [server], [console], [docs], [admin] = (said[word] for word in ("server", "console", "docs", "admin"))
        url, key = server.split()[1], admin.split()[1]
        assert console == f"console {url}/console (sign in with the admin key below)"
        assert docs.split()[1] == f"{url}/docs"
        assert not [line for line in said["account"] if "ficha:" in line]
        assert any("make web" in line for line in said.get("note:", ())) is not is_console_built()
        with httpx.Client(base_url=url, trust_env=False) as browser:
            assert browser.get("/console").status_code == (200 if is_console_built() else 503)
            signed_in = browser.post("/api/sign-in", json={"token": key}, headers={"Sec-Fetch-Site": "same-origin"})
            assert signed_in.json()["scope"] == "admin"
            assert browser.get("/api/admin/pools").status_code == 200


def test_it_prints_no_console_that_is_switched_off(
    shop: Callable[[], Ficha], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FICHA_CONSOLE", "off")
    with developing(folder, "--port", "0") as said:
        assert "console" not in said
        assert len(said["admin"]) == 1


def test_a_port_that_is_taken_is_said_and_the_next_one_used(shop: Callable[[], Ficha], folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with developing(folder, "--port", str(port)) as said:
            [server] = said["server"]
            used = int(re.findall(r":(\d+)$", server)[0])
            assert port < used < port + 20
            assert said["note:"][0] == f"note: port {port} is taken by another program; using {used}"


def test_others_may_reach_it_only_with_a_secret_that_was_set(
    process: Run, shop: Callable[[], Ficha], folder: Path
) -> None:
    said = process("dev", "--host", "0.0.0.0", "--port", "0", expect=1).err  # noqa: S104 (that is what is refused)
    assert "0.0.0.0 can be reached from outside" in said
    assert "FICHA_SECRET is not set" in said
    assert not (folder / "ficha.db").exists()
